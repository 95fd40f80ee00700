import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plans_stages import kinds

from kb_messages import (
    DmaParams,
    DType,
    EpilogueOp,
    EpilogueScope,
    GemmCommand,
    GemmParams,
    MathAttributes,
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
    rectangle,
)
from kb_plans import EPILOGUE_OPS, TileRoom, count, generate_gemm_plan, suggest_tile
from kb_plans.epilogue import _result

READ, FETCH, GEMM, MATH = StageType.DMA_READ, StageType.FETCH, StageType.GEMM, StageType.MATH
STORE, WRITE = StageType.STORE, StageType.DMA_WRITE
K_TILE, OUTPUT_TILE = EpilogueScope.K_TILE, EpilogueScope.OUTPUT_TILE
ROW_BASE, MATRIX_BASE = 1 << 24, 1 << 25
SMALL = TileShape(4, 4, 4)


def on_k(op: str, **more: object) -> EpilogueOp:
    return EpilogueOp(op=op, scope=K_TILE, **more)  # type: ignore[arg-type]


def on_output(op: str, **more: object) -> EpilogueOp:
    return EpilogueOp(op=op, scope=OUTPUT_TILE, **more)  # type: ignore[arg-type]


def row(n: int, dtype: DType = DType.F16) -> Matrix:
    return Matrix.packed(1, n, dtype, ROW_BASE)


def matrix(m: int, n: int, dtype: DType = DType.F16) -> Matrix:
    return Matrix.packed(m, n, dtype, MATRIX_BASE)


def plan_of(
    *epilogue: EpilogueOp,
    shape: tuple[int, int, int] = (8, 8, 12),
    tile: TileShape = SMALL,
    dtype: DType = DType.F16,
    pinned: bool = False,
) -> PipelinePlan:
    m, n, k = shape
    a, b, out = Matrix.packed(m, k, dtype), Matrix.packed(k, n, dtype), Matrix.packed(m, n, dtype)
    command = GemmCommand(a=a, b=b, out=out, tile=tile, a_pinned=pinned, b_pinned=pinned, epilogue=epilogue)
    return generate_gemm_plan(command, "pe0")


def maths(tile: TilePlan) -> list[str]:
    return [each.params.op for each in tile.stages if isinstance(each.params, MathParams)]


def test_an_output_op_runs_once_between_the_last_product_and_the_store() -> None:
    first, middle, last = plan_of(on_output("relu")).tiles[:3]
    assert kinds(first) == kinds(middle) == [READ, READ, FETCH, GEMM]
    assert kinds(last) == [READ, READ, FETCH, GEMM, MATH, STORE, WRITE]
    assert last.stages[4].component == "pe0.pe_math"
    assert last.stages[4].params == MathParams(op="relu", rows=4, cols=4, dtype=DType.F32)


def test_an_output_ops_operand_is_read_at_the_head_of_the_last_tile_over_k() -> None:
    first, middle, last = plan_of(on_output("bias", operand=row(8))).tiles[3:6]
    assert kinds(first) == kinds(middle) == [READ, READ, FETCH, GEMM]
    assert kinds(last) == [READ, READ, READ, FETCH, GEMM, MATH, STORE, WRITE]
    # The second tile of columns: 4 elements of 2 bytes from column 4 on.
    assert last.stages[2].params == DmaParams(memory=Rectangle(ROW_BASE + 8, 1, 8, 16))


def test_one_fetch_moves_the_operand_along() -> None:
    first, _, last = plan_of(on_output("residual", operand=matrix(8, 8))).tiles[:3]
    # A and B: 2 x 16 elements of 2 bytes; the residual 16 more.
    assert first.stages[2].params == TransferParams(nbytes=64)
    assert last.stages[3].params == TransferParams(nbytes=96)


def test_a_k_tile_op_works_on_every_partial_product_and_accumulate_closes_it() -> None:
    tiles = plan_of(on_k("dequant", operand=row(8, DType.F32))).tiles[:3]
    assert [kinds(tile) for tile in tiles] == [
        [READ, READ, READ, FETCH, GEMM, MATH, MATH],
        [READ, READ, READ, FETCH, GEMM, MATH, MATH],
        [READ, READ, READ, FETCH, GEMM, MATH, MATH, STORE, WRITE],
    ]
    assert [maths(tile) for tile in tiles] == [["mul", "copy"], ["mul", "add"], ["mul", "add"]]
    products = [each.params for tile in tiles for each in tile.stages if isinstance(each.params, GemmParams)]
    assert [each.accumulate for each in products] == [False, False, False]


def test_ops_of_both_scopes_keep_their_order() -> None:
    epilogue = (
        on_output("bias", operand=row(8)),
        on_k("dequant", scalars=(0.5,)),
        on_output("relu"),
        on_k("scale", scalars=(2.0,)),
    )
    tiles = plan_of(*epilogue).tiles[:3]
    assert [maths(tile) for tile in tiles] == [
        ["mul", "mul", "copy"],
        ["mul", "mul", "add"],
        ["mul", "mul", "add", "add", "relu"],
    ]
    scalars = [stage.math.scalars for stage in plan_of(*epilogue).stages if stage.math is not None]
    assert scalars == [(0.5,), (2.0,), (), (), (), ()]


def test_a_pinned_operand_is_fetched_from_where_it_lies() -> None:
    plan = plan_of(on_output("bias", operand=row(8), operand_pinned=True))
    assert kinds(plan.tiles[2]) == [READ, READ, FETCH, GEMM, MATH, STORE, WRITE]
    assert plan.tiles[2].stages[2].params == TransferParams(nbytes=64 + 8)
    assert plan.buffers.input_nbytes == plan_of().buffers.input_nbytes


def test_buffers_grow_by_what_the_ops_bring_along() -> None:
    plain = plan_of(tile=TileShape(8, 8, 4)).buffers
    # A bias of 16 bytes takes a slot of 64; the partial product is 8 x 8 of 4 bytes.
    bias = plan_of(on_output("bias", operand=row(8)), tile=TileShape(8, 8, 4)).buffers
    assert bias.input_nbytes - plain.input_nbytes == bias.register_nbytes - plain.register_nbytes == 64
    scaled = plan_of(on_k("scale", scalars=(2.0,)), tile=TileShape(8, 8, 4)).buffers
    assert (scaled.input_nbytes, scaled.register_nbytes - plain.register_nbytes) == (plain.input_nbytes, 256)
    assert bias.accumulator_nbytes == scaled.accumulator_nbytes == plain.accumulator_nbytes


EVERY_OP = (
    on_k("dequant", operand=row(8, DType.F32)),
    on_k("scale", operand=row(8)),
    on_output("bias", operand=row(8)),
    on_output("residual", operand=matrix(8, 8)),
    on_output("gelu"),
    on_output("cast", dtype=DType.BF16),
)


def test_operands_in_a_buffer_do_not_overlap_and_fit() -> None:
    plan = plan_of(*EVERY_OP)
    (fetch,) = (each for each in plan.stages if each.stage_type is FETCH)
    (gemm,) = (each for each in plan.stages if each.stage_type is GEMM)
    arrived = [each for each in fetch.operands if each.role is Role.DST]
    arrived += [each for each in gemm.operands if each.role is Role.OUT]
    sources = [each for each in fetch.operands if each.role is Role.SRC]
    for operands, nbytes in ((arrived, plan.buffers.register_nbytes), (sources, plan.buffers.input_nbytes)):
        found = [rectangle(each, (0, 0, 0)) for each in operands]
        extents = sorted((each.base, each.base + (each.rows - 1) * each.stride + each.row_nbytes) for each in found)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(extents))
        assert extents[-1][1] <= nbytes


def test_registers_are_released_by_their_last_reader() -> None:
    plan = plan_of(*EVERY_OP)
    written = {(each.place, each.base) for stage in plan.stages for each in stage.operands if each.role.is_write}
    released = [(each.place, each.base) for stage in plan.stages for each in stage.operands if each.release]
    assert {each for each in written if each[0] is not Place.MEMORY} == set(released)


def test_a_value_that_changes_its_type_is_released_as_what_it_was() -> None:
    plan = plan_of(on_output("cast", dtype=DType.F16), on_output("relu"))
    cast, relu = (each for each in plan.stages if each.stage_type is MATH)
    assert [(each.dtype, each.release) for each in cast.operands] == [(DType.F32, True), (DType.F16, False)]
    assert [(each.dtype, each.release) for each in relu.operands] == [(DType.F16, False), (DType.F16, False)]
    store = next(each for each in plan.stages if each.stage_type is STORE)
    assert store.operands[0].dtype is DType.F16


def test_dequant_makes_floats_of_integer_products() -> None:
    plan = plan_of(on_k("dequant", operand=row(8, DType.F32)), on_output("relu"), dtype=DType.I8)
    accumulators = {each.dtype for stage in plan.stages for each in stage.operands if each.place is Place.ACCUMULATOR}
    assert accumulators == {DType.F32}


@given(
    m=st.integers(1, 20),
    n=st.integers(1, 20),
    k=st.integers(1, 20),
    tile=st.builds(TileShape, *[st.integers(1, 8)] * 3),
    chosen=st.permutations(["dequant", "scale", "bias", "residual", "relu"]),
    length=st.integers(0, 5),
    pinned=st.booleans(),
)
def test_counts_are_the_sums_over_the_tiles(
    m: int, n: int, k: int, tile: TileShape, chosen: list[str], length: int, pinned: bool
) -> None:
    ops = {
        "dequant": on_k("dequant", operand=row(n), operand_pinned=pinned),
        "scale": on_k("scale", scalars=(2.0,)),
        "bias": on_output("bias", operand=row(n)),
        "residual": on_output("residual", operand=matrix(m, n), operand_pinned=pinned),
        "relu": on_output("relu"),
    }
    plan = plan_of(*(ops[name] for name in chosen[:length]), shape=(m, n, k), tile=tile, pinned=pinned)
    stages: dict[StageType, int] = {}
    nbytes: dict[StageType, int] = {}
    for stage in (stage for each in plan.tiles for stage in each.stages):
        stages[stage.stage_type] = stages.get(stage.stage_type, 0) + 1
        if isinstance(stage.params, (DmaParams, TransferParams)):
            moved = stage.params.memory.nbytes if isinstance(stage.params, DmaParams) else stage.params.nbytes
            nbytes[stage.stage_type] = nbytes.get(stage.stage_type, 0) + moved
    counts = count(plan)
    assert {kind: times for kind, times in counts.stages.items() if times} == stages
    assert {kind: moved for kind, moved in counts.nbytes.items() if moved} == nbytes
    assert counts.macs == m * n * k
    assert sum(stages.values()) == plan.n_stages


def test_factors_by_group_come_a_row_with_each_tile_over_k() -> None:
    plan = plan_of(on_k("dequant", operand=matrix(3, 8, DType.F32), group=4))
    rows = [tile.stages[2].params for tile in plan.tiles[3:6]]
    # The second tile of columns: 4 elements of 4 bytes from column 4 on, of rows of 32 bytes.
    assert rows == [DmaParams(memory=Rectangle(MATRIX_BASE + 16 + k * 32, 1, 16, 32)) for k in range(3)]


def test_a_suggested_tile_is_as_deep_as_a_group() -> None:
    a, b, out = matrix(64, 96), matrix(96, 64), matrix(64, 64)
    room = TileRoom(input_nbytes=1 << 16, output_nbytes=1 << 16, register_nbytes=1 << 16)
    for group, factors in ((32, 3), (40, 3), (200, 1)):
        op = on_k("dequant", operand=matrix(factors, 64), group=group)
        assert suggest_tile(GemmCommand(a=a, b=b, out=out, epilogue=(op,)), room).k == min(group, 96)


def test_a_bias_of_a_column_follows_the_rows() -> None:
    plan = plan_of(on_output("bias", operand=matrix(8, 1)))
    # The second tile of rows, the last over K: 4 elements from row 4 on, each in a row of its own of 2 bytes.
    last = plan.tiles[8]
    assert last.stages[2].params == DmaParams(memory=Rectangle(MATRIX_BASE + 8, 4, 2, 2))


NOT_LINEAR = "it is not linear: of partial products it is not that of their sum"
REFUSED = [
    (
        on_output("softmax"),
        ("gemm epilogue: got 'softmax', needs one of bias, residual, scale, dequant, relu, gelu, silu, cast"),
    ),
    (
        on_k("bias", operand=row(8)),
        ("gemm epilogue bias: got scope k_tile, needs scope output_tile: it would be added once for each tile over K"),
    ),
    (
        on_k("residual", operand=matrix(8, 8)),
        (
            "gemm epilogue residual: got scope k_tile, needs scope output_tile: it "
            "would be added once for each tile over K"
        ),
    ),
    *(
        (on_k(op), f"gemm epilogue {op}: got scope k_tile, needs scope output_tile: {NOT_LINEAR}")
        for op in ("relu", "gelu", "silu")
    ),
    (
        on_k("cast", dtype=DType.F16),
        (
            "gemm epilogue cast: got scope k_tile, needs scope output_tile: partial products "
            "stay in the accumulator's type until they are summed"
        ),
    ),
    (
        on_output("bias"),
        ("gemm epilogue bias: got no operand and 0 scalars, needs an operand of 1 x N or M x 1 for an output of 8 x 8"),
    ),
    (
        on_output("bias", operand=row(7)),
        (
            "gemm epilogue bias: got an operand of 1 x 7 and 0 scalars, needs an "
            "operand of 1 x N or M x 1 for an output of 8 x 8"
        ),
    ),
    (
        on_output("residual", operand=row(8)),
        (
            "gemm epilogue residual: got an operand of 1 x 8 and 0 scalars, needs an "
            "operand of M x N for an output of 8 x 8"
        ),
    ),
    (
        on_output("scale", operand=row(8), scalars=(2.0,)),
        (
            "gemm epilogue scale: got an operand of 1 x 8 and 1 scalars, "
            "needs an operand of 1 x N or M x 1, or one scalar for an output of 8 x 8"
        ),
    ),
    (
        on_output("scale", scalars=(2.0, 3.0)),
        (
            "gemm epilogue scale: got no operand and 2 scalars, needs an operand of "
            "1 x N or M x 1, or one scalar for an output of 8 x 8"
        ),
    ),
    (
        on_output("relu", scalars=(2.0,)),
        ("gemm epilogue relu: got no operand and 1 scalars, needs neither operand nor scalar"),
    ),
    (
        on_output("relu", group=4),
        "gemm epilogue relu: got group 4, needs no group: only factors come in groups",
    ),
    (
        on_output("scale", operand=row(8), group=4),
        ("gemm epilogue scale: got group 4 and scope output_tile, needs scope k_tile: the sum has no groups any more"),
    ),
    (
        on_k("scale", operand=row(8), group=3),
        (
            "gemm epilogue scale: got groups of 3 along K in tiles of 4, needs tiles as deep as a group; use a tile "
            "whose k is 3"
        ),
    ),
    (
        on_k("scale", operand=row(8), group=0),
        "gemm epilogue scale: got group 0, needs at least 1",
    ),
    (
        on_k("scale", operand=row(8), group=4),
        ("gemm epilogue scale: got an operand of 1 x 8 and 0 scalars, needs an operand of 3 x 8, a row for each group"),
    ),
    (
        on_k("scale", scalars=(2.0,), group=4),
        "gemm epilogue scale: got no operand and 1 scalars, needs an operand of 3 x 8, a row for each group",
    ),
    (on_output("relu", dtype=DType.F16), "gemm epilogue relu: got dtype f16, needs no dtype"),
    (on_output("cast"), "gemm epilogue cast: got dtype None, needs the dtype to round to"),
    (
        on_output("cast", dtype=DType.I64),
        ("gemm epilogue cast: got dtype i64, needs one of at most 4 bytes, as the accumulator's elements have"),
    ),
]


@pytest.mark.parametrize(("op", "message"), REFUSED, ids=lambda each: each.op if isinstance(each, EpilogueOp) else "")
def test_an_op_that_means_nothing_there_or_lacks_something_is_refused(op: EpilogueOp, message: str) -> None:
    with pytest.raises(PlanError, match=f"^{re.escape(message)}$"):
        plan_of(op)


@pytest.mark.parametrize(
    "op", [on_output("gelu"), on_output("bias", operand=row(8)), on_output("scale", scalars=(0.5,))], ids=lambda e: e.op
)
def test_an_op_of_floats_on_integer_sums_is_refused(op: EpilogueOp) -> None:
    message = f"gemm epilogue {op.op}: got values of i32, needs floats; put a dequant or a cast in front of it"
    with pytest.raises(PlanError, match=f"^{message}$"):
        plan_of(op, dtype=DType.I8)


def test_every_op_is_known_by_name_and_means_something_on_the_output() -> None:
    assert list(EPILOGUE_OPS) == ["bias", "residual", "scale", "dequant", "relu", "gelu", "silu", "cast"]
    assert plan_of(on_output("silu")).stages[4].math == MathAttributes(op="silu")


@pytest.mark.parametrize(
    ("op", "before", "after"),
    [
        (on_output("cast", dtype=DType.F32), DType.F16, DType.F32),
        (on_output("relu"), DType.I32, DType.I32),
        (on_output("bias", operand=row(8, DType.I32)), DType.I32, DType.I32),
        (on_output("scale", scalars=(2.0,)), DType.I32, DType.I32),
        (on_output("scale", scalars=(0.5,)), DType.I32, None),
        (on_output("bias", operand=row(8)), DType.I32, None),
        (on_output("gelu"), DType.I32, None),
        (on_output("cast", dtype=DType.I64), DType.F32, None),
    ],
)
def test_the_type_behind_an_op(op: EpilogueOp, before: DType, after: DType | None) -> None:
    if after is None:
        with pytest.raises(PlanError, match=rf"^gemm epilogue {op.op}: got "):
            _result(op, before)
    else:
        assert _result(op, before) is after
