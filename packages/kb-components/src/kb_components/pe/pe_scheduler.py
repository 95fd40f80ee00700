"""PE_SCHEDULER: takes commands in order, plans them, and feeds their tiles to the pipeline.

The submission queue is bounded; behind it one feeder puts tiles into the first block's queue, plan after plan, never
interleaving two. A tile is injected when its TCM buffers are free and the first queue has room; meanwhile the feeder
alone waits, and commands are still taken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Annotated, Literal

from msgspec import Meta, Struct

from kb_components.pe.in_flight import InFlight, wait_for_buffer, wait_for_fetches
from kb_components.pe.pe_fetch_store import PeFetchStore
from kb_components.pe.planning import check_wires
from kb_engine.block import (
    KIB,
    CommandInFlight,
    CommandScheduler,
    ComponentBase,
    Context,
    ExclusivePort,
    FeederWait,
    Region,
    Ring,
    Slots,
    StageServer,
    TileToken,
    WiringError,
    ps_from_ns,
)
from kb_messages import (
    Command,
    DispatchWait,
    MathCommand,
    PipelinePlan,
    PlanError,
    StageType,
    SubmittedCommand,
    TilePlan,
    WaitReason,
    When,
)
from kb_plans import TileRoom, generate_plan


class PeSchedulerSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Submission queue depth, nanoseconds to take a command, and KiB of TCM for tile input and output buffers.

    `compute_slots`: GEMM and MATH of the PE take turns (`shared`), or run at once (`independent`).
    """

    submission_depth: Annotated[int, Meta(ge=1)] = 8
    command_ns: Annotated[float, Meta(ge=0)] = 0.0
    input_kib: Annotated[int, Meta(ge=1)]
    output_kib: Annotated[int, Meta(ge=1)]
    compute_slots: Literal["shared", "independent"] = "shared"


class PeScheduler(CommandScheduler[PeSchedulerSpec]):
    """TCM from offset 0 on: the input tile buffers, then the output tile buffers; the rest is the allocator's."""

    __slots__ = (
        "_blocks",
        "_claimed_ps",
        "_command_ps",
        "_compute_slot",
        "_counts_fetches",
        "_decoding",
        "_feeding",
        "_feeds",
        "_fetch_store",
        "_first_queue_full",
        "_first_server",
        "_has_buffers",
        "_holds_back",
        "_in_flight",
        "_in_order_ps",
        "_input_ring",
        "_inputs",
        "_known_plan",
        "_op_id",
        "_output_ring",
        "_outputs",
        "_reads_claim",
        "_starts_differ",
        "_streams",
        "_submissions",
        "_tiles",
        "_token",
        "_turn_ps",
        "_unfetched",
        "_waiting_submitters",
    )

    spec_type = PeSchedulerSpec

    def __init__(self, spec: PeSchedulerSpec, context: Context) -> None:
        super().__init__(spec, context)
        self._command_ps = ps_from_ns(spec.command_ns)
        self._inputs = Region(0, spec.input_kib * KIB)
        self._outputs = Region(spec.input_kib * KIB, spec.output_kib * KIB)
        self._input_ring, self._output_ring = Ring(), Ring()
        self._submissions: deque[CommandInFlight] = deque()
        self._waiting_submitters: deque[Callable[[], None]] = deque()
        self._decoding: CommandInFlight | None = None
        self._in_flight: dict[int, InFlight] = {}
        self._feeds: deque[CommandInFlight] = deque()
        self._feeding: CommandInFlight | None = None
        self._tiles: Iterator[TilePlan] = iter(())
        self._op_id = 0
        self._token: TileToken | None = None
        self._has_buffers = False
        self._first_queue_full = False
        self._turn_ps = self._in_order_ps = self._claimed_ps = 0
        self._unfetched = 0
        self._counts_fetches = False
        self._holds_back = False
        self._starts_differ = False
        self._streams = False
        self._reads_claim = False
        self._compute_slot: ExclusivePort | None = None
        self._known_plan = lru_cache(maxsize=256)(self._checked_plan)
        self._first_server: StageServer

    def connect(self) -> None:
        """Find the blocks tiles can start at, and the register file's size."""
        self._blocks = {block.node_id: block for block in self.context.downstream}
        self._fetch_store = self.context.neighbour("pe_fetch_store", ComponentBase)

    @property
    def reserved_nbytes(self) -> int:
        """Input and output buffers together."""
        return self._inputs.nbytes + self._outputs.nbytes

    @property
    def tile_room(self) -> TileRoom:
        """What tiles have to fit."""
        return TileRoom(
            input_nbytes=self._inputs.nbytes,
            output_nbytes=self._outputs.nbytes,
            register_nbytes=self._fetch_store.context.memory_nbytes,
        )

    def plan(self, submitted: SubmittedCommand) -> PipelinePlan:
        """A plan that fits this PE's tile buffers, and every block's limits.

        Math on values in TCM is planned once: a loop that frees what it allocates issues the same commands each time.
        """
        command = submitted.command
        if isinstance(command, MathCommand) and command.out_pinned and all(command.math.scalars):  # -0.0 equals 0.0
            return self._known_plan(command, submitted.pe)
        return self._checked_plan(command, submitted.pe)

    def _checked_plan(self, command: Command, pe: str) -> PipelinePlan:
        plan = generate_plan(command, pe, self.tile_room)
        buffers = plan.buffers
        for name, needs, region in (
            ("input", buffers.input_nbytes, self._inputs),
            ("output", buffers.output_nbytes, self._outputs),
        ):
            if needs > region.nbytes:
                raise PlanError(
                    f"{pe}.pe_tcm",
                    f"a tile whose {name} buffer takes {_kib(needs)}",
                    f"at most the {_kib(region.nbytes)} of {name}_kib",
                    "use a smaller tile",
                )
        check_wires(plan, self.node_id, self._blocks, self._fetch_store)
        for block in self._blocks.values():
            block.check_plan(plan)
        return plan

    @property
    def has_room(self) -> bool:
        """Whether fewer than `submission_depth` commands wait to be taken."""
        return len(self._submissions) < self.spec.submission_depth

    def when_room(self, call: Callable[[], None]) -> None:
        """Register a blocked submitter."""
        self._waiting_submitters.append(call)

    def submit(self, context: CommandInFlight) -> None:
        """Queue a command and take it when its turn comes."""
        self._in_flight[context.submitted.command_seq] = InFlight(context)
        self._submissions.append(context)
        if self._compute_slot is None and self.spec.compute_slots == "shared" and _has_math(context.plan):
            self._share_compute_slot()
        if not self._reads_claim and context.plan.streams:
            self._have_reads_claim()
        if self._decoding is None:
            self._take_next()

    def _share_compute_slot(self) -> None:
        """Have GEMM and MATH take turns from now on; before the first MATH there is nobody to take turns with."""
        self._compute_slot = slot = ExclusivePort(WaitReason.COMPUTE_SLOT)
        for block in self._blocks.values():
            for server in block.servers.values():
                if server.stage_type in (StageType.GEMM, StageType.MATH):
                    server.guard((*server.gates, slot))
                    slot.holder = slot.holder or server.in_service

    def _have_reads_claim(self) -> None:
        """Have reads into registers wait for them from now on; before the first of them all reads go to TCM."""
        self._reads_claim = True
        assert isinstance(self._fetch_store, PeFetchStore)
        for block in self._blocks.values():
            for server in block.servers.values():
                if server.stage_type is StageType.DMA_READ:
                    server.guard((*server.gates, self._fetch_store.registers.for_reads))

    def complete(self, context: CommandInFlight) -> None:
        """Strike the command off the in-flight table and publish its record."""
        del self._in_flight[context.submitted.command_seq]
        super().complete(context)

    def dispatch_waits(self, token: TileToken) -> Sequence[tuple[DispatchWait, int]]:
        """From the submission queue to the first block's queue, for the tile that is injected now."""
        times = self._in_flight[token.context.submitted.command_seq]
        return times.dispatch_waits(
            self._turn_ps, max(self._turn_ps, self._in_order_ps), self._claimed_ps, self.clock.now_ps
        )

    def feeder_wait(self) -> FeederWait | None:
        """The tile whose turn it is: it waits for room in the first queue, for earlier fetches, or for its buffers."""
        token = self._token
        if token is None:
            return None
        if self._first_queue_full:
            return FeederWait(token, self._claimed_ps, queue=self._first_server)
        if self._holds_back:
            return wait_for_fetches(token, self._turn_ps)
        since = max(self._turn_ps, self._in_order_ps)
        return wait_for_buffer(self.node_id, token, since, self._inputs, self._outputs)

    def _take_next(self) -> None:
        self._decoding = self._submissions.popleft()
        self._in_flight[self._decoding.submitted.command_seq].t_taken_ps = self.clock.now_ps
        self.clock.call_at(self.clock.now_ps + self._command_ps, self._decoded, self._decoding)
        if self._waiting_submitters:
            self._waiting_submitters.popleft()()

    def _decoded(self, context: CommandInFlight) -> None:
        self._in_flight[context.submitted.command_seq].t_decoded_ps = self.clock.now_ps
        self._feeds.append(context)
        self._decoding = None
        if self._submissions:
            self._take_next()
        if self._feeding is None:
            self._feed()

    def _feed(self) -> None:
        """Inject tiles until the next one has to wait: for its command's turn, for buffers, or for the first queue."""
        while not self._first_queue_full:
            token = self._token or self._next_token()
            if token is None:
                return
            if not self._has_buffers:
                if self._holds_back:
                    if self._unfetched:
                        return
                    self._holds_back = False
                    self._in_order_ps = self.clock.now_ps
                if not self._claim_buffers(token):
                    return
                self._has_buffers = True
                self._claimed_ps = self.clock.now_ps
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
        self._has_buffers = False
        if self._counts_fetches:
            self._unfetched += 1
        self._first_server.put(token)

    def _next_token(self) -> TileToken | None:
        while True:
            context = self._feeding
            if context is not None:
                tile = next(self._tiles, None)
                if tile is not None:
                    self._turn_ps = self.clock.now_ps
                    self._token = token = TileToken(context, tile, self._op_id)
                    self._op_id += len(tile.stages)
                    if self._starts_differ:
                        self._find_first_server(token)
                    return token
                self._feeding = None
            if not self._feeds:
                return None
            self._start(self._feeds.popleft())

    def _start(self, context: CommandInFlight) -> None:
        """Cut the tile buffers for a command and begin with its tiles.

        A command that starts behind DMA does not overtake tiles of the one before that have yet to be fetched: it
        could take the registers that those tiles' accumulators need. Nor does one whose reads claim registers overtake
        tiles whose fetches will.
        """
        self._in_flight[context.submitted.command_seq].t_fed_ps = self.clock.now_ps
        plan = context.plan
        buffers = plan.buffers
        placement, after = context.placement, context.after
        if buffers.input_nbytes:
            placement.input = _cut(self._input_ring, self._inputs, buffers.input_nbytes, plan.n_tiles)
        if buffers.output_nbytes:
            m, n, _ = plan.grid
            placement.output = _cut(self._output_ring, self._outputs, buffers.output_nbytes, m * n)
            after[StageType.DMA_WRITE] = self._written
        self._counts_fetches = any(stage.stage_type is StageType.FETCH for stage in plan.stages)
        if self._counts_fetches:
            after[StageType.FETCH] = self._fetched
        first = plan.stages[0]
        self._starts_differ = first.when is not When.EVERY_TILE
        streams = plan.streams
        self._holds_back = first.stage_type is StageType.FETCH or (streams and not self._streams)
        if self._counts_fetches:
            self._streams = streams
        self._first_server = self._server(first.stage_type, first.component)
        self._feeding = context
        self._tiles = iter(plan.tiles)
        self._op_id = context.first_op

    def _find_first_server(self, token: TileToken) -> None:
        """Where *token* starts, when others of its command start elsewhere: a tile that begins with its fetch does not
        overtake one that is read first."""
        first = token.stages[0]
        self._holds_back = first.stage_type is StageType.FETCH
        self._first_server = self._server(first.stage_type, first.component)

    def _claim_buffers(self, token: TileToken) -> bool:
        """Give *token* its input buffer and, if it is the last tile over K, its output buffer; both or none."""
        context = token.context
        tile = token.tile
        inputs, outputs = context.placement.input, context.placement.output
        at = None
        if inputs is not None:
            at = inputs.offset(tile.tile_id)
            if not self._inputs.claim(inputs.nbytes, at, inputs.nbytes):
                return False
        if outputs is not None and tile.k == context.plan.grid[2] - 1:
            token.output_at = outputs.offset(tile.tile_id // context.plan.grid[2])
            if not self._outputs.claim(outputs.nbytes, token.output_at, outputs.nbytes):
                if at is not None:
                    self._inputs.free(at)
                return False
        token.input_at = at
        return True

    def _fetched(self, token: TileToken) -> None:
        self._unfetched -= 1
        if token.input_at is not None:
            self._inputs.free(token.input_at)
        if not self._first_queue_full:
            self._feed()

    def _written(self, token: TileToken) -> None:
        self._outputs.free(token.output_at)
        if not self._first_queue_full:
            self._feed()

    def _server(self, stage_type: StageType, component: str) -> StageServer:
        block = self._blocks.get(component)
        server = block.servers.get(stage_type) if block is not None else None
        if server is None:
            raise WiringError(
                self.node_id,
                f"a command that starts with {stage_type.name} on {component}",
                "a wire to a block that serves it",
                "add the wire to pe_template",
            )
        return server


def _has_math(plan: PipelinePlan) -> bool:
    return any(stage.stage_type is StageType.MATH for stage in plan.stages)


def _cut(ring: Ring, region: Region, nbytes: int, pieces: int) -> Slots:
    return ring.cut(region.base, nbytes, region.nbytes // nbytes, pieces)


def _kib(nbytes: int) -> str:
    return f"{nbytes / KIB:g} KiB"
