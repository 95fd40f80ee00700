"""TransferServer: a StageServer for a channel with several transfers under way at once.

Design: docs/design/processing-element.md
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol, TypeGuard

from simpy.events import NORMAL

from kb_engine.block.fabric_roles import Initiator
from kb_engine.block.gates import Gate
from kb_engine.block.in_flight import TileToken
from kb_engine.block.stage_server import Record, RecordWait, Service, StageServer
from kb_engine.block.state_visitor import DEADLINE, MOMENT, SAME, TOKEN, State, each, only_with
from kb_messages import Stage, StageType


class TransferService(Service, Protocol):
    """The interface of an Initiator for its TransferServers."""

    @property
    def outstanding(self) -> int:
        """The transfers of a channel that may be under way at once."""

    def issued_ps(self, stage_type: StageType) -> int:
        """The picosecond at which the transfer that has just begun lets the next one begin."""


class TransferServer(StageServer):
    """The queue of a channel, with up to `outstanding` tokens in front.

    Services begin one after the other: one holds the channel from its gates to the end of its set-up (`issued_ps`).
    After that it is under way, and services overlap. Of the tokens in front, the first one that can begin does.

    Tokens leave for other blocks in the order in which they came. A token that is done earlier waits for the tokens
    before it, and keeps its place in front until it has left. A token whose tile ends here is done at once, because no
    block waits for it. A token whose next stage is here begins that stage as soon as the channel is free.

    A service that claims registers begins only when no token before it has a service here left to begin. Otherwise a
    later tile could take the registers that the tile before it needs to leave.

    `busy_ps` counts the time with at least one service under way. `token` is the first token in front while no other
    has room there, else None.
    """

    state: ClassVar[State] = {
        "_in_front": each(TOKEN),
        "_to_begin": each(TOKEN),
        "_under_way": each(TOKEN),
        "_done": each(TOKEN),
        "_entering": TOKEN,
        "_is_blocked": SAME,
        "_busy_since_ps": only_with("_under_way", MOMENT),
        "_first_since_ps": DEADLINE,
    }
    __slots__ = (*state, "_begin_transfer", "_most", "_service")

    def __init__(
        self,
        component: TransferService,
        stage_type: StageType,
        record: Record | None = None,
        record_wait: RecordWait | None = None,
    ) -> None:
        super().__init__(component, stage_type, record, record_wait)
        self._service = component
        self._most = component.outstanding
        self._in_front: list[TileToken] = []
        self._to_begin: list[TileToken] = []
        self._under_way: list[TileToken] = []
        self._done: list[TileToken] = []
        self._entering: TileToken | None = None
        self._is_blocked = False
        self._busy_since_ps = self._first_since_ps = 0
        self._begin_transfer = self.begin
        self.begin = self._begin_and_set_up

    @property
    def outstanding(self) -> int:
        """The transfers of this channel that may be under way at once."""
        return self._most

    @property
    def in_front(self) -> Sequence[TileToken]:
        """The tokens that have left the queue and not the block, in the order in which they came."""
        return self._in_front

    def serves(self, token: TileToken) -> bool:
        """Whether the service of *token* has begun and not ended."""
        return token in self._under_way

    def has_served(self, token: TileToken) -> bool:
        """Whether *token* is done here, and waits for tokens before it or for room in the next queue."""
        return token in self._done

    def ahead_of(self, token: TileToken) -> TileToken | None:
        """The token that *token* waits for: the first one in front, or the one that holds the channel."""
        if token in self._to_begin:
            return self._entering or self._in_front[0]
        return None if token in self._under_way or token is self._entering else self._in_front[0]

    def turn_to_leave_ps(self, token: TileToken) -> int:
        """The picosecond from which *token* was both first and done."""
        return max(token.t_end, self._first_since_ps)

    def granted(self, token: TileToken, gate: Gate) -> None:
        """*gate*, where *token* waited, has let it in."""
        super().granted(token, gate)
        self._begin_next()

    def _serve(self, token: TileToken) -> None:
        """Takes *token* in front. There is room."""
        self._take(token)
        self._note_room()
        self._begin_next()

    def _take(self, token: TileToken) -> None:
        self._in_front.append(token)
        self._to_begin.append(token)

    def _note_room(self) -> None:
        self.token = self._in_front[0] if len(self._in_front) >= self._most else None

    def _begin_next(self) -> None:
        """Begins services until one holds the channel, or none can begin."""
        to_begin = self._to_begin
        while to_begin and self._entering is None:
            for token in self._in_front:
                if token in to_begin and self._may_begin(token):
                    break
            else:
                return
            to_begin.remove(token)
            self._entering = token
            super()._serve(token)
            self._note_room()

    def _may_begin(self, token: TileToken) -> bool:
        """Whether *token* claims nothing with its service, or no token before it has a service here left to begin."""
        claim: Gate | None = token.context.claims[self.stage_type]
        if claim is None or not claim.wants(token):
            return True
        before = self._in_front[: self._in_front.index(token)]
        to_come = (stage for each in before for stage in each.stages[each.index + 1 :])
        return not any(each in self._to_begin for each in before) and not any(map(self._is_here, to_come))

    def _begin_and_set_up(self, token: TileToken, finish: Callable[[TileToken], None]) -> None:
        now = self.clock.now_ps
        if not self._under_way:
            self._busy_since_ps = now
        self._under_way.append(token)
        self._begin_transfer(token, finish)
        issued_ps = self._service.issued_ps(self.stage_type)
        if issued_ps > now:
            self.clock.push((issued_ps, NORMAL, next(self.event_order), self._end_set_up, token))
        else:
            self._entering = None

    def _end_set_up(self, _: TileToken) -> None:
        self._entering = None
        self._begin_next()

    def _finish(self, token: TileToken) -> None:
        """Ends a service: frees its gates, then completes the tile, goes on with its next stage here, or lets the token
        go.
        """
        if token not in self._under_way:
            raise self._finished_twice(token)
        token.t_end = now = self.clock.now_ps
        self._under_way.remove(token)
        if not self._under_way:
            self.busy_ps += now - self._busy_since_ps
        self.served += 1
        for gate in self.exits:
            gate.leave(token)
        free = token.context.frees[self.stage_type]
        if free is not None:
            free(token)
        self._look_up_record(token)
        if token.index + 1 == len(token.stages):
            self._log(token, now)
            token.context.complete_tile(token, self.node_id)
            self._remove(token)
        elif self._is_here(token.stages[token.index + 1]):
            self._move_on(token, now)
            self._to_begin.append(token)
        else:
            self._done.append(token)
        self._leave()

    def _leave(self) -> None:
        """Passes tokens on while the first one is done and the next queue has room, and fills their places.

        Senders that already wait for room in the next queue go first.
        """
        while self._in_front and not self._is_blocked and self._in_front[0] in self._done:
            token = self._in_front[0]
            target = self._find_next(token.stages[token.index + 1])
            if target.has_room and not target.blocked:
                self._pass_on(token, target)
            else:
                self._is_blocked = True
                target.wait_for_room(self._unblocked, token)
        self._refill()

    def _unblocked(self, token: TileToken) -> None:
        self._is_blocked = False
        self._pass_on(token, self._find_next(token.stages[token.index + 1]))
        self._leave()

    def _pass_on(self, token: TileToken, target: StageServer) -> None:
        self._done.remove(token)
        self._look_up_record(token)
        self._move_on(token, self.clock.now_ps)
        self._remove(token)
        target.put(token)

    def _look_up_record(self, token: TileToken) -> None:
        """Notes how the times of *token* are recorded, because a token of another command may begin before this one
        ends.
        """
        self._record = self.record if token.context.submitted.data_op else None

    def _remove(self, token: TileToken) -> None:
        if token is self._in_front[0]:
            self._first_since_ps = self.clock.now_ps
        self._in_front.remove(token)

    def _refill(self) -> None:
        """Takes tokens from the queue, and lets senders in, as long as there is room. Brings `token` up to date."""
        while True:
            while self.queue and len(self._in_front) < self._most:
                self._take(self.queue.popleft())
            self._note_room()
            if not self.blocked or not self.has_room:
                break
            send, token = self.blocked.popleft()
            send(token)
        self._begin_next()

    def _is_here(self, stage: Stage) -> bool:
        return stage.stage_type is self.stage_type and stage.component == self.node_id


def server_of(
    component: Service, stage_type: StageType, record: Record | None = None, record_wait: RecordWait | None = None
) -> StageServer:
    """The queue of *component* for *stage_type*: a TransferServer for an Initiator with several transfers under way."""
    if has_several_under_way(component):
        return TransferServer(component, stage_type, record, record_wait)
    return StageServer(component, stage_type, record, record_wait)


def has_several_under_way(component: Service) -> TypeGuard[TransferService]:
    """Whether *component* has several transfers of a channel under way at once."""
    return isinstance(component, Initiator) and component.outstanding > 1
