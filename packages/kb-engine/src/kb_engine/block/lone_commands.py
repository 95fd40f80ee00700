"""Commands that are alone on their PE: served stage after stage, without queues, gates and tokens that nobody sees.

On a PE_CPU that waits for each command, nothing can meet a simple command: its PE is idle, its only tile finds every
queue empty and every port free, and nothing else can be issued before it is done. So its way is known when it is
issued. Its times are those of a command that goes through the queues.

A command whose services all have a known cost is known as a whole when it is issued. Where nobody hears of stages
meanwhile, its records are given at once, and its end is its only event. Otherwise each service ends in an event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import Any, Final, NamedTuple

from simpy.events import NORMAL

from kb_engine.block.component import ComponentBase
from kb_engine.block.fabric_roles import Initiator
from kb_engine.block.fold_pass import FoldPass
from kb_engine.block.gates import ExclusivePort
from kb_engine.block.in_flight import CommandInFlight, TileToken
from kb_engine.block.register_file import RegisterFile
from kb_engine.block.stage_server import StageServer
from kb_engine.timing.clock import Clock
from kb_messages import PipelinePlan, Place, Stage, StageType, TilePlan

_MOST_WAYS: Final = 512
_BY_BLOCK: Final = -1
"""The cost of a service whose end its block tells."""


class LoneWay(NamedTuple):
    """The way of the only tile of a plan: the server of each stage, and what its service takes, or `_BY_BLOCK`.

    `totals` has the servers of services with a known cost, each with the number and the time of these services.
    `ends_ps` has the end of each service after the first one's begin; it is empty where a block tells an end.
    `uses_registers` says whether the tile has operands there, or ends a sum, and `claimed` is the stage type that
    claims registers, if one does. `tile` is that of the plan.
    """

    servers: tuple[StageServer, ...]
    costs_ps: tuple[int, ...]
    totals: tuple[tuple[StageServer, int, int], ...]
    ends_ps: tuple[int, ...]
    uses_registers: bool
    claimed: StageType | None
    tile: TilePlan


class LoneCommands:
    """Serves one lone command of a PE at a time. *command_ps* is what PE_SCHEDULER takes to decode a command.

    *blocks* are those where tiles can start. *claims* is told the type of the stage with which a command claims
    registers, when it begins. *tickets* are the clock's for the PE.
    """

    __slots__ = (
        "_blocks",
        "_claims",
        "_clock",
        "_command",
        "_command_ps",
        "_costs_ps",
        "_done",
        "_first_op",
        "_record",
        "_registers",
        "_since_ps",
        "_tickets",
        "_way",
        "_ways",
    )

    def __init__(
        self,
        clock: Clock,
        command_ps: int,
        registers: RegisterFile,
        blocks: Mapping[str, ComponentBase[Any]],
        claims: Callable[[StageType], None],
        tickets: Iterator[int],
    ) -> None:
        self._tickets = tickets
        self._clock = clock
        self._command_ps = command_ps
        self._registers = registers
        self._claims = claims
        self._blocks = blocks
        self._ways: dict[int, tuple[PipelinePlan, LoneWay | None]] = {}
        self._command: CommandInFlight | None = None
        self._done: Callable[[CommandInFlight], None]
        self._way: LoneWay
        self._record: Callable[[tuple[int, int, int, int, int]], None] | None = None
        self._costs_ps: tuple[int, ...] = ()
        self._first_op = self._since_ps = 0

    @property
    def is_busy(self) -> bool:
        """Whether a command is being served."""
        return self._command is not None

    def fold(self, over: FoldPass) -> None:
        """As FoldPass says, but for the command and its token, which others hand over."""
        over.same(self.is_busy)
        if self._command is not None:
            over.identical(self._way)
            over.same(self._costs_ps, self._record is None)
            self._since_ps, self._first_op = over.moment(self._since_ps), over.op(self._first_op)

    def begin(
        self, command: CommandInFlight, arrival_ps: int, done: Callable[[CommandInFlight], None], at_once: bool
    ) -> bool:
        """Serve *command*, which is issued at *arrival_ps*, and call *done* with it at the end.

        The PE is idle, and no other command is issued before. *at_once* says that records may be given before their
        stages are over. Returns False, and does nothing, for a command that has to go through the queues.
        """
        plan = command.shared_plan
        known = self._ways.get(id(plan))
        if known is None:
            if len(self._ways) >= _MOST_WAYS:
                self._ways.clear()
            known = self._ways[id(plan)] = plan, self._find_way(plan)
        way = known[1]
        if way is None:
            return False
        self._command, self._done, self._way = command, done, way
        command.t_issued_ps = command.t_submitted_ps = command.t_taken_ps = arrival_ps
        decoded_ps = command.t_decoded_ps = command.t_fed_ps = arrival_ps + self._command_ps
        if at_once and way.ends_ps:
            self._first_op, self._since_ps = command.first_op, decoded_ps
            self._give_records(command, way, decoded_ps)
            end = decoded_ps + way.ends_ps[-1], NORMAL, next(self._tickets), self._end_at_once, None
            self._clock.push(end)
        else:
            self._clock.push((decoded_ps, NORMAL, next(self._tickets), self._start, None))
        return True

    def _give_records(self, command: CommandInFlight, way: LoneWay, since_ps: int) -> None:
        """The tile of *command* begins at *since_ps*, and all its services are known."""
        if way.uses_registers:
            self._place(command, way)
        record = way.servers[0].record
        if record is None or not command.submitted.command.data_op:
            return
        ready = since_ps
        for op_id, end in enumerate(way.ends_ps, command.first_op):
            end += since_ps
            record((op_id, ready, ready, end, end))
            ready = end

    def _end_at_once(self, _: None) -> None:
        self._end(self._clock.now_ps)

    def _place(self, command: CommandInFlight, way: LoneWay) -> None:
        self._registers.place_alone(command)
        if way.claimed is not None:
            self._claims(way.claimed)

    def _start(self, _: None) -> None:
        """The command is decoded: its tile begins."""
        command = self._command
        assert command is not None
        self._since_ps = self._clock.now_ps
        way = self._way
        self._record = way.servers[0].record if command.submitted.command.data_op else None
        self._first_op, self._costs_ps = command.first_op, way.costs_ps
        if way.uses_registers:
            self._place(command, way)
        if way.costs_ps[0] == _BY_BLOCK:
            self._begin_at_block(0)
        else:
            self._begin_stage(0)

    def _begin_stage(self, number: int) -> None:
        cost_ps = self._costs_ps[number]
        if cost_ps == _BY_BLOCK:
            self._begin_at_block(number)
            return
        clock = self._clock
        clock.push((clock.now_ps + cost_ps, NORMAL, next(self._tickets), self._end_stage, number))

    def _begin_at_block(self, number: int) -> None:
        command, way = self._command, self._way
        assert command is not None
        tile = way.tile if command.addresses is None else command.tiles[0]
        token = TileToken(command, tile, command.first_op)
        token.index = number
        token.t_ready = token.t_start = self._since_ps
        server = way.servers[number]
        server.begin_alone(token, self._end_service)

    def _end_service(self, token: TileToken) -> None:
        """The service that its block began has ended."""
        number = token.index
        server = self._way.servers[number]
        server.end_alone(token, self._clock.now_ps - self._since_ps)
        self._end_stage(number)

    def _end_stage(self, number: int) -> None:
        record, since = self._record, self._since_ps
        self._since_ps = now = self._clock.now_ps
        if record is not None:
            record((self._first_op + number, since, since, now, now))
        number += 1
        if number < len(self._costs_ps):
            self._begin_stage(number)
        else:
            self._end(now)

    def _end(self, now: int) -> None:
        """The last stage has ended."""
        command = self._command
        assert command is not None
        for server, count, busy_ps in self._way.totals:
            server.count(count, busy_ps)
        if command.shared_plan.held is not None:
            self._registers.leave_alone(command)
        command.remaining = 0
        command.end(now)
        self._command = None
        self._done(command)

    def _find_way(self, plan: PipelinePlan) -> LoneWay | None:
        """The way of the only tile of *plan*. None where it has several, needs buffers or a block that keeps state."""
        needs = plan.buffers
        if plan.n_tiles > 1 or needs.input_nbytes or needs.output_nbytes or needs.panel_nbytes:
            return None
        tile = plan.tiles[0]
        block = self._blocks.get(tile.stages[0].component)
        server = None if block is None else block.servers.get(tile.stages[0].stage_type)
        servers: list[StageServer] = []
        costs: list[int] = []
        for stage in tile.stages:
            if servers:
                server = _next(servers[-1], stage)
            cost_ps = None if server is None else _cost_ps(server, stage)
            if server is None or cost_ps is None:
                return None
            servers.append(server)
            costs.append(cost_ps)
        count: Counter[StageServer] = Counter()
        busy_ps: Counter[StageServer] = Counter()
        for server, cost_ps in zip(servers, costs, strict=True):
            if cost_ps != _BY_BLOCK:
                count[server] += 1
                busy_ps[server] += cost_ps
        totals = tuple((each, count[each], busy_ps[each]) for each in count)
        registers = plan.lifetimes.get(Place.REGISTERS)
        claimed = None if registers is None else registers.claimed
        ends_ps = () if _BY_BLOCK in costs else tuple(accumulate(costs))
        uses_registers = registers is not None or plan.held is not None
        return LoneWay(tuple(servers), tuple(costs), totals, ends_ps, uses_registers, claimed, tile)


def _next(server: StageServer, stage: Stage) -> StageServer | None:
    """The server of *stage* after *server*; None where no wire leads to it."""
    if stage.component == server.node_id and stage.stage_type is server.stage_type:
        return server
    return server.downstream[stage.stage_type].get(stage.component)


def _cost_ps(server: StageServer, stage: Stage) -> int | None:
    """What the service of *stage* takes, or `_BY_BLOCK`; None where a tile has to go through the queue of *server*."""
    if type(server) is not StageServer or any(type(gate) is not ExclusivePort for gate in server.own_gates):
        return None
    block = server.component
    if block.has_pure_cost:
        return server.cost_ps(stage.params)
    says_so = isinstance(block, Initiator) and vars(type(block)).get("needs_no_queue", False)
    return _BY_BLOCK if says_so else None
