"""The order of tiles: the same tiles, in rows or in columns of the output."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kb_messages import DType, GemmCommand, LoopOrder, Matrix, PlanError, TileShape
from kb_plans import StageTime, TileCosts, TileRoom, count, estimate, generate_gemm_plan

ORDERS = "mnk, nmk, weight_stationary or input_stationary"
sides = st.tuples(*[st.integers(1, 9)] * 3)


def gemm(m: int, n: int, k: int, tile: tuple[int, int, int] = (2, 3, 4)) -> GemmCommand:
    a, b, out = (Matrix.packed(*shape, DType.F16, 1 << 33) for shape in ((m, k), (k, n), (m, n)))
    return GemmCommand(a=a, b=b, out=out, tile=TileShape(*tile))


def plan_of(command: GemmCommand, order: LoopOrder):
    return generate_gemm_plan(replace(command, loop_order=order), "pe0")


def test_places_come_in_the_order_of_the_loops() -> None:
    rows = [tile[1:4] for tile in map(tuple_of, plan_of(gemm(4, 9, 8), LoopOrder.MNK).tiles)]
    cols = [tile[1:4] for tile in map(tuple_of, plan_of(gemm(4, 9, 8), LoopOrder.NMK).tiles)]
    assert rows == [(m, n, k) for m in range(2) for n in range(3) for k in range(2)]
    assert cols == [(m, n, k) for n in range(3) for m in range(2) for k in range(2)]


def tuple_of(tile):
    return tile.tile_id, tile.m, tile.n, tile.k, tile.stages


@given(sides=sides)
def test_tiles_are_the_same_whatever_their_order(sides: tuple[int, int, int]) -> None:
    by_rows, by_cols = (plan_of(gemm(*sides), order) for order in (LoopOrder.MNK, LoopOrder.NMK))
    every = [{tuple_of(tile)[1:] for tile in plan.tiles} for plan in (by_rows, by_cols)]
    assert every[0] == every[1]
    assert len(by_cols.tiles) == len(every[1])
    assert count(by_rows) == count(by_cols)


@pytest.mark.parametrize("order", LoopOrder)
@given(sides=sides)
def test_a_tile_by_its_number_is_the_one_of_the_iteration(order: LoopOrder, sides: tuple[int, int, int]) -> None:
    tiles = plan_of(gemm(*sides), order).tiles
    assert [tiles[number] for number in range(len(tiles))] == list(tiles)
    assert [tile.tile_id for tile in tiles] == list(range(len(tiles)))


def test_an_estimate_goes_by_the_outer_loop() -> None:
    costs = TileCosts(stage_time=lambda *_: StageTime(10, 10))
    room = TileRoom(input_nbytes=1 << 20, output_nbytes=1 << 20, register_nbytes=1 << 20)
    by_rows = estimate(plan_of(gemm(5, 9, 8), LoopOrder.MNK), room, costs)
    turned = replace(gemm(9, 5, 8, (3, 2, 4)))
    assert estimate(plan_of(turned, LoopOrder.NMK), room, costs) == by_rows


@pytest.mark.parametrize("text", ["kmn", "mkn", "nkm", "knm"])
def test_k_is_the_innermost_loop(text: str) -> None:
    with pytest.raises(PlanError, match=f"{ORDERS}; keep K innermost: the accumulator stays in registers"):
        LoopOrder.parse(text)


def test_an_order_that_is_none_is_refused() -> None:
    with pytest.raises(PlanError, match=f"^loop_order: got 'rows', needs {ORDERS}$"):
        LoopOrder.parse("rows")
    with pytest.raises(PlanError, match="gemm loop_order: got the str 'nmk', needs a LoopOrder"):
        generate_gemm_plan(replace(gemm(4, 4, 4), loop_order="nmk"), "pe0")
