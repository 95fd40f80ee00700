import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plans_stages import extent, kinds

from kb_messages import (
    DmaParams,
    DType,
    GemmCommand,
    GemmParams,
    Matrix,
    OperandTemplate,
    PipelinePlan,
    Place,
    PlanError,
    Rectangle,
    Role,
    StageType,
    TileShape,
    TransferParams,
)
from kb_plans import generate_gemm_plan

READ, FETCH, GEMM = StageType.DMA_READ, StageType.FETCH, StageType.GEMM
STORE, WRITE = StageType.STORE, StageType.DMA_WRITE
A_BASE, B_BASE, OUT_BASE = 1 << 20, 1 << 21, 1 << 22

sizes = st.integers(1, 20)
tiles = st.builds(TileShape, st.integers(1, 8), st.integers(1, 8), st.integers(1, 8))


def gemm_plan(
    m: int, n: int, k: int, tile: TileShape, dtype: DType = DType.F16, *, a_pinned: bool = False,
    b_pinned: bool = False, out_pinned: bool = False,
) -> PipelinePlan:  # fmt: skip
    command = GemmCommand(
        a=Matrix.packed(m, k, dtype, A_BASE),
        b=Matrix.packed(k, n, dtype, B_BASE),
        out=Matrix.packed(m, n, dtype, OUT_BASE),
        tile=tile,
        a_pinned=a_pinned,
        b_pinned=b_pinned,
        out_pinned=out_pinned,
    )
    return generate_gemm_plan(command, "pe0")


def transfers(plan: PipelinePlan, kind: StageType) -> list[Rectangle]:
    """The rectangle in memory of every DMA stage of *kind*, in order."""
    stages = (stage for tile in plan.tiles for stage in tile.stages)
    return [each.params.memory for each in stages if each.stage_type is kind and isinstance(each.params, DmaParams)]


def elements(found: Rectangle, nbytes: int = 2) -> list[int]:
    """The address of every element of a rectangle."""
    return [
        found.base + row * found.stride + at for row in range(found.rows) for at in range(0, found.row_nbytes, nbytes)
    ]


def products(plan: PipelinePlan) -> list[GemmParams]:
    return [each.params for tile in plan.tiles for each in tile.stages if isinstance(each.params, GemmParams)]


def overlap(one: OperandTemplate, other: OperandTemplate) -> bool:
    (start, end), (other_start, other_end) = extent(one), extent(other)
    return start < other_end and other_start < end


def in_buffer(plan: PipelinePlan, place: Place, role: Role) -> list[OperandTemplate]:
    return [each for stage in plan.stages for each in stage.operands if each.place is place and each.role is role]


def test_tiles_run_over_m_then_n_then_k() -> None:
    plan = gemm_plan(4, 6, 8, TileShape(2, 3, 4))
    assert plan.grid == (2, 2, 2)
    assert [(tile.m, tile.n, tile.k) for tile in plan.tiles] == [
        (0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1), (1, 0, 0), (1, 0, 1), (1, 1, 0), (1, 1, 1),
    ]  # fmt: skip


def test_a_tile_reads_both_operands_fetches_once_and_multiplies() -> None:
    first, last = gemm_plan(4, 4, 8, TileShape(4, 4, 4)).tiles
    assert kinds(first) == [READ, READ, FETCH, GEMM]
    assert kinds(last) == [READ, READ, FETCH, GEMM, STORE, WRITE]


def test_every_stage_names_the_block_that_serves_it() -> None:
    (tile,) = gemm_plan(4, 4, 4, TileShape(4, 4, 4)).tiles
    blocks = ["pe_dma", "pe_dma", "pe_fetch_store", "pe_gemm", "pe_fetch_store", "pe_dma"]
    assert [stage.component for stage in tile.stages] == [f"pe0.{block}" for block in blocks]


@given(m=sizes, n=sizes, k=sizes, tile=tiles)
def test_an_output_is_stored_and_written_once_after_its_last_k(m: int, n: int, k: int, tile: TileShape) -> None:
    plan = gemm_plan(m, n, k, tile)
    leaving = Counter((each.m, each.n) for each in plan.tiles if {STORE, WRITE} & set(kinds(each)))
    assert leaving == {(i, j): 1 for i in range(plan.grid[0]) for j in range(plan.grid[1])}
    assert all(kinds(each)[4:] == ([STORE, WRITE] if each.k == plan.grid[2] - 1 else []) for each in plan.tiles)


@given(m=sizes, n=sizes, k=sizes, tile=tiles)
def test_every_output_element_is_written_exactly_once(m: int, n: int, k: int, tile: TileShape) -> None:
    written = Counter(address for each in transfers(gemm_plan(m, n, k, tile), WRITE) for address in elements(each))
    assert written == {OUT_BASE + 2 * index: 1 for index in range(m * n)}


@given(m=sizes, n=sizes, k=sizes, tile=tiles)
def test_an_operand_is_read_once_for_each_tile_along_the_other_side(m: int, n: int, k: int, tile: TileShape) -> None:
    read = Counter(address for each in transfers(gemm_plan(m, n, k, tile), READ) for address in elements(each))
    n_tiles, m_tiles = -(-n // min(tile.n, n)), -(-m // min(tile.m, m))
    expected = {A_BASE + 2 * index: n_tiles for index in range(m * k)}
    expected |= {B_BASE + 2 * index: m_tiles for index in range(k * n)}
    assert read == expected


@given(m=sizes, n=sizes, k=sizes, tile=tiles)
def test_the_products_cover_the_problem_and_accumulate_but_for_the_first_k(
    m: int, n: int, k: int, tile: TileShape
) -> None:
    plan = gemm_plan(m, n, k, tile)
    done = products(plan)
    assert sum(each.m * each.n * each.k for each in done) == m * n * k
    assert [each.accumulate for each in done] == [tile.k > 0 for tile in plan.tiles]


def test_rows_of_a_wide_matrix_keep_their_stride() -> None:
    wide = Matrix(address=A_BASE, rows=4, cols=4, stride=100, dtype=DType.F16)
    square = Matrix.packed(4, 4, DType.F16, B_BASE)
    plan = generate_gemm_plan(GemmCommand(a=wide, b=square, out=wide, tile=TileShape(2, 4, 4)), "pe0")
    # row 2 begins 2 * 100 bytes after row 0
    assert [each.base for each in transfers(plan, WRITE)] == [A_BASE, A_BASE + 200]
    assert transfers(plan, READ)[2] == Rectangle(A_BASE + 200, 2, 8, 100)


def test_ragged_edges_of_11881_x_64_x_147() -> None:
    plan = gemm_plan(11881, 64, 147, TileShape(128, 64, 64))
    # 92 * 128 = 11776, 105 rows are left; 2 * 64 = 128, a depth of 19 is left
    assert plan.grid == (93, 1, 3)
    last = products(plan)[-1]
    assert (last.m, last.n, last.k) == (105, 64, 19)
    a, b = transfers(plan, READ)[-2:]
    assert a == Rectangle(A_BASE + (11776 * 147 + 128) * 2, 105, 19 * 2, 147 * 2)
    assert b == Rectangle(B_BASE + 128 * 64 * 2, 19, 64 * 2, 64 * 2)
    assert transfers(plan, WRITE)[-1] == Rectangle(OUT_BASE + 11776 * 64 * 2, 105, 64 * 2, 64 * 2)


def test_a_tile_larger_than_the_problem_is_cut_to_it() -> None:
    plan = gemm_plan(1, 200, 300, TileShape(128, 128, 512))
    assert plan.grid == (1, 2, 1)
    assert [(each.m, each.n, each.k) for each in products(plan)] == [(1, 128, 300), (1, 72, 300)]
    assert plan == gemm_plan(1, 200, 300, TileShape(1, 128, 300))


@pytest.mark.parametrize(
    ("pinned", "expected"),
    [
        ({"a"}, [READ, FETCH, GEMM, STORE, WRITE]),
        ({"b"}, [READ, FETCH, GEMM, STORE, WRITE]),
        ({"a", "b"}, [FETCH, GEMM, STORE, WRITE]),
        ({"out"}, [READ, READ, FETCH, GEMM, STORE]),
        ({"a", "b", "out"}, [FETCH, GEMM, STORE]),
    ],
    ids=["a", "b", "a and b", "out", "all"],
)
def test_a_pinned_operand_has_no_dma(pinned: set[str], expected: list[StageType]) -> None:
    pins = ("a" in pinned, "b" in pinned, "out" in pinned)
    plan = gemm_plan(4, 4, 4, TileShape(4, 4, 4), a_pinned=pins[0], b_pinned=pins[1], out_pinned=pins[2])
    assert kinds(plan.tiles[0]) == expected


def test_the_operand_that_is_read_is_the_one_not_pinned() -> None:
    tile = TileShape(4, 4, 4)
    assert [each.base for each in transfers(gemm_plan(4, 4, 4, tile, a_pinned=True), READ)] == [B_BASE]
    assert [each.base for each in transfers(gemm_plan(4, 4, 4, tile, b_pinned=True), READ)] == [A_BASE]


def test_a_pinned_operand_is_fetched_from_where_it_lies_and_never_released() -> None:
    plan = gemm_plan(4, 4, 4, TileShape(4, 4, 4), a_pinned=True)
    (fetch,) = (stage for stage in plan.stages if stage.stage_type is FETCH)
    a, b = (each for each in fetch.operands if each.role is Role.SRC)
    assert (a.place, a.base, a.release) == (Place.MEMORY, A_BASE, False)
    assert (b.place, b.base, b.release) == (Place.INPUT_BUFFER, 0, True)


def test_fetch_moves_both_operands_whether_pinned_or_not() -> None:
    for pinned in (False, True):
        (tile,) = gemm_plan(4, 6, 8, TileShape(4, 6, 8), a_pinned=pinned).tiles
        (fetch,) = (stage.params for stage in tile.stages if stage.stage_type is FETCH)
        assert fetch == TransferParams(nbytes=(4 * 8 + 8 * 6) * 2)


def test_buffers_hold_one_tile_in_slots_of_64_bytes() -> None:
    needs = gemm_plan(100, 100, 100, TileShape(3, 5, 7)).buffers
    # a 42 bytes, b 70, out 30, accumulator 60, each rounded up to 64
    assert (needs.input_nbytes, needs.register_nbytes) == (64 + 128, 64 + 128)
    assert (needs.output_nbytes, needs.accumulator_nbytes) == (64, 64)


def test_pinned_operands_need_registers_but_no_tile_buffer() -> None:
    needs = gemm_plan(8, 8, 8, TileShape(8, 8, 8), a_pinned=True, b_pinned=True, out_pinned=True).buffers
    assert (needs.input_nbytes, needs.output_nbytes, needs.register_nbytes) == (0, 0, 128 + 128)


@given(m=sizes, n=sizes, k=sizes, tile=tiles, dtype=st.sampled_from([DType.F16, DType.F32, DType.I8]))
def test_a_and_b_of_a_tile_do_not_overlap_and_fit_their_buffers(
    m: int, n: int, k: int, tile: TileShape, dtype: DType
) -> None:
    plan = gemm_plan(m, n, k, tile, dtype)
    for place, nbytes in (
        (Place.INPUT_BUFFER, plan.buffers.input_nbytes),
        (Place.REGISTERS, plan.buffers.register_nbytes),
    ):
        a, b = in_buffer(plan, place, Role.DST)
        assert not overlap(a, b)
        assert max(extent(a)[1], extent(b)[1]) <= nbytes
    (out,) = in_buffer(plan, Place.OUTPUT_BUFFER, Role.DST)
    (acc,) = in_buffer(plan, Place.ACCUMULATOR, Role.OUT)
    assert extent(out)[1] <= plan.buffers.output_nbytes
    assert extent(acc)[1] <= plan.buffers.accumulator_nbytes


def test_each_buffer_is_released_by_its_last_reader() -> None:
    plan = gemm_plan(4, 4, 4, TileShape(4, 4, 4))
    released = {(stage.stage_type, each.place) for stage in plan.stages for each in stage.operands if each.release}
    assert released == {
        (FETCH, Place.INPUT_BUFFER), (GEMM, Place.REGISTERS), (STORE, Place.ACCUMULATOR), (WRITE, Place.OUTPUT_BUFFER),
    }  # fmt: skip


@pytest.mark.parametrize(("dtype", "accumulator"), [(DType.BF16, DType.F32), (DType.I8, DType.I32)])
def test_sums_are_kept_in_the_wide_type(dtype: DType, accumulator: DType) -> None:
    assert {each.dtype_acc for each in products(gemm_plan(4, 4, 4, TileShape(2, 2, 2), dtype))} == {accumulator}


@given(m=sizes, n=sizes, k=sizes, tile=tiles)
def test_equal_arguments_give_equal_plans(m: int, n: int, k: int, tile: TileShape) -> None:
    one, other = gemm_plan(m, n, k, tile), gemm_plan(m, n, k, tile)
    assert one == other
    assert list(one.tiles) == list(other.tiles)


@pytest.mark.parametrize(
    ("m_grid", "kept"),
    [(1, 5), (3, 5 + 4 * 5)],  # a row of A's tiles; with more rows than one, every column of B's comes again
)
def test_only_the_reads_that_come_again_are_kept(m_grid: int, kept: int) -> None:
    tiles = gemm_plan(m_grid, 4, 5, TileShape(1, 1, 1)).tiles
    assert len(list(tiles)) == m_grid * 4 * 5
    assert sum(len(lane) for _, lane in tiles._known.values()) == kept


def test_a_plan_of_a_billion_tiles_is_a_formula() -> None:
    plan = gemm_plan(1000, 1000, 1000, TileShape(1, 1, 1))
    assert len(plan.tiles) == 10**9
    last = plan.tiles[-1]
    assert (last.tile_id, last.m, last.n, last.k) == (10**9 - 1, 999, 999, 999)
    assert last == plan.tiles[10**9 - 1]
    assert kinds(last) == [READ, READ, FETCH, GEMM, STORE, WRITE]


F16 = DType.F16
WRONG = [
    ((0, 4, F16), (4, 4, F16), (0, 4, F16), "gemm a: got 0 x 4, needs at least one row and one column"),
    ((4, 4, F16), (4, 0, F16), (4, 4, F16), "gemm b: got 4 x 0, needs at least one row and one column"),
    ((4, 4, F16), (4, 4, F16), (4, 0, F16), "gemm out: got 4 x 0, needs at least one row and one column"),
    (
        (4, 5, F16), (6, 4, F16), (4, 4, F16),
        "gemm: got a of 4 x 5 and b of 6 x 4, needs as many columns in a as rows in b",
    ),
    ((4, 5, F16), (5, 6, F16), (6, 4, F16), "gemm out: got 6 x 4, needs 4 x 6"),
    (
        (4, 4, F16), (4, 4, DType.I8), (4, 4, F16),
        "gemm: got a of f16 and b of i8, needs two float or two integer operands",
    ),
]  # fmt: skip
Sized = tuple[int, int, DType]


@pytest.mark.parametrize(("a", "b", "out", "message"), WRONG)
def test_operands_that_do_not_fit_together_are_refused(a: Sized, b: Sized, out: Sized, message: str) -> None:
    matrices = {"a": Matrix.packed(*a), "b": Matrix.packed(*b), "out": Matrix.packed(*out)}
    with pytest.raises(PlanError, match=f"^{re.escape(message)}$"):
        generate_gemm_plan(GemmCommand(**matrices, tile=TileShape(2, 2, 2)), "pe0")


def test_a_command_without_a_tile_is_refused() -> None:
    square = Matrix.packed(4, 4, DType.F16)
    message = "gemm tile: got none, needs three positive sizes; let suggest_tile choose them"
    with pytest.raises(PlanError, match=f"^{message}$"):
        generate_gemm_plan(GemmCommand(a=square, b=square, out=square), "pe0")


@pytest.mark.parametrize("tile", [TileShape(0, 1, 1), TileShape(1, -1, 1), TileShape(1, 1, 0)])
def test_a_tile_without_elements_is_refused(tile: TileShape) -> None:
    with pytest.raises(PlanError, match=f"^gemm tile: got {tile}, needs three positive sizes$"):
        gemm_plan(4, 4, 4, tile)
