import msgspec
import pytest

from kb_messages import plan as plan_module
from kb_messages.dtypes import DType
from kb_messages.errors import PlanError
from kb_messages.oplog import MathAttributes, Role
from kb_messages.plan import BufferNeeds, PipelinePlan
from kb_messages.stages import (
    Axis,
    DmaParams,
    GemmParams,
    MathParams,
    OperandTemplate,
    Place,
    Rectangle,
    StageTemplate,
    StageType,
    TransferParams,
    When,
    rectangle,
    rectangles_along_k,
)


def operand(role: Role, place: Place, rows: Axis, cols: Axis, stride: int) -> OperandTemplate:
    return OperandTemplate(role=role, place=place, base=1000, rows=rows, cols=cols, stride=stride, dtype=DType.F16)


def stage(kind: StageType, when: When, *operands: OperandTemplate) -> StageTemplate:
    return StageTemplate(stage_type=kind, component="pe0", when=when, operands=operands)


def copy_plan(m: int, n: int, k: int) -> PipelinePlan:
    """m x n x k tiles: each reads 4 x 8 elements along (m, k), the last over k writes 4 x 2 along (m, n)."""
    sides = ((m, 4), (n, 2), (k, 8))
    rows, cols, depth = (Axis(dimension=i, total=count * tile, tile=tile) for i, (count, tile) in enumerate(sides))
    read = stage(StageType.DMA_READ, When.EVERY_TILE, operand(Role.SRC, Place.MEMORY, rows, depth, 256))
    write = stage(StageType.DMA_WRITE, When.LAST_K, operand(Role.DST, Place.MEMORY, rows, cols, 64))
    return PipelinePlan(kind="copy", grid=(m, n, k), stages=(read, write), buffers=BufferNeeds())


def test_tiles_come_in_m_n_k_order_with_k_innermost() -> None:
    tiles = copy_plan(2, 2, 2).tiles
    assert [(tile.m, tile.n, tile.k) for tile in tiles] == [
        (0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1), (1, 0, 0), (1, 0, 1), (1, 1, 0), (1, 1, 1),
    ]  # fmt: skip
    assert [tile.tile_id for tile in tiles] == list(range(8))


def test_only_the_last_tile_over_k_has_the_last_stages() -> None:
    stages = [[each.stage_type for each in tile.stages] for tile in copy_plan(1, 1, 3).tiles]
    read, write = StageType.DMA_READ, StageType.DMA_WRITE
    assert stages == [[read], [read], [read, write]]


def test_indexing_gives_what_iterating_gives() -> None:
    plan = copy_plan(3, 2, 4)
    tiles = list(plan.tiles)
    assert [plan.tiles[index] for index in range(len(plan.tiles))] == tiles
    assert [plan.tiles[index - 24] for index in range(24)] == tiles
    assert plan.tiles[5:20:3] == tiles[5:20:3]
    assert plan.tiles[::-1] == tiles[::-1]
    assert plan.tiles[20:99] == tiles[20:]


@pytest.mark.parametrize("index", [24, -25])
def test_a_tile_outside_the_plan_is_an_index_error(index: int) -> None:
    with pytest.raises(IndexError, match=f"^tile {index} of a plan of 24$"):
        copy_plan(3, 2, 4).tiles[index]


def test_length_and_indexing_of_a_huge_plan_compute_one_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[tuple[tuple[int, int, int], int]] = []

    def counted(operand: OperandTemplate, first: tuple[int, int, int], end: int) -> list[Rectangle]:
        computed.append((first, end))
        return rectangles_along_k(operand, first, end)

    monkeypatch.setattr(plan_module, "rectangles_along_k", counted)
    plan = copy_plan(1000, 1000, 1000)
    assert len(plan.tiles) == plan.n_tiles == 10**9
    assert computed == []
    last = plan.tiles[-1]
    assert computed == [((999, 999, 999), 1000)] * 2
    assert (last.tile_id, last.m, last.n, last.k, len(last.stages)) == (10**9 - 1, 999, 999, 999, 2)


@pytest.mark.parametrize(("row", "col"), [(0, 2), (2, 1), (2, None), (None, 2), (0, 1), (2, 2)])
def test_rectangles_along_k_are_those_of_the_tiles(row: int | None, col: int | None) -> None:
    rows, cols = Axis(dimension=row, total=19, tile=4), Axis(dimension=col, total=18, tile=4)
    each = operand(Role.SRC, Place.MEMORY, rows, cols, 64)
    for first in range(5):
        for end in range(first + 1, 6):
            expected = [rectangle(each, (3, 2, k)) for k in range(first, end)]
            assert rectangles_along_k(each, (3, 2, first), end) == expected


def test_iterating_and_indexing_one_sequence_in_turn_changes_no_tile() -> None:
    rows, cols = Axis(dimension=0, total=4, tile=2), Axis(dimension=1, total=4, tile=2)
    read = stage(StageType.DMA_READ, When.EVERY_TILE, operand(Role.SRC, Place.MEMORY, rows, cols, 64))
    plan = PipelinePlan(kind="bias", grid=(2, 2, 4), stages=(read,), buffers=BufferNeeds())
    expected = list(plan.tiles)
    tiles = plan.tiles
    assert [tiles[index] for index in range(16)] == expected
    assert list(tiles) == expected
    assert [tiles[index] for index in range(16)] == expected


def test_tiles_share_the_stages_that_they_agree_on() -> None:
    first, second, _ = copy_plan(1, 3, 1).tiles
    assert first.stages[0] is second.stages[0]
    assert first.stages[1] != second.stages[1]


def test_a_plan_with_more_stages_than_are_kept_has_the_right_ones() -> None:
    plan = copy_plan(300, 300, 1)
    base = plan.stages[1].operands[0].base
    for tile in plan.tiles:
        assert tile.stages[1].params == DmaParams(memory=Rectangle(base + tile.m * 4 * 64 + tile.n * 2 * 2, 4, 4, 64))


def test_stages_are_counted_without_iterating() -> None:
    plan = copy_plan(3, 2, 4)
    assert plan.n_every == 1
    assert plan.n_stages == 3 * 2 * 4 + 3 * 2 == sum(len(tile.stages) for tile in plan.tiles)


def four_whens(k: int) -> PipelinePlan:
    """Stages of the last, every, the first, every and each later tile over K, told apart by their columns."""
    whens = (When.LAST_K, When.EVERY_TILE, When.FIRST_K, When.EVERY_TILE, When.LATER_K)
    side = Axis(dimension=None, total=1, tile=1)
    stages = tuple(
        stage(
            StageType.FETCH,
            when,
            operand(Role.SRC, Place.MEMORY, side, Axis(dimension=None, total=number, tile=number), 64),
        )
        for number, when in enumerate(whens, start=1)
    )
    return PipelinePlan(kind="four", grid=(1, 2, k), stages=stages, buffers=BufferNeeds())


@pytest.mark.parametrize(
    ("k", "expected"),
    [
        (1, [[1, 2, 3, 4]]),
        (2, [[2, 3, 4], [1, 2, 4, 5]]),
        (4, [[2, 3, 4], [2, 4, 5], [2, 4, 5], [1, 2, 4, 5]]),
    ],
)
def test_a_tile_has_the_stages_of_its_place_over_k_in_the_plans_order(k: int, expected: list[list[int]]) -> None:
    plan = four_whens(k)
    moved = [[each.params.nbytes // 2 for each in tile.stages] for tile in plan.tiles]  # type: ignore[union-attr]
    assert moved == 2 * expected
    assert plan.n_stages == sum(map(len, moved))


def test_tiles_for_which_several_conditions_hold_are_counted_without_iterating() -> None:
    plan, one = four_whens(5), four_whens(1)
    assert [plan.tiles_with(when) for when in When] == [5, 1, 1, 4]
    assert plan.tiles_with(When.LATER_K, When.LAST_K) == 1
    assert plan.tiles_with(When.FIRST_K, When.LAST_K) == 0
    assert [one.tiles_with(when) for when in When] == [1, 1, 1, 0]
    assert one.tiles_with(When.FIRST_K, When.LAST_K) == 1


def test_an_operand_of_the_last_tile_alone_is_moved_by_that_tile_alone() -> None:
    side = Axis(dimension=None, total=3, tile=3)
    always = operand(Role.SRC, Place.REGISTERS, side, side, 6)
    last = OperandTemplate(
        role=Role.SRC, place=Place.MEMORY, base=0, rows=side, cols=side, stride=6, dtype=DType.F16, when=When.LAST_K
    )
    fetch = stage(StageType.FETCH, When.EVERY_TILE, always, last)
    plan = PipelinePlan(kind="fetch", grid=(1, 1, 2), stages=(fetch,), buffers=BufferNeeds())
    assert [tile.stages[0].params for tile in plan.tiles] == [TransferParams(nbytes=18), TransferParams(nbytes=36)]


def test_a_side_without_a_dimension_is_the_same_for_every_tile() -> None:
    one, cols = Axis(dimension=None, total=1, tile=1), Axis(dimension=1, total=20, tile=8)
    bias = operand(Role.SRC, Place.MEMORY, one, cols, 40)
    assert rectangle(bias, (7, 2, 5)) == Rectangle(1000 + 2 * 8 * 2, 1, 4 * 2, 40)


def test_a_plan_without_a_stage_that_every_tile_has_is_refused() -> None:
    _, write = copy_plan(1, 1, 1).stages
    message = "copy plan: got no stage that every tile has, needs one, so that every tile does work"
    with pytest.raises(PlanError, match=f"^{message}$"):
        PipelinePlan(kind="copy", grid=(1, 1, 1), stages=(write,), buffers=BufferNeeds())


@pytest.mark.parametrize(("axis", "shape"), [(None, (2, 4)), (0, (2, 4)), (1, (2, 4))])
def test_a_math_stage_counts_the_elements_of_its_result_or_those_it_reduces(
    axis: int | None, shape: tuple[int, int]
) -> None:
    rows, cols = Axis(dimension=0, total=10, tile=4), Axis(dimension=1, total=20, tile=8)
    one = Axis(dimension=None, total=1, tile=1)
    read = operand(Role.IN, Place.REGISTERS, rows, cols, 16)
    written = operand(Role.OUT, Place.ACCUMULATOR, one if axis == 0 else rows, one if axis == 1 else cols, 16)
    math = MathAttributes(op="exp" if axis is None else "sum", axis=axis)
    template = StageTemplate(
        stage_type=StageType.MATH, component="pe0", when=When.EVERY_TILE, operands=(read, written), math=math
    )
    plan = PipelinePlan(kind="math", grid=(3, 3, 1), stages=(template,), buffers=BufferNeeds())
    # The last tile: 10 - 8 rows, 20 - 16 columns.
    params = MathParams(op=math.op, rows=shape[0], cols=shape[1], dtype=DType.F16, axis=axis)
    assert plan.tiles[-1].stages[0].params == params


def test_a_product_accumulates_on_the_tiles_that_read_the_sum() -> None:
    rows = cols = depth = Axis(dimension=None, total=4, tile=4)
    a, b = (operand(role, Place.REGISTERS, rows, depth, 8) for role in (Role.A, Role.B))
    sums = OperandTemplate(
        role=Role.ACC, place=Place.ACCUMULATOR, base=0, rows=rows, cols=cols, stride=16, dtype=DType.F32,
        when=When.LATER_K,
    )  # fmt: skip
    out = operand(Role.OUT, Place.ACCUMULATOR, rows, cols, 16)
    plan = PipelinePlan(
        kind="sum", grid=(1, 1, 3), stages=(stage(StageType.GEMM, When.EVERY_TILE, a, b, sums, out),),
        buffers=BufferNeeds(),
    )  # fmt: skip
    params = [tile.stages[0].params for tile in plan.tiles]
    assert [isinstance(each, GemmParams) and each.accumulate for each in params] == [False, True, True]


def test_a_stage_that_plans_cannot_hold_is_refused() -> None:
    plan = PipelinePlan(
        kind="odd", grid=(1, 1, 1), stages=(stage(StageType.MATH, When.EVERY_TILE),), buffers=BufferNeeds()
    )
    with pytest.raises(PlanError, match=r"^plan: got a MATH stage, needs a stage type that plans can hold$"):
        plan.tiles[0]


def test_a_plan_survives_json() -> None:
    plan = copy_plan(2, 3, 4)
    again = msgspec.json.decode(msgspec.json.encode(plan), type=PipelinePlan)
    assert again == plan
    assert again.tiles[7] == plan.tiles[7]
    assert isinstance(again.tiles[7].stages[0].params, DmaParams)
