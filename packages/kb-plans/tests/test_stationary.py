"""Plans that keep a panel: what fits, what the estimate says, and which tiles are suggested."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from sampled_cases import examples

from kb_messages import (
    BufferNeeds,
    DmaParams,
    DType,
    GemmCommand,
    GemmParams,
    LoopOrder,
    Matrix,
    PlanError,
    StageParams,
    StageType,
    TileShape,
    decode_plan,
    encode_plan,
)
from kb_plans import StageTime, TileCosts, TileRoom, count, estimate, generate_gemm_plan, suggest_tile

KIB = 1024
PLENTY = TileRoom(input_nbytes=1 << 20, output_nbytes=1 << 20, register_nbytes=1 << 20)
WEIGHT, INPUT = LoopOrder.WEIGHT_STATIONARY, LoopOrder.INPUT_STATIONARY
TIMES = {StageType.DMA_READ: 10, StageType.FETCH: 2, StageType.GEMM: 5, StageType.STORE: 3, StageType.DMA_WRITE: 7}
COSTS = TileCosts(stage_time=lambda stage_type, _: StageTime(TIMES[stage_type], TIMES[stage_type]))

stationary = pytest.mark.parametrize("order", [WEIGHT, INPUT])
sides = st.tuples(*[st.integers(1, 600)] * 3)


def gemm(shape: tuple[int, int, int], order: LoopOrder, tile: tuple[int, int, int] | None = None) -> GemmCommand:
    m, n, k = shape
    a, b, out = (Matrix.packed(*shape, DType.F16) for shape in ((m, k), (k, n), (m, n)))
    return GemmCommand(a=a, b=b, out=out, tile=tile and TileShape(*tile), loop_order=order)


def test_a_panel_has_a_piece_for_each_tile_along_k() -> None:
    # 110 along K are four tiles of 32, and 48 columns of B, or 16 rows of A, are f16
    plan = generate_gemm_plan(gemm((64, 100, 110), WEIGHT, (16, 48, 32)), "pe0")
    assert (plan.buffers.panel_nbytes, plan.buffers.input_nbytes) == (4 * 32 * 48 * 2, 16 * 32 * 2)
    plan = generate_gemm_plan(gemm((64, 100, 110), INPUT, (16, 48, 32)), "pe0")
    assert (plan.buffers.panel_nbytes, plan.buffers.input_nbytes) == (4 * 16 * 32 * 2, 32 * 48 * 2)


def test_two_tiles_fit_beside_a_panel_or_none() -> None:
    needs = BufferNeeds(input_nbytes=100, panel_nbytes=500)
    assert needs.least_input_nbytes == 700
    room = replace(PLENTY, input_nbytes=799)
    assert (room.holds(needs, 1), room.holds(needs, 2), room.holds(needs, 3)) == (True, True, False)
    assert room.at_once(needs).input == 2
    tight = replace(PLENTY, input_nbytes=699)
    assert (tight.holds(needs, 1), tight.at_once(needs).input) == (False, 0)


@pytest.mark.parametrize(("order", "read"), [(LoopOrder.MNK, 5 * 6 + 3 * 7), (WEIGHT, 5 * 6 + 7), (INPUT, 6 + 3 * 7)])
def test_reads_are_those_of_the_panels(order: LoopOrder, read: int) -> None:
    # 3 x 5 x 2 tiles; A is 6 KiB and B 7 KiB of f16
    plan = generate_gemm_plan(gemm((48, 56, 64), order, (16, 12, 32)), "pe0")
    assert plan.grid == (3, 5, 2)
    assert count(plan).nbytes[StageType.DMA_READ] == read * KIB
    n_reads = {LoopOrder.MNK: 60, WEIGHT: 30 + 10, INPUT: 6 + 30}[order]
    assert count(plan).stages[StageType.DMA_READ] == n_reads
    assert plan.n_stages == sum(len(tile.stages) for tile in plan.tiles) == n_reads + 30 + 30 + 15 + 15


@stationary
def test_an_estimate_knows_the_reads_that_are_left_out(order: LoopOrder) -> None:
    # 2 panels for 4 tiles each, K is one tile: 8 reads of one operand and 2 of the other, then the rest of a tile
    shape = (16, 8, 4) if order is WEIGHT else (8, 16, 4)
    found = estimate(generate_gemm_plan(gemm(shape, order, (4, 4, 4)), "pe0"), PLENTY, COSTS)
    assert (found.latency_ps, found.bound_by) == (10 * 10 + 2 + 5 + 3 + 7, "DMA_READ")


def test_an_edge_behind_the_first_tile_takes_its_own_time() -> None:
    def by_size(stage_type: StageType, params: StageParams) -> StageTime:
        ps = params.memory.nbytes if isinstance(params, DmaParams) else 0
        ps = params.m * params.n * params.k if isinstance(params, GemmParams) else ps
        return StageTime(ps, ps)

    for m in (9, 5, 4, 3):
        plan = generate_gemm_plan(gemm((m, 10, 4), WEIGHT, (4, 4, 4)), "pe0")
        found = estimate(plan, PLENTY, TileCosts(stage_time=by_size))
        assert found.busy_ps["GEMM"] == m * 10 * 4
        # A for each of 3 columns of tiles, B once
        assert found.busy_ps["DMA_READ"] == 2 * (3 * m * 4 + 4 * 10)


def stage_time(stage_type: StageType, params: StageParams) -> StageTime:
    """By hand: 70 ns a transfer and 100 GB/s, 64 x 64 MACs at 1 GHz, and 10 ns for all else."""
    if isinstance(params, DmaParams):
        ps = 70_000 + params.memory.nbytes * 10
        return StageTime(ps, ps, ps - 70_000)
    if isinstance(params, GemmParams):
        ps = (-(-params.m // 64) * -(-params.n // 64) * params.k + 126) * 1000
        return StageTime(ps, ps)
    return StageTime(10_000, 10_000)


@stationary
@pytest.mark.parametrize("costs", [None, TileCosts(stage_time=stage_time)])
@settings(max_examples=examples(25))
@given(shape=sides, room=st.tuples(*[st.integers(100 * KIB, 10**6)] * 3))
def test_the_panel_of_a_suggested_tile_fits(
    order: LoopOrder, costs: TileCosts | None, shape: tuple[int, int, int], room: tuple[int, int, int]
) -> None:
    there = TileRoom(input_nbytes=room[0], output_nbytes=room[1], register_nbytes=room[2])
    tile = suggest_tile(gemm(shape, order), there, costs)
    needs = generate_gemm_plan(replace(gemm(shape, order), tile=tile), "").buffers
    assert needs.panel_nbytes > 0
    assert there.holds(needs, 1)


def test_a_deep_product_gets_a_narrow_panel() -> None:
    # with 16384 elements along K, 256 KiB hold 8 columns, and not beside two tiles: 4 columns of 32 KiB remain
    room = TileRoom(input_nbytes=256 * KIB, output_nbytes=256 * KIB, register_nbytes=512 * KIB)
    assert suggest_tile(gemm((512, 512, 16384), WEIGHT), room).n == 4
    assert suggest_tile(gemm((512, 512, 16384), INPUT), room).m == 4


def test_no_room_for_any_panel_is_refused() -> None:
    # a slot of 64 x 1 elements of f16 is 128 bytes: 16 along 1024 elements of K, and two of A
    message = (
        "gemm: got 2303 bytes of input buffer, 4096 of output buffer, 4096 of registers, needs room for a panel of "
        "2048 bytes and two tiles of 1x1x64; make the buffers larger, or use mnk or nmk"
    )
    room = TileRoom(input_nbytes=2303, output_nbytes=4096, register_nbytes=4096)
    with pytest.raises(PlanError, match=f"^{message}$"):
        suggest_tile(gemm((64, 64, 1024), WEIGHT), room)
    assert suggest_tile(gemm((64, 64, 1024), WEIGHT), replace(room, input_nbytes=2304)) == TileShape(1, 1, 64)


@stationary
def test_a_panel_that_moves_with_the_inner_loop_is_no_plan(order: LoopOrder) -> None:
    plan = generate_gemm_plan(gemm((16, 16, 16), order, (4, 4, 4)), "pe0")
    assert decode_plan(encode_plan(plan)) == plan
    other, side = (INPUT, "N") if order is WEIGHT else (WEIGHT, "M")
    with pytest.raises(PlanError, match=f"a panel that moves along {side}, needs one that stays the same over"):
        decode_plan(encode_plan(replace(plan, loop_order=other)))
