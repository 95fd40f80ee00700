"""Blocks as plain as can be, one for each role, and a few that do what a block must not."""

from __future__ import annotations

from collections import deque

from msgspec import Struct
from msgspec.structs import replace

from kb_engine.block.buffers import Slots
from kb_engine.block.component import ComponentBase
from kb_engine.block.fabric_roles import ForwardingComponent, Initiator, SingleChannelMemory
from kb_engine.block.gates import ExclusivePort
from kb_engine.block.in_flight import TileToken
from kb_engine.block.pe_roles import CommandIssuer, CommandScheduler, FeederWait
from kb_engine.block.register_file import RegisterFileOwner
from kb_messages import (
    OFFSET_BITS,
    Axis,
    BufferNeeds,
    GemmCommand,
    LoadCommand,
    OperandTemplate,
    PipelinePlan,
    Place,
    PlanError,
    Role,
    StageTemplate,
    StageType,
    TileShape,
    WaitReason,
    When,
)

GEMM_PS, MOVE_PS = 5000, 700
INPUTS, OUTPUTS = 0, 64 * 1024


class NoSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class CpuSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    issue_ps: int
    program_ps: int = 0


class QueueSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    queue_depth: int = 4


class HbmSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    ps_per_byte: int
    latency_ps: int


class XbarSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    overhead_ps: int = 0


class Cpu(CommandIssuer[CpuSpec]):
    spec_type = CpuSpec

    def issue_ps(self, command):
        return self.spec.issue_ps

    def program_ps(self):
        return self.spec.program_ps


class AheadCpu(Cpu):
    """Its calls return at issue."""

    issues_ahead = True


class Scheduler(CommandScheduler[NoSpec]):
    """Takes a command at no cost and feeds its tiles, each with buffers of its own: nothing is ever reused."""

    spec_type = NoSpec

    def __init__(self, spec, context):
        super().__init__(spec, context)
        self.tokens = deque()
        self.waiting = None
        self.waiting_since = 0

    @property
    def reserved_nbytes(self):
        return 2 * OUTPUTS

    @property
    def has_room(self):
        return True

    def when_room(self, call):
        raise AssertionError

    def plan(self, submitted):
        command = submitted.command
        if isinstance(command, GemmCommand):
            tile = command.tile or TileShape(16, 16, 16)
            return gemm_plan(command.a, command.b, command.out, tile, submitted.pe, command.out_pinned)
        if command.pieces or (isinstance(command, LoadCommand) and command.fills):
            raise PlanError("toy.scheduler", f"{len(command.pieces)} pieces", "one rectangle")
        stage_type = StageType.DMA_READ if isinstance(command, LoadCommand) else StageType.DMA_WRITE
        operands = [whole(role, matrix) for role, matrix in ((Role.SRC, command.src), (Role.DST, command.dst))]
        stage = StageTemplate(
            stage_type=stage_type, component=f"{submitted.pe}.pe_dma", when=When.EVERY_TILE, operands=tuple(operands)
        )
        return PipelinePlan(kind="transfer", grid=(1, 1, 1), stages=(stage,), buffers=BufferNeeds())

    def submit(self, context):
        plan, needs, placement = context.plan, context.plan.buffers, context.placement
        outputs = plan.grid[0] * plan.grid[1]
        placement.input = Slots(INPUTS, needs.input_nbytes, plan.n_tiles)
        placement.output = Slots(OUTPUTS, needs.output_nbytes, outputs)
        placement.accumulators = Slots(0, needs.accumulator_nbytes, outputs)
        placement.registers = Slots(outputs * needs.accumulator_nbytes, needs.register_nbytes, plan.n_tiles)
        op_id = context.first_op
        for tile in plan.tiles:
            self.tokens.append(TileToken(context, tile, op_id))
            op_id += len(tile.stages)
        self.feed()

    def feed(self):
        while self.tokens and not self.waiting:
            stage = self.tokens[0].stages[0]
            (block,) = [each for each in self.context.downstream if each.node_id == stage.component]
            server = block.servers[stage.stage_type]
            if not server.has_room:
                self.waiting = self.tokens.popleft(), server
                self.waiting_since = self.clock.now
                server.wait_for_room(lambda token, server=server: self.enter(server, token), self.waiting[0])
            else:
                server.put(self.tokens.popleft())

    def enter(self, server, token):
        self.waiting = None
        server.put(token)
        self.feed()

    def feeder_wait(self):
        if not self.waiting:
            return None
        return FeederWait(self.waiting[0], self.waiting_since, queue=self.waiting[1])


class Dma(Initiator[QueueSpec]):
    spec_type = QueueSpec
    serves = (StageType.DMA_READ, StageType.DMA_WRITE)

    def begin(self, token, finish):
        stage = token.stages[token.index]
        memory = stage.params.memory
        fabric = self.context.fabric
        path = fabric.path(self.node_id, memory.base >> OFFSET_BITS)
        move = fabric.read if stage.stage_type is StageType.DMA_READ else fabric.write
        move(path, memory, self.clock.now, finish, token)


class TwofoldDma(Dma):
    outstanding = 2


class Mover(RegisterFileOwner[QueueSpec]):
    """FETCH and STORE at a fixed cost, one at a time."""

    spec_type = QueueSpec
    state = ("port",)
    serves = (StageType.FETCH, StageType.STORE)

    def __init__(self, spec, context):
        super().__init__(spec, context)
        self.port = ExclusivePort(WaitReason.TCM_PORT)

    def gates(self, stage_type):
        return (self.port,)

    def service_ps(self, params):
        return MOVE_PS


class OwnerlessMover(ComponentBase[QueueSpec]):
    """FETCH and STORE by a block that owns no registers."""

    spec_type = QueueSpec
    serves = (StageType.FETCH, StageType.STORE)

    def service_ps(self, params):
        return MOVE_PS


class Gemm(ComponentBase[QueueSpec]):
    spec_type = QueueSpec
    serves = (StageType.GEMM,)

    def service_ps(self, params):
        return GEMM_PS


class GemmByProcess(Gemm):
    """As long as Gemm, told by a generator."""

    def process(self, token):
        yield self.clock.timeout(GEMM_PS - 2000)
        yield self.clock.timeout(2000)


class GemmByCallback(Gemm):
    """As long as Gemm, told by callbacks."""

    def begin(self, token, finish):
        self.clock.call_at(self.clock.now + GEMM_PS, finish, token)


class SlowGemm(Gemm):
    """Nine times as long, and later tiles a little quicker."""

    def process(self, token):
        yield self.clock.timeout(9 * GEMM_PS - token.tile.tile_id)


class StuckGemm(Gemm):
    """Never finishes its second tile."""

    def begin(self, token, finish):
        if token.tile.tile_id != 1:
            self.clock.call_at(self.clock.now + GEMM_PS, finish, token)


class LosingDma(Dma):
    """Never hears of what its second tile reads."""

    def begin(self, token, finish):
        lost = token.tile.tile_id == 1 and token.stages[token.index].stage_type is StageType.DMA_READ
        super().begin(token, (lambda _: None) if lost else finish)


class PollingGemm(Gemm):
    """Looks every picosecond whether its second tile is done, which it never is."""

    def begin(self, token, finish):
        if token.tile.tile_id == 1:
            self.poll(token)
        else:
            self.clock.call_at(self.clock.now + GEMM_PS, finish, token)

    def poll(self, token):
        self.clock.call_at(self.clock.now + 1, self.poll, token)


class RepeatingScheduler(Scheduler):
    """Sends every tile of a GEMM through FETCH and GEMM twice: both blocks hand tiles to each other."""

    def plan(self, submitted):
        plan = super().plan(submitted)
        return replace(plan, stages=plan.stages[2:4] * 2)


class TwiceDma(Dma):
    """Finishes what it writes twice."""

    def begin(self, token, finish):
        super().begin(token, finish)
        if token.stages[token.index].stage_type is StageType.DMA_WRITE:
            super().begin(token, finish)


class Refusing(Gemm):
    """Takes no plan."""

    def check_plan(self, plan):
        raise PlanError(self.node_id, "a plan", "none")


class Tcm(ComponentBase[NoSpec]):
    spec_type = NoSpec


class Hbm(SingleChannelMemory[HbmSpec]):
    spec_type = HbmSpec

    def latency_ps(self, nbytes, write):
        return self.spec.latency_ps

    def occupancy_ps(self, nbytes, write):
        return nbytes * self.spec.ps_per_byte


class Xbar(ForwardingComponent[XbarSpec]):
    spec_type = XbarSpec

    def overhead_ps(self):
        return self.spec.overhead_ps


BLOCKS = {
    "cpu": "Cpu",
    "ahead_cpu": "AheadCpu",
    "scheduler": "Scheduler",
    "dma": "Dma",
    "twofold_dma": "TwofoldDma",
    "twice_dma": "TwiceDma",
    "losing_dma": "LosingDma",
    "polling_gemm": "PollingGemm",
    "repeating_scheduler": "RepeatingScheduler",
    "mover": "Mover",
    "ownerless_mover": "OwnerlessMover",
    "gemm": "Gemm",
    "gemm_by_process": "GemmByProcess",
    "gemm_by_callback": "GemmByCallback",
    "slow_gemm": "SlowGemm",
    "stuck_gemm": "StuckGemm",
    "tcm": "Tcm",
    "hbm": "Hbm",
    "xbar": "Xbar",
}


def whole(role, matrix):
    return operand(role, Place.MEMORY, matrix, axis(0, matrix.rows), axis(1, matrix.cols))


def axis(dimension, total, tile=None):
    return Axis(dimension=dimension, total=total, tile=tile or total)


def operand(role, place, matrix, rows, cols, dtype=None, base=None, release=False, when=When.EVERY_TILE):
    dtype = dtype or matrix.dtype
    in_memory = place is Place.MEMORY
    return OperandTemplate(
        role=role,
        place=place,
        base=matrix.address if in_memory else base or 0,
        rows=rows,
        cols=cols,
        stride=matrix.stride if in_memory else cols.tile * dtype.nbytes,
        dtype=dtype,
        release=release,
        when=when,
    )


def gemm_plan(a, b, out, tile, pe, out_pinned=False):
    """Reads A and B, fetches both, multiplies; after the last tile over K stores, and writes what is not to stay."""
    m, n, k = axis(0, a.rows, tile.m), axis(1, b.cols, tile.n), axis(2, a.cols, tile.k)
    a_nbytes, b_nbytes = tile.m * tile.k * a.dtype.nbytes, tile.k * tile.n * b.dtype.nbytes
    acc = a.dtype.accumulator
    inputs, outputs, registers, accumulator = list(Place)[1:5]
    stages = (
        (StageType.DMA_READ, "pe_dma", (
            operand(Role.SRC, Place.MEMORY, a, m, k),
            operand(Role.DST, inputs, a, m, k),
        )),
        (StageType.DMA_READ, "pe_dma", (
            operand(Role.SRC, Place.MEMORY, b, k, n),
            operand(Role.DST, inputs, b, k, n, base=a_nbytes),
        )),
        (StageType.FETCH, "pe_fetch_store", (
            operand(Role.SRC, inputs, a, m, k, release=True),
            operand(Role.DST, registers, a, m, k),
            operand(Role.SRC, inputs, b, k, n, base=a_nbytes, release=True),
            operand(Role.DST, registers, b, k, n, base=a_nbytes),
        )),
        (StageType.GEMM, "pe_gemm", (
            operand(Role.A, registers, a, m, k, release=True),
            operand(Role.B, registers, b, k, n, base=a_nbytes, release=True),
            operand(Role.ACC, accumulator, out, m, n, acc, when=When.LATER_K),
            operand(Role.OUT, accumulator, out, m, n, acc),
        )),
        (StageType.STORE, "pe_fetch_store", (
            operand(Role.SRC, accumulator, out, m, n, acc, release=True),
            operand(Role.DST, Place.MEMORY if out_pinned else outputs, out, m, n),
        )),
        (StageType.DMA_WRITE, "pe_dma", (
            operand(Role.SRC, outputs, out, m, n, release=True),
            operand(Role.DST, Place.MEMORY, out, m, n),
        )),
    )  # fmt: skip
    return PipelinePlan(
        kind="gemm",
        grid=(-(-a.rows // tile.m), -(-b.cols // tile.n), -(-a.cols // tile.k)),
        stages=tuple(
            StageTemplate(
                stage_type=kind,
                component=f"{pe}.{block}",
                when=When.EVERY_TILE if number < 4 else When.LAST_K,
                operands=operands,
            )
            for number, (kind, block, operands) in enumerate(stages[:-1] if out_pinned else stages)
        ),
        buffers=BufferNeeds(
            input_nbytes=a_nbytes + b_nbytes,
            output_nbytes=tile.m * tile.n * out.dtype.nbytes,
            register_nbytes=a_nbytes + b_nbytes,
            accumulator_nbytes=tile.m * tile.n * acc.nbytes,
        ),
    )
