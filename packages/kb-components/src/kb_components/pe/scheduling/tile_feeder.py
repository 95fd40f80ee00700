"""The feeder of a PE: puts the tiles of decoded commands into the first blocks' queues.

Tiles come plan after plan, and the tiles of two plans are never interleaved. A tile is fed when its TCM buffers are
free and the first queue has room. Until then the feeder alone waits: commands are still taken and decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kb_components.pe.scheduling.fetch_order import FetchOrder, wait_for_fetches
from kb_components.pe.scheduling.tile_buffers import TileBuffers
from kb_engine.block import (
    Clock,
    CommandInFlight,
    ComponentBase,
    FeederWait,
    Feeding,
    NotPeriodic,
    RegisterFile,
    StageServer,
    StateVisitor,
    TileToken,
    WiringError,
    moment_or_none,
)
from kb_messages import Place, StageType, TilePlan, tiles_from


class TileFeeder:
    """Feeds the tiles of one command after another, from *next_command* to the queues of *blocks*.

    `turn_ps` is the time from which it is the turn of the current tile, and `claimed_ps` the time at which that tile
    got its buffers (-1 before). *tile_waited* is called with each tile that gets its buffers later than that, and with
    its `in_order_ps`. *begins* is called with each command before its first tile is made. *node_id* is the scheduler;
    errors name it.
    """

    __slots__ = (
        "_begins",
        "_blocks",
        "_buffers",
        "_clock",
        "_command",
        "_first_queue_full",
        "_first_server",
        "_look",
        "_look_at",
        "_made",
        "_next_command",
        "_node_id",
        "_op_id",
        "_order",
        "_registers",
        "_tile_waited",
        "_tiles",
        "_token",
        "_unplaced",
        "claimed_ps",
        "turn_ps",
    )

    def __init__(
        self,
        node_id: str,
        clock: Clock,
        next_command: Callable[[], CommandInFlight | None],
        tile_waited: Callable[[TileToken, int], None],
        begins: Callable[[CommandInFlight, Feeding], None],
        buffers: TileBuffers,
        registers: RegisterFile,
        blocks: Mapping[str, ComponentBase[Any]],
    ) -> None:
        self._node_id = node_id
        self._clock = clock
        self._next_command = next_command
        self._tile_waited = tile_waited
        self._begins = begins
        self._buffers = buffers
        self._registers = registers
        self._blocks = blocks
        self._order = FetchOrder()
        self._command: CommandInFlight | None = None
        self._tiles: Iterator[TilePlan] = iter(())
        self._op_id = 0
        self._token: TileToken | None = None
        self._first_server: StageServer
        self._first_queue_full = False
        self._unplaced = 0
        self._look_at = -1
        self._made = 0
        self._look: Callable[[int], None]
        self.turn_ps = 0
        self.claimed_ps = -1

    @property
    def in_order_ps(self) -> int:
        """The time at which all tiles that the current tile must not overtake had registers, but at least `turn_ps`."""
        return max(self.turn_ps, self._order.in_order_ps)

    def wake(self) -> None:
        """Feeds the tiles of a decoded command, unless tiles of another command are being fed."""
        if self._command is None:
            self._feed()

    @property
    def is_idle(self) -> bool:
        """Whether no tile is left to be fed."""
        return self._command is None

    def cuts(self) -> Any:
        """The present cuts of buffers and registers, and the order of fetches, for `put_back`."""
        return self._buffers.cuts(), self._registers.cuts(), self._order.state()

    def put_back(self, cuts: Any) -> None:
        """Restores *cuts*, and so undoes later placements. There is nothing to feed."""
        buffers, registers, order = cuts
        self._buffers.put_back(buffers)
        self._registers.put_back(registers)
        self._order.put_back(order)

    def place(self, command: CommandInFlight) -> None:
        """Cuts buffers and registers for *command*, whose tiles come next."""
        self._buffers.place(command)
        self._registers.place(command)
        self._order.begin(command.shared_plan)

    def place_known(self, command: CommandInFlight) -> None:
        """Cuts buffers and registers for *command*, whose tiles are not fed, because their effects are known.

        The command has no held sums.
        """
        self._buffers.place(command)
        self._registers.cut(command)
        self._order.begin(command.shared_plan)

    @property
    def next_op(self) -> int:
        """The id of the first op of the next tile."""
        return self._op_id

    def call_after_tile(self, tile: int, look: Callable[[int], None]) -> None:
        """Calls *look* when *tile* has been made and the event that made it is over."""
        self._look_at, self._look = tile + 1, look

    def visit_state(self, over: StateVisitor) -> None:
        """Hands the state of the feeder to *over*."""
        if over.command is None:
            self._visit_programs(over)
            return
        self._order.visit_state(over, self.turn_ps)
        self.turn_ps, self.claimed_ps = over.moment(self.turn_ps), moment_or_none(over, self.claimed_ps)
        self._op_id = over.op(self._op_id)
        over.token(self._token)
        over.identical(self._first_server)
        over.same(self._first_queue_full, self._unplaced)
        self._made = over.next_tile
        if over.jumps:
            self._tiles = tiles_from(over.command.tiles, over.next_tile)

    def _visit_programs(self, over: StateVisitor) -> None:
        """Hands the state of the feeder between the programs of a grid to *over*.

        Raises NotPeriodic while a command of several tiles is fed.
        """
        self._order.visit_flags(over)
        over.same(self._unplaced, self._first_queue_full, self._command is None)
        command, token = self._command, self._token
        if command is None:
            return
        if command.shared_plan.n_tiles > 1 or token is None:
            raise NotPeriodic
        over.part(command)
        over.token(token)
        over.identical(self._first_server)
        self._order.visit_state(over, self.turn_ps)
        self.turn_ps, self.claimed_ps = over.moment(self.turn_ps), moment_or_none(over, self.claimed_ps)

    def wait(self) -> FeederWait | None:
        """The wait of the tile whose turn it is: for room in the first queue, earlier fetches, or its buffers."""
        token = self._token
        if token is None:
            return None
        if self._first_queue_full:
            return FeederWait(token, self.claimed_ps, queue=self._first_server)
        if self._order.holds_back:
            return wait_for_fetches(token, self.turn_ps)
        return self._buffers.wait_of(self._node_id, token, self.in_order_ps)

    def _feed(self) -> None:
        """Feeds tiles until the next one has to wait: for its command's turn, for buffers, or for the first queue."""
        while not self._first_queue_full:
            token = self._token or self._next_token()
            if token is None:
                return
            if self.claimed_ps < 0:
                order = self._order
                if order.holds_back:
                    if self._unplaced:
                        return
                    order.let_go(self._clock.now_ps)
                if not self._buffers.claim(token):
                    return
                self.claimed_ps = self._clock.now_ps
                if self.claimed_ps > self.turn_ps:
                    self._tile_waited(token, self.in_order_ps)
            server = self._first_server
            if server.token is not None and len(server.queue) >= server.depth:
                self._first_queue_full = True
                server.wait_for_room(self._let_in, token)
                return
            self._inject(token)

    def _let_in(self, token: TileToken) -> None:
        self._first_queue_full = False
        self._inject(token)
        self._feed()

    def _inject(self, token: TileToken) -> None:
        self._token = None
        order = self._order
        if order.counts_fetches or order.counts_math:
            self._unplaced += 1
        self._first_server.put(token)
        self.claimed_ps = -1

    def _next_token(self) -> TileToken | None:
        while True:
            command = self._command
            if command is not None:
                tile = next(self._tiles, None)
                if tile is not None:
                    self.turn_ps = self._clock.now_ps
                    self._token = token = TileToken(command, tile, self._op_id)
                    self._op_id += len(tile.stages)
                    self._made = made = tile.tile_id + 1
                    if made == self._look_at:
                        self._look_soon()
                    if self._order.starts_differ:
                        self._order.begin_tile(token)
                        self._first_server = self._server(token.stages[0].stage_type, token.stages[0].component)
                    return token
            self._command = command = self._next_command()
            if command is None:
                return None
            self._start(command)

    def _start(self, command: CommandInFlight) -> None:
        """Makes the tiles of *command* claim and free their places, and begins with the first of them."""
        plan = command.shared_plan
        lifetimes = plan.lifetimes
        self.place(command)
        if Place.OUTPUT_BUFFER in lifetimes:
            for stage_type in lifetimes[Place.OUTPUT_BUFFER].freed:
                command.frees_by(stage_type, self._written)
        if self._order.counts_fetches:
            command.frees_by(StageType.FETCH, self._fetched)
        elif self._order.counts_math:
            command.frees_by(StageType.MATH, self._after_first_math(command.frees[StageType.MATH]))
        first = plan.stages[0]
        self._first_server = self._server(first.stage_type, first.component)
        self._tiles = iter(command.tiles)
        self._op_id = command.first_op
        self._look_at = -1
        self._begins(command, self)

    def _look_soon(self) -> None:
        """Schedules the look for the end of this event, before any other event. This event may make more tiles."""
        self._clock.call_next(self._have_look, None)

    def _have_look(self, _: None) -> None:
        self._look(self._made)

    def _fetched(self, token: TileToken) -> None:
        """Frees the buffers of *token* that no other tile reads: its tile is in registers."""
        self._unplaced -= 1
        self._buffers.free_inputs(token)
        if not self._first_queue_full:
            self._feed()

    def _after_first_math(self, free: Callable[[TileToken], None] | None) -> Callable[[TileToken], None]:
        """The function to call at the end of each MATH of tiles that claim registers with their first one.

        It calls *free*.
        """

        def end_math(token: TileToken) -> None:
            if free is not None:
                free(token)
            if token.index == 0:
                self._unplaced -= 1
                if not self._first_queue_full:
                    self._feed()

        return end_math

    def _written(self, token: TileToken) -> None:
        self._buffers.outputs.free(token.output_at)
        if not self._first_queue_full:
            self._feed()

    def _server(self, stage_type: StageType, component: str) -> StageServer:
        block = self._blocks.get(component)
        server = block.servers.get(stage_type) if block is not None else None
        if server is None:
            raise WiringError(
                self._node_id,
                f"a command that starts with {stage_type.name} on {component}",
                "a wire to a block that serves it",
                "add the wire to pe_template",
            )
        return server
