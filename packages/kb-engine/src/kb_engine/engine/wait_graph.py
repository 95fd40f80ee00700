"""WaitGraph: who waits for whom in a stuck simulation, and since when.

Design: docs/design/trace-and-stuck-runs.md

Each waiter names one other waiter: the first in command order, if there are several. A walk from waiter to waiter ends
at an event that never came, or goes round in a circle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kb_engine.block.gates import Gate
from kb_engine.block.in_flight import CommandInFlight, TileToken
from kb_engine.block.pe_roles import FeederWait
from kb_engine.block.stage_server import StageServer
from kb_engine.engine.talk_waits import TalkWaits, Waiter
from kb_engine.program.messages import BeginWait, CreditWait, MessageWait, SignalWait
from kb_engine.timing.units import ns_text
from kb_messages import DmaParams, StageType

if TYPE_CHECKING:
    from kb_engine.program.runner import KernelRunner


class WaitPlaces:
    """The tiles in all queues, by PE in command order, with the queue, gate or full queue of each."""

    def __init__(self, servers: Sequence[StageServer]) -> None:
        self._full: dict[str, list[StageServer]] = {}
        self._server: dict[int, StageServer] = {}
        self._gate: dict[int, Gate] = {}
        self._blocked_by: dict[int, StageServer] = {}
        tokens = [token for server in servers for token in self._note(server)]
        tokens.sort(key=lambda token: (token.context.submitted.command_seq, token.tile.tile_id))
        self._tokens: dict[str, list[TileToken]] = {}
        for token in tokens:
            self._tokens.setdefault(token.context.submitted.pe, []).append(token)

    def server_of(self, token: TileToken) -> StageServer:
        """Returns the server in whose queue or service *token* is."""
        return self._server[id(token)]

    def gate_of(self, token: TileToken) -> Gate | None:
        """Returns the gate at which *token* waits, or None."""
        return self._gate.get(id(token))

    def queue_before(self, token: TileToken) -> StageServer | None:
        """Returns the full queue in which *token* waits for room, or None."""
        return self._blocked_by.get(id(token))

    def tokens_on(self, pe_id: str) -> list[TileToken]:
        """Returns the tiles on *pe_id*, in command order."""
        return self._tokens.get(pe_id, [])

    def in_service(self, pe_id: str) -> list[TileToken]:
        """Returns the tiles on *pe_id* whose service has begun and not ended."""
        return [
            token
            for token in self.tokens_on(pe_id)
            if self.server_of(token).serves(token) and id(token) not in self._gate and id(token) not in self._blocked_by
        ]

    def full_queues(self, pe_id: str) -> list[StageServer]:
        """Returns the queues of *pe_id* in which some tile waits for room."""
        return self._full.get(pe_id, [])

    def holder(self, token: TileToken, holds: Any) -> TileToken | None:
        """Returns the first other tile on *token*'s PE for which `holds(tile, stages ahead of it)` is true."""
        for other in self.tokens_on(token.context.submitted.pe):
            if other is not token and holds(other, self._ahead(other)):
                return other
        return None

    def _note(self, server: StageServer) -> list[TileToken]:
        tokens = [*server.in_front, *server.queue]
        self._server.update((id(token), server) for token in tokens)
        self._blocked_by.update((id(token), server) for _, token in server.blocked)
        if server.blocked:
            self._full.setdefault(server.blocked[0][1].context.submitted.pe, []).append(server)
        self._gate.update((id(token), gate) for gate in server.gates for _, token in gate.waiting)
        return tokens

    def _ahead(self, token: TileToken) -> frozenset[StageType]:
        """Returns the stages of *token* that have not ended."""
        first = token.index + (id(token) in self._blocked_by or self._server[id(token)].has_served(token))
        return frozenset(stage.stage_type for stage in token.stages[first:])


class WaitGraph:
    """Finds the next waiter of each kernel, command and tile. It reads the state of queues, gates and feeders.

    `runners` are the programs that have not ended. *label* names a memory by its owner.
    """

    def __init__(
        self, runners: Sequence[KernelRunner], servers: Sequence[StageServer], label: Callable[[int], str]
    ) -> None:
        self.runners = [runner for runner in runners if runner.kernel.waiting_at or runner.commands.in_flight]
        self._label = label
        self._feedings = {runner.pe.pe_id: runner.pe.scheduler.feeder_wait() for runner in self.runners}
        self._owner = {
            id(completion): context
            for runner in self.runners
            for context, completion in runner.commands.in_flight.values()
        }
        self._tiles_to_go: Counter[str] = Counter()
        for runner in self.runners:
            for context, _ in runner.commands.in_flight.values():
                self._tiles_to_go[runner.pe.pe_id] += context.remaining
        self._places = WaitPlaces(servers)
        self._talk = TalkWaits(runners)

    def waiter(self, who: object) -> Waiter:
        """Returns the line for *who*: a KernelRunner, a CommandInFlight (a command), a FeederWait or a TileToken."""
        if isinstance(who, CommandInFlight):
            return self._command(who)
        if isinstance(who, FeederWait):
            return self._fed(who)
        if isinstance(who, TileToken):
            return self._token(who)
        return self._kernel(who)

    def in_service(self, pe_id: str) -> list[TileToken]:
        """Returns the tiles on *pe_id* whose service has begun and not ended."""
        return self._places.in_service(pe_id)

    def full_queues(self, pe_id: str) -> list[str]:
        """Returns texts for the queues of *pe_id* in which some tile waits for room."""
        queues = self._places.full_queues(pe_id)
        return [f"{_full(queue)} ({tile(queue.blocked[0][1])} waits)" for queue in queues]

    def _kernel(self, runner: Any) -> Waiter:
        name, kernel = runner.name, runner.kernel
        if not kernel.waiting_at:
            context, _ = next(iter(runner.commands.in_flight.values()))
            text = f"{name}: the kernel has returned and waits for {named(context)}"
            return Waiter(("returned",), text, context)
        opening = f"{name}: the kernel waits at {kernel.waiting_at} since {ns_text(kernel.waiting_since_ps)}"
        shape = ("kernel", kernel.waiting_at)
        if kernel.waiting_for is None:
            scheduler = runner.pe.scheduler
            text = f"{opening} for room in the submission queue of {scheduler.node_id}"
            return Waiter(
                (*shape, "room"), text, self._feedings[runner.pe.pe_id], f"{scheduler.node_id} never took a command"
            )
        if isinstance(kernel.waiting_for, BeginWait | CreditWait | MessageWait | SignalWait):
            return self._talk.waiter(runner, kernel.waiting_for, opening, shape)
        context = self._owner.get(id(kernel.waiting_for))
        if context is None:
            missing = f"the end of the handle at {kernel.waiting_at}, because no command in flight completes it"
            return Waiter(
                (*shape, "handle"), f"{opening} for a handle that no command in flight completes", None, missing
            )
        return Waiter((*shape, "command"), f"{opening} for {named(context)}", context)

    def _command(self, context: CommandInFlight) -> Waiter:
        pe_id, left = context.submitted.pe, f"{context.remaining} of {context.plan.n_tiles} tiles to go"
        shape = ("command", context.plan.kind, context.submitted.line)
        text = f"{named(context)} has {left} since {ns_text(context.t_submitted_ps)}"
        mine = [token for token in self._places.tokens_on(pe_id) if token.context is context]
        then = mine[0] if mine else self._feedings.get(pe_id)
        return Waiter(shape, text, then, f"a tile of {named(context)}, because no queue and no feeder holds one")

    def _fed(self, feeding: FeederWait) -> Waiter:
        token, queue = feeding.token, feeding.queue
        opening = f"{tile(token)} waits to be fed since {ns_text(feeding.since_ps)}"
        if queue is not None:
            text = f"{opening} for room in {_full(queue)}"
            return Waiter(("feeder", _role(queue)), text, queue.token, "", self._deeper(queue, token))
        holder = self._places.holder(token, feeding.held_by)
        return Waiter(
            ("feeder", feeding.needs),
            f"{opening} for {feeding.needs}" + (f", with {tile(holder)}" if holder is not None else ""),
            holder,
            f"{feeding.needs}, because no tile in flight releases it",
            feeding.change,
        )

    def _token(self, token: TileToken) -> Waiter:
        server = self._places.server_of(token)
        stage = f"{server.node_id} ({server.stage_type.name})"
        shape = (_role(server), server.stage_type.name)
        ahead, gate = self._places.queue_before(token), self._places.gate_of(token)
        if ahead is not None:
            text = f"{tile(token)} is held by {stage} since {ns_text(token.t_end)} for room in {_full(ahead)}"
            return Waiter((*shape, "blocked", _role(ahead)), text, ahead.token, "", self._deeper(ahead, token))
        if gate is not None:
            return self._at_gate(token, gate, stage, shape)
        before = server.ahead_of(token)
        if before is not None and server.has_served(token):
            text = f"{tile(token)} is held by {stage} since {ns_text(token.t_end)} until {tile(before)} leaves"
            return Waiter((*shape, "in order"), text, before)
        if before is not None:
            text = f"{tile(token)} queues for {stage} since {ns_text(token.t_ready)} behind {tile(before)}"
            return Waiter((*shape, "queued"), text, before)
        return self._served(token, stage, shape)

    def _at_gate(self, token: TileToken, gate: Gate, stage: str, shape: tuple[str, ...]) -> Waiter:
        name = gate.reason.name.lower().replace("_", " ")
        holder = self._places.holder(token, gate.holds)
        held = f", with {tile(holder)}" if holder is not None else ""
        text = f"{tile(token)} waits in {stage} since {ns_text(token.waits_since)} for its {name}{held}"
        then = holder or self._feedings.get(token.context.submitted.pe)
        return Waiter(
            (*shape, "gate", name), text, then, f"the {name} of {stage}, because no tile holds it", gate.change(token)
        )

    def _served(self, token: TileToken, stage: str, shape: tuple[str, ...]) -> Waiter:
        params = token.stages[token.index].params
        text = f"{tile(token)} is served by {stage} since {ns_text(token.t_start)}"
        if not isinstance(params, DmaParams):
            return Waiter((*shape, "served"), text, None, f"the end of {tile(token)} in {stage}")
        memory = self._label(params.memory.owner) or "an unknown memory"
        verb = "a read" if token.stages[token.index].stage_type is StageType.DMA_READ else "a write"
        text += f", which waits for {memory} to answer {verb} of {params.memory.nbytes} bytes"
        return Waiter((*shape, "served"), text, None, f"{stage} waits for a response of {memory} that never came")

    def _deeper(self, queue: StageServer, token: TileToken) -> str:
        return queue_change(queue, self._tiles_to_go[token.context.submitted.pe])


def queue_change(queue: StageServer, to_go: int) -> str:
    """Returns the smallest change of *queue*'s depth that lets one more tile in, and the depth that suffices for
    *to_go* tiles.

    One tile wants in and one is in service, so at most `to_go - 2` others can fill the queue.
    """
    enough, deeper = to_go - 1, queue.depth + 1
    change = f"queue_depth of {queue.node_id} from {queue.depth} to {deeper}"
    if deeper >= enough:
        return f"{change} breaks it: the {to_go} tiles to go cannot fill the queue"
    return f"{change} may break it; {enough} does, as the {to_go} tiles to go cannot fill the queue then"


def named(context: CommandInFlight) -> str:
    """Returns the name of a command for reports."""
    return f"command {context.submitted.command_seq} ({context.plan.kind} of {context.submitted.line})"


def tile(token: TileToken) -> str:
    """Returns the name of a tile for reports."""
    return f"tile {token.tile.tile_id} of command {token.context.submitted.command_seq}"


def _full(queue: StageServer) -> str:
    return f"the {queue.stage_type.name} queue of {queue.node_id}, {len(queue.queue)} of {queue.depth} full"


def _role(server: StageServer) -> str:
    return server.node_id.rsplit(".", 1)[-1]
