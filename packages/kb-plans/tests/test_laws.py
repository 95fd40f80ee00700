"""What holds of every GEMM's plan: ragged shapes, all pins and transposes, b that streams, and epilogues."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from plans_stages import extent
from sampled_cases import examples

from kb_messages import (
    DmaParams,
    DType,
    EpilogueOp,
    EpilogueScope,
    GemmCommand,
    GemmParams,
    LoopOrder,
    Matrix,
    PipelinePlan,
    Place,
    Rectangle,
    Role,
    StageTemplate,
    StageType,
    TileShape,
    TransferParams,
    decode_plan,
    encode_plan,
    rectangle,
)
from kb_plans import PlanCounts, count, generate_gemm_plan

A, B, OUT, OTHERS = 1 << 38, 2 << 38, 3 << 38, 4 << 38
K_TILE, OUTPUT_TILE = EpilogueScope.K_TILE, EpilogueScope.OUTPUT_TILE
MEMORY_STAGES = (StageType.DMA_READ, StageType.FETCH, StageType.STORE, StageType.DMA_WRITE)


class Problem(Struct, frozen=True):
    """A GEMM of m x n x k and how it is asked for."""

    m: int
    n: int
    k: int
    tile: TileShape
    dtype: DType
    command: GemmCommand

    @property
    def plan(self) -> PipelinePlan:
        return generate_gemm_plan(self.command, "pe0")

    @property
    def tiles(self) -> tuple[int, int, int]:
        """How many there are along m, n and k."""
        sides = ((self.m, self.tile.m), (self.n, self.tile.n), (self.k, self.tile.k))
        return tuple(-(-side // min(side, tile)) for side, tile in sides)  # type: ignore[return-value]

    @property
    def reads(self) -> tuple[int, int]:
        """How often DMA or, of a pinned operand, FETCH reads A and B from memory: a kept operand once."""
        m_tiles, n_tiles, _ = self.tiles
        order = self.command.loop_order
        kept = order is LoopOrder.INPUT_STATIONARY, order is LoopOrder.WEIGHT_STATIONARY
        return 1 if kept[0] else n_tiles, 1 if kept[1] else m_tiles

    @property
    def operand_bytes(self) -> Iterator[tuple[int, bool]]:
        """What each epilogue operand moves: (bytes over all tiles, whether it is pinned)."""
        m_tiles, n_tiles, k_tiles = self.tiles
        for op in self.command.epilogue:
            if op.operand is not None:
                if op.group is not None:
                    yield m_tiles * op.operand.rows * self.n * self.dtype.nbytes, op.operand_pinned
                    continue
                rows = self.m if op.operand.rows == self.m else m_tiles
                cols = self.n if op.operand.cols == self.n else n_tiles
                times = k_tiles if op.scope is K_TILE else 1
                yield times * rows * cols * self.dtype.nbytes, op.operand_pinned


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    m, n, k = (draw(st.integers(1, 18)) for _ in range(3))
    dtype = draw(st.sampled_from([DType.F32, DType.F16, DType.BF16]))
    tile = TileShape(*(draw(st.integers(1, 8)) for _ in range(3)))
    operands = {"row": (1, n), "column": (m, 1), "matrix": (m, n), "groups": (-(-k // tile.k), n)}
    epilogue = []
    for number, (op, scope, kind) in enumerate(draw(st.lists(st.sampled_from(EPILOGUES), max_size=4))):
        matrix = None if kind is None else Matrix.packed(*operands[kind], dtype, OTHERS + (number << 20))
        scalars = () if kind or op in ("relu", "gelu") else (2.0,)
        pinned = matrix is not None and draw(st.booleans())
        group = tile.k if kind == "groups" else None
        epilogue.append(
            EpilogueOp(op=op, scope=scope, operand=matrix, operand_pinned=pinned, scalars=scalars, group=group)
        )
    order = draw(st.sampled_from([*LoopOrder]))
    b_pinned = order is not LoopOrder.WEIGHT_STATIONARY and draw(st.booleans())
    transposed = draw(st.booleans()), draw(st.booleans())
    command = GemmCommand(
        a=Matrix.packed(*((k, m) if transposed[0] else (m, k)), dtype, A),
        b=Matrix.packed(*((n, k) if transposed[1] else (k, n)), dtype, B),
        out=Matrix.packed(m, n, dtype, OUT),
        tile=tile,
        a_pinned=order is not LoopOrder.INPUT_STATIONARY and draw(st.booleans()),
        b_pinned=b_pinned,
        out_pinned=draw(st.booleans()),
        transpose_a=transposed[0],
        transpose_b=transposed[1],
        b_stream=not b_pinned and order is not LoopOrder.WEIGHT_STATIONARY and draw(st.booleans()),
        epilogue=tuple(epilogue),
        loop_order=order,
    )
    return Problem(m, n, k, tile, dtype, command)


EPILOGUES = (
    ("dequant", K_TILE, "row"),
    ("dequant", K_TILE, "groups"),
    ("scale", K_TILE, "column"),
    ("scale", K_TILE, None),
    ("bias", OUTPUT_TILE, "row"),
    ("bias", OUTPUT_TILE, "column"),
    ("dequant", OUTPUT_TILE, "column"),
    ("residual", OUTPUT_TILE, "matrix"),
    ("relu", OUTPUT_TILE, None),
)

every = given(problems())


def services(plan: PipelinePlan) -> Iterator[tuple[StageTemplate, tuple[int, int, int]]]:
    """Every stage of every tile, with the tile's place."""
    m_grid, n_grid, k_grid = plan.grid
    for place in itertools.product(range(m_grid), range(n_grid), range(k_grid)):
        is_later = plan.loop_order.outer_first(*place[:2])[1] > 0
        for number in plan.stages_at(place[2], is_later):
            yield plan.stages[number], place


def rectangles(plan: PipelinePlan, kinds: tuple[StageType, ...], role: Role, base: int) -> Iterator[Rectangle]:
    """What stages of *kinds* have in the memory of the matrix at *base*, as operands of *role*."""
    for stage, place in services(plan):
        for operand in stage.operands:
            held = operand.when.holds(place[2], plan.grid[2]) and stage.stage_type in kinds
            if held and operand.role is role and operand.place is Place.MEMORY and operand.base == base:
                yield rectangle(operand, place)


def elements(found: Rectangle, nbytes: int) -> Iterator[int]:
    for row in range(found.rows):
        start = found.base + row * found.stride
        yield from range(start, start + found.row_nbytes, nbytes)


def touched(problem: Problem, role: Role, base: int, *kinds: StageType) -> Counter[int]:
    """How often each element of the matrix at *base* is, as a number from 0 on in the order of storage."""
    nbytes = problem.dtype.nbytes
    found = rectangles(problem.plan, kinds, role, base)
    return Counter((address - base) // nbytes for each in found for address in elements(each, nbytes))


@every
def test_every_output_element_is_written_exactly_once(problem: Problem) -> None:
    kind = StageType.STORE if problem.command.out_pinned else StageType.DMA_WRITE
    assert touched(problem, Role.DST, OUT, kind) == dict.fromkeys(range(problem.m * problem.n), 1)


@every
def test_every_operand_element_is_read_once_for_each_tile_across_or_once_if_it_is_kept(problem: Problem) -> None:
    of_a, of_b = problem.reads
    for base, size, times, pinned in (
        (A, problem.m * problem.k, of_a, problem.command.a_pinned),
        (B, problem.k * problem.n, of_b, problem.command.b_pinned),
    ):
        kind = StageType.FETCH if pinned else StageType.DMA_READ
        assert touched(problem, Role.SRC, base, kind) == dict.fromkeys(range(size), times)


@every
def test_bytes_are_those_of_the_closed_form(problem: Problem) -> None:
    m_tiles, n_tiles, _ = problem.tiles
    nbytes, command = problem.dtype.nbytes, problem.command
    a, b = n_tiles * problem.m * problem.k * nbytes, m_tiles * problem.k * problem.n * nbytes
    others = list(problem.operand_bytes)
    of_a, of_b = problem.reads
    read = 0 if command.a_pinned else of_a * problem.m * problem.k * nbytes
    read += 0 if command.b_pinned else of_b * problem.k * problem.n * nbytes
    read += sum(moved for moved, pinned in others if not pinned)
    fetched = a + (0 if command.b_stream else b) + sum(moved for moved, _ in others)
    out = problem.m * problem.n * nbytes
    written = 0 if command.out_pinned else out
    found = count(problem.plan)
    expected = dict(zip(MEMORY_STAGES, (read, fetched, out, written), strict=True))
    assert {kind: found.nbytes.get(kind, 0) for kind in MEMORY_STAGES} == expected
    assert found.streamed_nbytes == (b if command.b_stream else 0)


@every
def test_counts_are_the_sums_over_the_tiles(problem: Problem) -> None:
    plan = problem.plan
    stages: Counter[StageType] = Counter()
    nbytes: Counter[StageType] = Counter()
    macs = streamed = 0
    for stage in (stage for tile in plan.tiles for stage in tile.stages):
        params = stage.params
        stages[stage.stage_type] += 1
        if isinstance(params, GemmParams):
            macs += params.m * params.n * params.k
        elif isinstance(params, DmaParams):
            nbytes[stage.stage_type] += params.memory.nbytes
            streamed += params.memory.nbytes if params.to_registers else 0
        elif isinstance(params, TransferParams):
            nbytes[stage.stage_type] += params.nbytes
    found = count(plan)
    assert found == PlanCounts(
        tiles=len(plan.tiles), stages=found.stages, nbytes=found.nbytes, macs=macs, streamed_nbytes=streamed
    )
    assert {kind: number for kind, number in found.stages.items() if number} == stages
    assert {kind: moved for kind, moved in found.nbytes.items() if moved} == {k: v for k, v in nbytes.items() if v}
    assert macs == problem.m * problem.n * problem.k


@every
def test_products_know_their_sides_and_how_their_factors_are_stored(problem: Problem) -> None:
    for tile in problem.plan.tiles:
        (params,) = (stage.params for stage in tile.stages if isinstance(stage.params, GemmParams))
        command = problem.command
        assert (params.transpose_a, params.transpose_b) == (command.transpose_a, command.transpose_b)
        sides = ((params.m, problem.m, tile.m), (params.n, problem.n, tile.n), (params.k, problem.k, tile.k))
        for (found, side, index), size in zip(sides, (problem.tile.m, problem.tile.n, problem.tile.k), strict=True):
            assert found == min(size, side - index * size)


@every
def test_equal_arguments_give_equal_plans(problem: Problem) -> None:
    one, other = problem.plan, problem.plan
    assert one == other
    assert list(one.tiles) == list(other.tiles)


@every
def test_what_comes_to_registers_or_input_buffer_has_a_place_of_its_own_there(problem: Problem) -> None:
    plan = problem.plan
    for place, nbytes in (
        (Place.REGISTERS, plan.buffers.register_nbytes),
        (Place.INPUT_BUFFER, plan.buffers.input_nbytes),
        (Place.PANEL, plan.buffers.panel_nbytes // plan.grid[2]),
    ):
        arriving = [
            each
            for stage in plan.stages
            if stage.stage_type in (StageType.DMA_READ, StageType.FETCH)
            for each in stage.operands
            if each.role is Role.DST and each.place is place
        ]
        extents = sorted(map(extent, arriving))
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(extents))
        assert max((end for _, end in extents), default=0) <= nbytes


@every
@settings(max_examples=examples(60))
def test_b_that_streams_is_read_last_and_no_part_of_the_input_buffer(problem: Problem) -> None:
    reads = [stage.to_registers for stage in problem.plan.stages if stage.stage_type is StageType.DMA_READ]
    assert reads.count(True) == problem.command.b_stream
    assert not problem.command.b_stream or reads[-1]


@every
def test_a_plan_survives_json(problem: Problem) -> None:
    assert decode_plan(encode_plan(problem.plan)) == problem.plan
