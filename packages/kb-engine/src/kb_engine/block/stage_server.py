"""StageServer: the queue of a block for one stage type, and the service behind it.

Design: docs/design/processing-element.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Protocol

from simpy.events import NORMAL

from kb_engine.block.bounded_queue import BoundedQueue
from kb_engine.block.gates import Gate, WiringError
from kb_engine.block.in_flight import CommandInFlight, PipelineError, TileToken
from kb_engine.block.state_visitor import COUNT, State
from kb_engine.timing.clock import Clock
from kb_engine.timing.interning import interned
from kb_messages import Stage, StageParams, StageType, WaitReason

Record = Callable[[tuple[int, int, int, int, int]], None]
RecordWait = Callable[[int, WaitReason, int], None]

_MAX_KNOWN_COSTS = 4096


class Service(Protocol):
    """The service behind a queue: the interface of a block for its stage servers."""

    @property
    def node_id(self) -> str:
        """The block's node in the topology."""

    @property
    def clock(self) -> Clock:
        """The simulation's clock."""

    @property
    def event_order(self) -> Iterator[int]:
        """The numbers for the clock entries of the block's PE."""

    @property
    def has_pure_cost(self) -> bool:
        """Whether `service_ps` is the whole cost of a service, and `begin` is never called."""

    def queue_depth(self, stage_type: StageType) -> int:
        """Tokens that may wait in the queue for *stage_type*."""

    def service_ps(self, params: StageParams) -> int:
        """Picoseconds a stage holds the block. Pure."""

    def begin(self, token: TileToken, finish: Callable[[TileToken], None]) -> None:
        """Starts serving *token* now, and calls *finish* with it at the end."""


_CACHES = (
    "_command",
    "_cost_ps",
    "_costs",
    "_free",
    "_next_server",
    "_next_stage",
    "_own_component",
    "_record",
    "_stage",
    "gates",
)
"""Slots of a StageServer that remember answers, so that tiles like the one before cost less. They may be emptied.

For tiles of `_command`, `gates` are the gates before a service, `_free` is the call after it, and `_record` takes its
times. `_cost_ps` is the cost of `_stage`, and `_costs` has the costs of earlier stages by the ids of their parameters.
`_next_server` serves `_next_stage`. `_own_component` is this block's id as plans spell it.
"""


class StageServer(BoundedQueue):
    """One queue of one block, and the service behind it, which takes tokens in order, one at a time.

    A service begins when its token has passed all gates: the one where its command claims a place, if any, and then
    `own_gates`. `exits` are the own gates that override `leave`. `downstream[stage_type][node_id]` are the servers that
    a wire leads to. `record` takes the times of each stage of a data command, and `record_wait` its waits at gates.
    `busy_ps` and `served` count.
    """

    __slots__ = (
        *_CACHES,
        "begin",
        "busy_ps",
        "component",
        "downstream",
        "exits",
        "finish",
        "node_id",
        "own_gates",
        "record",
        "record_wait",
        "served",
        "stage_type",
        "event_order",
    )
    state: ClassVar[State] = {"busy_ps": COUNT, "served": COUNT}
    caches: ClassVar[tuple[str, ...]] = _CACHES

    def __init__(
        self,
        component: Service,
        stage_type: StageType,
        record: Record | None = None,
        record_wait: RecordWait | None = None,
    ) -> None:
        super().__init__(component.clock, component.queue_depth(stage_type))
        self.component = component
        self.node_id = component.node_id
        self.stage_type = stage_type
        self.event_order = component.event_order
        self.own_gates: tuple[Gate, ...] = ()
        self.exits: tuple[Gate, ...] = ()
        self.downstream: list[dict[str, StageServer]] = [{} for _ in StageType]
        self.finish = self._finish
        self.begin = self._begin_pure if component.has_pure_cost else component.begin
        self.record = record
        self.record_wait = record_wait
        self.busy_ps = 0
        self.served = 0
        self._forget()

    def _forget(self) -> None:
        """Empties every cache."""
        self._command: CommandInFlight | None = None
        self.gates = self.own_gates
        self._free: Callable[[TileToken], None] | None = None
        self._record: Record | None = None
        self._own_component = self.node_id
        self._next_stage: Stage | None = None
        self._next_server = self
        self._stage: Stage | None = None
        self._cost_ps = 0
        self._costs: dict[int, tuple[StageParams, int]] = {}

    def guard(self, gates: tuple[Gate, ...]) -> None:
        """Puts *gates* before a service: its token passes them, in order, and then the gates of earlier calls."""
        self.own_gates = self.gates = (*gates, *self.own_gates)
        self.exits = tuple(gate for gate in self.own_gates if type(gate).leave is not Gate.leave)

    @property
    def outstanding(self) -> int:
        """How many tokens can be in front at once."""
        return 1

    @property
    def in_front(self) -> Sequence[TileToken]:
        """The tokens that have left the queue and not the block: at a gate, in service, or waiting to leave."""
        return () if self.token is None else (self.token,)

    def serves(self, token: TileToken) -> bool:
        """Whether *token* is in front, and not done while others are served."""
        return token is self.token

    def has_served(self, token: TileToken) -> bool:
        """Whether *token* is done here, and waits for tokens before it to leave."""
        return False

    def ahead_of(self, token: TileToken) -> TileToken | None:
        """The token that *token*, which is here, waits for; None when no token of this block is in its way."""
        return None if token is self.token else self.token

    def turn_to_leave_ps(self, token: TileToken) -> int:
        """The picosecond from which *token*, whose service has ended, waited for the next queue alone."""
        return token.t_end

    def granted(self, token: TileToken, gate: Gate) -> None:
        """*gate*, where *token* waited, has let it in."""
        waits = token.waits
        if waits is None:
            waits = token.waits = []
        waits.append((gate.reason, self.clock.now_ps - token.waits_since))
        passed = self.gates.index(gate) + 1
        for other in self.gates[passed:]:
            if (other.waiting and other.wants(token)) or not other.admit(token):
                self._wait_at(other, token)
                return
        token.t_start = self.clock.now_ps
        self.begin(token, self.finish)

    def _serve(self, token: TileToken) -> None:
        self.token = token
        if token.context is not self._command:
            self._turn_to(token.context)
        for gate in self.gates:
            if (gate.waiting and gate.wants(token)) or not gate.admit(token):
                self._wait_at(gate, token)
                return
        token.t_start = self.clock.now_ps
        self.begin(token, self.finish)

    def _wait_at(self, gate: Gate, token: TileToken) -> None:
        token.waits_since = self.clock.now_ps
        gate.waiting.append((self.granted, token))

    def _turn_to(self, command: CommandInFlight) -> None:
        """Looks up the gate and the calls of *command* for its tiles here."""
        self._command = command
        claim: Gate | None = command.claims[self.stage_type]
        self.gates = self.own_gates if claim is None else (claim, *self.own_gates)
        self._free = command.frees[self.stage_type]
        self._record = self.record if command.submitted.data_op else None

    def _begin_pure(self, token: TileToken, finish: Callable[[TileToken], None]) -> None:
        """Schedules the end of a service whose cost depends on its parameters alone. Each cost is asked for once."""
        stage = token.stages[token.index]
        if stage is not self._stage:
            params = stage.params
            _, self._cost_ps = self._costs.get(id(params)) or self._ask_cost(params)
            self._stage = stage
        clock = self.clock
        clock.push((clock.now_ps + self._cost_ps, NORMAL, next(self.event_order), finish, token))

    def _ask_cost(self, params: StageParams) -> tuple[StageParams, int]:
        if len(self._costs) >= _MAX_KNOWN_COSTS:
            self._costs.clear()
        known = self._costs[id(params)] = (params, interned(self.component.service_ps(params)))
        return known

    def _finish(self, token: TileToken) -> None:
        """Ends a service: frees its gates, then passes the token on, keeps the token, or completes the tile."""
        if token is not self.token:
            raise self._finished_twice(token)
        token.t_end = now = self.clock.now_ps
        self.busy_ps += now - token.t_start
        self.served += 1
        for gate in self.exits:
            gate.leave(token)
        if self._free is not None:
            self._free(token)
        index = token.index + 1
        stages = token.stages
        if index == len(stages):
            self._log(token, now)
            token.context.complete_tile(token, self.node_id)
        else:
            stage = stages[index]
            if stage is self._next_stage:
                target = self._next_server
            elif stage.component is self._own_component and stage.stage_type is self.stage_type:
                self._move_on(token, now)
                self._serve(token)
                return
            else:
                target = self._find_next(stage)
                if target is self:
                    self._move_on(token, now)
                    self._serve(token)
                    return
            if target.token is None:
                self._move_on(token, now)
                target._serve(token)
            elif len(target.queue) < target.depth:
                self._move_on(token, now)
                target.queue.append(token)
            else:
                target.blocked.append((self._unblocked, token))
                return
        self._next()

    def _find_next(self, stage: Stage) -> StageServer:
        """The server of *stage*, which is remembered. Raises WiringError when no wire leads there."""
        target = self.downstream[stage.stage_type].get(stage.component)
        if target is None:
            raise self._no_wire(stage.stage_type, stage.component)
        if target is self:
            self._own_component = stage.component
        else:
            self._next_stage, self._next_server = stage, target
        return target

    def _move_on(self, token: TileToken, now: int) -> None:
        """Records the stage that ended, and makes the next stage the current one of *token*."""
        record, index = self._record, token.index
        if record is not None:
            if token.waits is None:
                record((token.first_op_id + index, token.t_ready, token.t_start, token.t_end, now))
            else:
                self._log(token, now)
        token.index = index + 1
        token.t_ready = now

    def _unblocked(self, token: TileToken) -> None:
        stage = token.stages[token.index + 1]
        self._move_on(token, self.clock.now_ps)
        self.downstream[stage.stage_type][stage.component].put(token)
        self._next()

    def _log(self, token: TileToken, t_out: int) -> None:
        record = self._record
        if record is not None:
            op_id = token.first_op_id + token.index
            record((op_id, token.t_ready, token.t_start, token.t_end, t_out))
            if token.waits and self.record_wait is not None:
                for reason, waited_ps in token.waits:
                    self.record_wait(op_id, reason, waited_ps)
        token.waits = None

    def _finished_twice(self, token: TileToken) -> PipelineError:
        return PipelineError(
            f"{self.node_id}: tile {token.tile.tile_id} of {token.context.submitted.line}",
            f"a second end of its {self.stage_type.name}",
            "exactly one",
            "the block must call finish once for each token it serves",
        )

    def _no_wire(self, stage_type: StageType, component: str) -> WiringError:
        return WiringError(
            self.node_id,
            f"a token whose next stage is {stage_type.name} on {component}",
            "a wire to a block that serves it",
            "add the wire to pe_template",
        )
