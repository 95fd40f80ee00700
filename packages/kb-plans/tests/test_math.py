import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plans_stages import kinds

from kb_messages import (
    DmaParams,
    DType,
    MathAttributes,
    MathCommand,
    MathInput,
    MathParams,
    Matrix,
    PipelinePlan,
    Place,
    PlanError,
    Rectangle,
    Role,
    StageType,
    TilePlan,
    TileShape,
    TransferParams,
)
from kb_plans import TileRoom, count, generate_math_plan, suggest_math_tile
from kb_plans.math import check_arguments
from kb_plans.templates import Input, fixed

READ, FETCH, MATH = StageType.DMA_READ, StageType.FETCH, StageType.MATH
STORE, WRITE = StageType.STORE, StageType.DMA_WRITE
F16 = DType.F16


def math_plan(
    op: str,
    *shapes: tuple[int, int],
    tile: TileShape,
    pinned: bool = False,
    out: tuple[int, int] | None = None,
    axis: int | None = None,
    scalars: tuple[float, ...] = (),
    dtype: DType = F16,
    scalar_at: tuple[int, ...] = (),
) -> PipelinePlan:
    inputs = tuple(
        MathInput(matrix=Matrix.packed(rows, cols, dtype, number << 20), pinned=pinned)
        for number, (rows, cols) in enumerate(shapes, start=1)
    )
    m, n = (max(sizes) for sizes in zip(*shapes, strict=True)) if shapes else (1, 1)
    target = Matrix.packed(*(out or (m, n)), dtype, 9 << 20)
    attributes = MathAttributes(op=op, axis=axis, scalars=scalars, scalar_at=scalar_at)
    command = MathCommand(math=attributes, inputs=inputs, out=target, tile=tile, out_pinned=pinned)
    return generate_math_plan(command, "pe0")


def memory(tile: TilePlan, number: int) -> Rectangle:
    params = tile.stages[number].params
    assert isinstance(params, DmaParams)
    return params.memory


def test_a_tile_reads_each_input_fetches_once_computes_and_leaves() -> None:
    plan = math_plan("add", (8, 8), (8, 8), tile=TileShape(4, 8, 1))
    assert plan.grid == (2, 1, 1)
    for tile in plan.tiles:
        assert kinds(tile) == [READ, READ, FETCH, MATH, STORE, WRITE]
    blocks = ["pe_dma", "pe_dma", "pe_fetch_store", "pe_math", "pe_fetch_store", "pe_dma"]
    assert [stage.component for stage in plan.tiles[0].stages] == [f"pe0.{block}" for block in blocks]
    # The second tile begins 4 rows of 16 bytes further on.
    assert memory(plan.tiles[1], 1) == Rectangle((2 << 20) + 64, 4, 16, 16)
    assert plan.tiles[1].stages[3].params == MathParams(op="add", rows=4, cols=8, dtype=F16)


def test_pinned_inputs_and_results_stay_in_tcm() -> None:
    plan = math_plan("exp", (8, 8), tile=TileShape(8, 8, 1), pinned=True)
    assert kinds(plan.tiles[0]) == [FETCH, MATH, STORE]
    assert (plan.buffers.input_nbytes, plan.buffers.output_nbytes) == (0, 0)


def test_a_side_of_one_is_broadcast_to_every_tile() -> None:
    plan = math_plan("mul", (8, 1), (1, 8), tile=TileShape(4, 4, 1))
    assert plan.grid == (2, 2, 1)
    assert [memory(tile, 0) for tile in plan.tiles] == [Rectangle((1 << 20) + 8 * row, 4, 2, 2) for row in (0, 0, 1, 1)]
    assert [memory(tile, 1) for tile in plan.tiles] == [
        Rectangle((2 << 20) + 8 * col, 1, 8, 16) for col in (0, 1, 0, 1)
    ]
    # 4 elements each way, of 2 bytes.
    assert plan.tiles[0].stages[2].params == TransferParams(nbytes=8 + 8)


@pytest.mark.parametrize(
    ("axis", "out", "tile", "grid", "stored"),
    [(1, (8, 1), TileShape(4, 8, 1), (2, 1, 1), 4 * 2), (0, (1, 8), TileShape(8, 4, 1), (1, 2, 1), 4 * 2)],
)
def test_a_reduction_keeps_its_axis_with_length_one(
    axis: int, out: tuple[int, int], tile: TileShape, grid: tuple[int, int, int], stored: int
) -> None:
    plan = math_plan("sum", (8, 8), out=out, axis=axis, tile=tile)
    assert plan.grid == grid
    for each in plan.tiles:
        assert each.stages[2].params == MathParams(op="sum", rows=tile.m, cols=tile.n, dtype=F16, axis=axis)
        assert each.stages[3].params == TransferParams(nbytes=stored)


def test_inputs_are_released_by_math_and_the_result_by_store() -> None:
    plan = math_plan("add", (8, 8), (8, 8), tile=TileShape(4, 8, 1))
    released = [(stage.stage_type, each.place) for stage in plan.stages for each in stage.operands if each.release]
    assert released == [
        *[(FETCH, Place.INPUT_BUFFER)] * 2,
        *[(MATH, Place.REGISTERS)] * 2,
        (STORE, Place.ACCUMULATOR),
        (WRITE, Place.OUTPUT_BUFFER),
    ]


@given(
    m=st.integers(1, 20),
    n=st.integers(1, 20),
    tile=st.builds(TileShape, st.integers(1, 24), st.integers(1, 24), st.just(1)),
    narrow=st.sampled_from(["neither", "rows", "cols", "both"]),
)
def test_counts_are_the_sums_over_the_tiles(m: int, n: int, tile: TileShape, narrow: str) -> None:
    other = (1 if narrow in ("rows", "both") else m, 1 if narrow in ("cols", "both") else n)
    plan = math_plan("add", (m, n), other, tile=tile)
    counts = count(plan)
    assert counts.tiles == len(plan.tiles) == counts.stages[MATH]
    assert counts.nbytes[READ] == sum(memory(each, 0).nbytes + memory(each, 1).nbytes for each in plan.tiles)
    assert counts.nbytes[FETCH] == counts.nbytes[READ]
    assert counts.nbytes[WRITE] == m * n * 2


REFUSED = [
    ("gamma", [(4, 4)], {}, "math: got 'gamma', needs one of fill, index, copy, neg, "),
    ("add", [(4, 4)], {}, "math add: got 1 inputs and 0 scalars, needs 2 arguments, one of them an input at least"),
    ("add", [(4, 4), (3, 4)], {}, "math add: got inputs of 4 x 4, 3 x 4, needs shapes that broadcast"),
    ("exp", [(4, 4)], {"out": (4, 5)}, "math exp out: got 4 x 5, needs 4 x 4"),
    ("sum", [(4, 4)], {}, "math sum: got axis None, needs axis 0 or 1"),
    ("exp", [(4, 4)], {"axis": 0}, "math exp: got axis 0, needs no axis"),
    (
        "sum",
        [(4, 4)],
        {"axis": 0, "out": (1, 4)},
        ("math sum tile: got 2x2x1, needs all 4 elements of axis 0, which it goes over"),
    ),
    ("exp", [(4, 4)], {"dtype": DType.I8}, "math exp: got inputs of i8, needs floats"),
    (
        "add",
        [(4, 4)],
        {"scalars": (0.5,), "scalar_at": (2,)},
        "math add: got scalar_at [2] of 1 scalars, needs a place among the arguments for each scalar, ascending",
    ),
    ("mod", [(4, 4), (4, 4)], {}, "math mod: got inputs of f16, f16, needs integers"),
    (
        "add",
        [(4, 4)],
        {"dtype": DType.I8, "scalars": (0.5,)},
        ("math add: got the scalar 0.5 for integers, needs a whole number"),
    ),
    (
        "exp",
        [(4, 4)],
        {"tile": TileShape(2, 2, 2)},
        ("math exp tile: got 2x2x2, needs positive rows and columns, and a depth of 1"),
    ),
]


@pytest.mark.parametrize(("op", "shapes", "more", "message"), REFUSED)
def test_what_does_not_fit_is_refused(
    op: str, shapes: list[tuple[int, int]], more: dict[str, object], message: str
) -> None:
    with pytest.raises(PlanError, match=f"^{re.escape(message)}"):
        math_plan(op, *shapes, **{"tile": TileShape(2, 2, 1), **more})  # type: ignore[arg-type]


def test_the_suggested_tile_is_the_largest_that_two_of_fit() -> None:
    matrix = Matrix.packed(64, 64, F16)
    room = TileRoom(input_nbytes=4096, output_nbytes=4096, register_nbytes=4096)
    # Two tiles of 2048 bytes: input and result of 16 x 32 elements take 1024 each.
    command = MathCommand(math=MathAttributes(op="exp"), inputs=(MathInput(matrix=matrix),), out=matrix)
    assert suggest_math_tile(command, room) == TileShape(16, 32, 1)


@pytest.mark.parametrize(
    ("shapes", "out", "tile"),
    [
        # A slot of 64 bytes has 32 f16. It is the least that an input or a result takes.
        (((1, 64),), (1, 64), TileShape(1, 32, 1)),
        (((64, 1),), (64, 1), TileShape(32, 1, 1)),
        (((64, 1), (1, 64)), (64, 64), TileShape(4, 8, 1)),
    ],
)
def test_a_suggested_tile_grows_from_one_element(
    shapes: tuple[tuple[int, int], ...], out: tuple[int, int], tile: TileShape
) -> None:
    inputs = tuple(MathInput(matrix=Matrix.packed(*shape, F16)) for shape in shapes)
    command = MathCommand(
        math=MathAttributes(op="exp" if len(shapes) == 1 else "add"), inputs=inputs, out=Matrix.packed(*out, F16)
    )
    two = 2 * 64 * len(shapes)
    room = TileRoom(input_nbytes=two, output_nbytes=2 * 64, register_nbytes=two + 2 * 64)
    assert suggest_math_tile(command, room) == tile


def test_a_suggested_tile_of_a_reduction_holds_its_whole_axis() -> None:
    matrix, out = Matrix.packed(64, 64, F16), Matrix.packed(64, 1, F16)
    room = TileRoom(input_nbytes=4096, output_nbytes=4096, register_nbytes=4096)
    # Rows of 128 bytes: 8 of them are 1024, and their sums a slot of 64; 16 rows and their sums, twice, are 4224.
    command = MathCommand(math=MathAttributes(op="sum", axis=1), inputs=(MathInput(matrix=matrix),), out=out)
    assert suggest_math_tile(command, room) == TileShape(8, 64, 1)


def test_operands_lie_where_their_role_says() -> None:
    plan = math_plan("add", (8, 8), (8, 8), tile=TileShape(8, 8, 1))
    (math,) = (stage for stage in plan.stages if stage.stage_type is MATH)
    assert [(each.role, each.place) for each in math.operands] == [
        (Role.IN, Place.REGISTERS), (Role.IN, Place.REGISTERS), (Role.OUT, Place.ACCUMULATOR),
    ]  # fmt: skip
    # Rows of 8 f16. The second input lies behind the first, and the result is alone in the accumulator.
    assert [(each.base, each.stride) for each in math.operands] == [(0, 16), (128, 16), (0, 16)]
    (store,) = (stage for stage in plan.stages if stage.stage_type is STORE)
    assert [(each.place, each.base) for each in store.operands] == [(Place.ACCUMULATOR, 0), (Place.OUTPUT_BUFFER, 0)]


@pytest.mark.parametrize(("kept", "place"), [(False, Place.INPUT_BUFFER), (True, Place.PANEL)])
def test_an_operand_alone_lies_at_the_begin_of_its_buffer(kept: bool, place: Place) -> None:
    alone = Input(Matrix.packed(4, 4, F16), False, fixed(4), fixed(4), kept=kept)
    arriving = alone.read("pe0").operands[1]
    assert (arriving.place, arriving.base, arriving.stride) == (place, 0, 8)
    assert [each.base for each in alone.fetched()] == [0, 0]


@pytest.mark.parametrize(
    ("dtypes", "at", "refused"),
    [
        # The condition does not decide: 0.5 stands beside the integers of the other argument alone.
        ((F16, DType.I32), 2, True),
        ((F16, DType.I32), 1, True),
        ((DType.I32, F16), 2, False),
        # Here the scalar is the condition, and both others decide.
        ((F16, DType.I32), 0, False),
        ((DType.I32, DType.I32), 0, True),
    ],
)
def test_a_fraction_is_chosen_beside_floats_alone(dtypes: tuple[DType, ...], at: int, refused: bool) -> None:
    attributes = MathAttributes(op="where", scalars=(0.5,), scalar_at=(at,))
    if refused:
        with pytest.raises(PlanError, match=r"^here: got the scalar 0\.5 for integers, needs a whole number$"):
            check_arguments("here", attributes, dtypes)
    else:
        check_arguments("here", attributes, dtypes)
