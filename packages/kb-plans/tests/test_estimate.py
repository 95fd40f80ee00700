"""Estimates against sums by hand. A slot of 64 bytes is the least that an operand takes."""

from typing import Any

import pytest
from msgspec.structs import replace

from kb_messages import (
    OFFSET_BITS,
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
)
from kb_plans import Estimate, StageTime, TileCosts, TileRoom, estimate, generate_gemm_plan
from kb_plans.tiles.search import Search, _is_coarse, sides_of
from kb_plans.tiles.tile_times import TileTimes
from kb_plans.tiles.tile_walk import TileWalk

PLENTY = TileRoom(input_nbytes=1 << 20, output_nbytes=1 << 20, register_nbytes=1 << 20)
TIMES = {
    StageType.DMA_READ: 10,
    StageType.FETCH: 2,
    StageType.GEMM: 5,
    StageType.MATH: 4,
    StageType.STORE: 3,
    StageType.DMA_WRITE: 7,
}


def costs(**changes: int) -> TileCosts:
    times = TIMES | {StageType[name]: ps for name, ps in changes.items()}
    return TileCosts(stage_time=lambda stage_type, _: StageTime(times[stage_type], times[stage_type]))


def estimated(
    grid: tuple[int, int, int], room: TileRoom = PLENTY, prices: TileCosts | None = None, side: int = 4
) -> Estimate:
    m, n, k = (side * count for count in grid)
    a, b, out = (Matrix.packed(*shape, DType.F16) for shape in ((m, k), (k, n), (m, n)))
    gemm = GemmCommand(a=a, b=b, out=out, tile=TileShape(side, side, side))
    return estimate(generate_gemm_plan(gemm, "pe0"), room, prices or costs())


def test_the_busiest_channel_and_what_it_cannot_overlap() -> None:
    # 4 tiles over K read a and b one after the other: 80; behind the last read come FETCH, GEMM, STORE and DMA_WRITE
    assert estimated((1, 1, 4)).latency_ps == 8 * 10 + 2 + 5 + 3 + 7
    assert estimated((1, 1, 4)).bound_by == "DMA_READ"


def test_what_comes_before_the_busiest_block() -> None:
    # GEMM waits for the reads and the FETCH of the first tile; the others run meanwhile
    found = estimated((1, 1, 4), prices=costs(GEMM=30))
    assert (found.latency_ps, found.bound_by) == (10 + 10 + 2 + 4 * 30 + 3 + 7, "GEMM")


def test_stages_that_take_turns_add_up() -> None:
    # 8 tiles, each an output tile: FETCH and STORE share the port, 30 + 40 each, behind the first reads
    found = estimated((8, 1, 1), prices=costs(FETCH=30, STORE=40))
    assert (found.latency_ps, found.bound_by) == (20 + 8 * (30 + 40) + 7, "FETCH+STORE")
    apart = TileCosts(stage_time=costs(FETCH=30, STORE=40).stage_time, turns=())
    found = estimated((8, 1, 1), prices=apart)
    assert (found.latency_ps, found.bound_by) == (20 + 30 + 5 + 8 * 40 + 7, "STORE")


def test_registers_for_one_tile_alone() -> None:
    # two accumulators of 64 bytes, and one slot of 128 for a and b: FETCH and GEMM of two tiles never overlap
    room = replace(PLENTY, register_nbytes=2 * 64 + 128)
    found = estimated((1, 1, 4), room, costs(FETCH=20, GEMM=30))
    assert (found.latency_ps, found.bound_by) == (20 + 4 * (20 + 30) + 3 + 7, "registers")
    assert found.busy_ps["registers"] == 4 * (20 + 30)
    two = replace(PLENTY, register_nbytes=2 * 64 + 256)  # two slots: GEMM alone is the bound, behind reads and FETCH
    assert estimated((1, 1, 4), two, costs(FETCH=20, GEMM=30)).latency_ps == 20 + 20 + 4 * 30 + 3 + 7


def test_one_accumulator_makes_sums_wait_for_the_store_before() -> None:
    # 16 x 16 sums of f32 take 1 KiB, 16 x 1 factors a slot of 64 bytes each: one accumulator, and 8 slots beside it
    a, b, out = Matrix.packed(48, 2, DType.F16), Matrix.packed(2, 16, DType.F16), Matrix.packed(48, 16, DType.F16)
    plan = generate_gemm_plan(GemmCommand(a=a, b=b, out=out, tile=TileShape(16, 16, 1)), "pe0")
    found = estimate(plan, replace(PLENTY, register_nbytes=1024 + 8 * 128), costs(GEMM=100))
    # 3 sums: FETCH, two GEMMs and STORE of each, behind the reads of the first tile
    assert (found.latency_ps, found.bound_by) == (20 + 3 * (2 + 2 * 100 + 3) + 7, "accumulators")
    assert found.busy_ps["accumulators"] == 3 * (2 + 2 * 100 + 3)


def test_one_output_buffer_makes_the_next_last_tile_wait_for_the_write() -> None:
    # one tile over K: reads, FETCH, GEMM, STORE and DMA_WRITE of each of 3 output tiles, one after the other
    found = estimated((3, 1, 1), replace(PLENTY, output_nbytes=64))
    assert (found.latency_ps, found.bound_by) == (3 * (20 + 2 + 5 + 3 + 7), "output buffers")
    assert found.busy_ps["output buffers"] == 3 * 37
    # No tile waits where each has a place of its own.
    assert "output buffers" not in estimated((3, 1, 1), replace(PLENTY, output_nbytes=3 * 64)).busy_ps


def test_one_input_buffer_makes_the_next_read_wait_for_the_fetch() -> None:
    found = estimated((1, 1, 4), replace(PLENTY, input_nbytes=128))
    assert (found.latency_ps, found.bound_by) == (4 * (20 + 2) + 5 + 3 + 7, "input buffers")


def shared_memory(stage_type: StageType, params: StageParams) -> StageTime:
    """Transfers of 10, of which the memory works for 8."""
    return StageTime(10, 10, 8) if isinstance(params, DmaParams) else StageTime(1, 1)


def test_a_write_keeps_reads_of_its_memory_waiting() -> None:
    # The first write begins at 20 + 1 + 1 + 1 = 23. A read of the second tile is at the memory from 20 to 28, and ends
    # at 30. Then 7 of the write have come, so the next read begins at 28 + 7 = 35 and ends at 45. The last byte of the
    # write comes at 31, and is served from 43 to 44. Every further tile takes 25 as well. The last write meets no read.
    prices = TileCosts(stage_time=shared_memory)
    found = estimated((2, 2, 1), prices=prices)
    assert found.latency_ps == 20 + 3 * 25 + 1 + 1 + 1 + 10
    assert (found.busy_ps["DMA_READ"], found.busy_ps["DMA_WRITE"]) == (8 * 10, 4 * 10)
    assert (found.bound_by, found.busy_ps["memory"]) == ("memory", (8 + 4) * 8)
    assert estimated((100, 70, 1), prices=prices).latency_ps == 20 + 6999 * 25 + 1 + 1 + 1 + 10


def test_a_tile_that_waits_for_registers_is_fetched_before_the_sum_that_frees_them_is_stored() -> None:
    # two accumulators of 64 bytes, one slot of 128: FETCH (2) and GEMM (50) of one tile at a time, and STORE (3) beside
    # the next GEMM
    room = replace(PLENTY, register_nbytes=2 * 64 + 128)
    assert estimated((3, 1, 1), room, costs(GEMM=50)).latency_ps == 20 + 3 * (2 + 50) + 3 + 7


def test_a_block_serves_as_many_tiles_as_a_stage_is_longer_than_it_holds_the_block() -> None:
    def stage_time(stage_type: StageType, _: StageParams) -> StageTime:
        alone_ps = TIMES[stage_type]
        return StageTime(alone_ps, alone_ps // 2 if stage_type is StageType.DMA_READ else alone_ps)

    # two tiles are read from 0 to 20, two from 20 to 40. The first of these is fetched from 40 to 42, and computed from
    # 42 to 47; then the last one is computed, stored and written
    assert estimated((1, 1, 4), prices=TileCosts(stage_time=stage_time)).latency_ps == 40 + 2 + 5 + 5 + 3 + 7


@pytest.mark.parametrize(("input_nbytes", "latency_ps"), [(192, 79), (256, 77)])
def test_the_next_panel_waits_for_room(input_nbytes: int, latency_ps: int) -> None:
    # Two columns of two tiles. The tiles of the first column are read from 0 to 20, b and a, and from 20 to 30, a. The
    # second one is fetched from 30 to 32. With room for one panel of 64 bytes beside two tiles, the next b is read
    # from 32 on, else from 30 on. Then come 20 and 10 of reads, and FETCH, GEMM, STORE and DMA_WRITE of the last tile.
    a, b, out = Matrix.packed(8, 4, DType.F16), Matrix.packed(4, 8, DType.F16), Matrix.packed(8, 8, DType.F16)
    order = LoopOrder.WEIGHT_STATIONARY
    gemm = GemmCommand(a=a, b=b, out=out, tile=TileShape(4, 4, 4), loop_order=order)
    found = estimate(generate_gemm_plan(gemm, "pe0"), replace(PLENTY, input_nbytes=input_nbytes), costs())
    assert found.latency_ps == latency_ps == (32 if input_nbytes == 192 else 30) + 20 + 10 + 2 + 5 + 3 + 7


def test_ragged_edges_take_their_own_time() -> None:
    def stage_time(stage_type: StageType, params: StageParams) -> StageTime:
        ps = params.m * params.n * params.k if isinstance(params, GemmParams) else 0
        return StageTime(ps, ps)

    a, b, out = Matrix.packed(10, 9, DType.F16), Matrix.packed(9, 7, DType.F16), Matrix.packed(10, 7, DType.F16)
    gemm = GemmCommand(a=a, b=b, out=out, tile=TileShape(4, 4, 4))
    found = estimate(generate_gemm_plan(gemm, "pe0"), PLENTY, TileCosts(stage_time=stage_time))
    assert found.latency_ps == 10 * 7 * 9


def test_edges_that_are_bound_by_another_resource_add_up() -> None:
    def stage_time(stage_type: StageType, params: StageParams) -> StageTime:
        if isinstance(params, GemmParams):
            return StageTime(100, 100) if params.m == 4 else StageTime(1, 1)
        return StageTime(20, 20) if isinstance(params, DmaParams) else StageTime(0, 0)

    # a row of 64 tiles bound by GEMM (100 each), and a last one of m = 1 bound by its reads (40 each)
    m, n, k = 5, 4 * 8, 4 * 8
    a, b, out = (Matrix.packed(*shape, DType.F16) for shape in ((m, k), (k, n), (m, n)))
    gemm = GemmCommand(a=a, b=b, out=out, tile=TileShape(4, 4, 4))
    room = replace(PLENTY, input_nbytes=4 * 128, register_nbytes=2 * 64 + 2 * 128)
    found = estimate(generate_gemm_plan(gemm, "pe0"), room, TileCosts(stage_time=stage_time))
    # Two tiles are in registers, and four in buffers. So the 70th is read from 6440 on, when the 66th is fetched in
    # place of the 64th, whose product ends. The 58 tiles behind it are read without a pause.
    assert found.latency_ps == 40 + 64 * 100 + 40 + 58 * 40 + 1 + 20


@pytest.mark.parametrize("which", range(3))
def test_anything_else_is_refused(which: int) -> None:
    a = Matrix.packed(4, 4, DType.F16)
    given: list[Any] = [
        generate_gemm_plan(GemmCommand(a=a, b=a, out=a, tile=TileShape(4, 4, 4)), "pe0"),
        PLENTY,
        costs(),
    ]
    given[which] = None
    needs = ("PipelinePlan", "TileRoom", "TileCosts")[which]
    with pytest.raises(PlanError, match=f"^estimate: got a value of type NoneType, needs a {needs}$"):
        estimate(*given)


@pytest.mark.parametrize(
    ("time", "said"),
    [
        (StageTime(2.5, 2), "StageTime(alone_ps=2.5, holds_ps=2, memory_ps=0)"),  # type: ignore[arg-type]
        (StageTime(2, -1), "StageTime(alone_ps=2, holds_ps=-1, memory_ps=0)"),
        (7, "7"),
    ],
)
def test_times_that_are_no_picoseconds_are_refused(time: Any, said: str) -> None:
    with pytest.raises(PlanError) as error:
        estimated((1, 1, 4), prices=TileCosts(stage_time=lambda *_: time))
    needs = "a StageTime of picoseconds as int, each at least 0"
    assert str(error.value) == f"stage_time of DMA_READ: got {said}, needs {needs}"


@pytest.mark.parametrize(
    ("needs", "register_nbytes", "registers", "accumulators"),
    [
        (BufferNeeds(register_nbytes=128, accumulator_nbytes=64), 256, 1, 2),
        (BufferNeeds(register_nbytes=128, accumulator_nbytes=64), 255, 1, 1),
        (BufferNeeds(register_nbytes=128, accumulator_nbytes=64), 192, 1, 1),
        (BufferNeeds(register_nbytes=128, accumulator_nbytes=64), 191, 0, 0),
        # Less than an accumulator is left: no byte of registers beside it.
        (BufferNeeds(register_nbytes=1, accumulator_nbytes=10), 5, 0, 0),
    ],
)
def test_places_of_registers_at_once(needs: BufferNeeds, register_nbytes: int, registers: int, accumulators: int):
    found = replace(PLENTY, register_nbytes=register_nbytes).at_once(needs)
    assert (found.registers, found.accumulators) == (registers, accumulators)


def test_no_input_buffer_where_two_do_not_fit_beside_the_panel() -> None:
    assert replace(PLENTY, input_nbytes=11).at_once(BufferNeeds(input_nbytes=1, panel_nbytes=10)).input == 0
    assert replace(PLENTY, input_nbytes=12).at_once(BufferNeeds(input_nbytes=1, panel_nbytes=10)).input == 2


def by_bytes(stage_type: StageType, params: StageParams) -> StageTime:
    """A ps for each byte of a transfer, nothing else."""
    ps = params.memory.nbytes if isinstance(params, DmaParams) else 0
    return StageTime(ps, ps)


def lower_bound(
    shape: tuple[int, int, int], prices: TileCosts, order: LoopOrder = LoopOrder.MNK, address: int = 0
) -> int:
    """Of tiles of 4 x 4 x 4, whose result lies at *address*, their operands at 0."""
    m, n, k = shape
    a, b = Matrix.packed(m, k, DType.F16), Matrix.packed(k, n, DType.F16)
    out = Matrix.packed(m, n, DType.F16, address)
    gemm = GemmCommand(a=a, b=b, out=out, tile=TileShape(4, 4, 4), loop_order=order)
    return TileTimes(generate_gemm_plan(gemm, "pe0"), prices).least_ps()


WEIGHT, INPUT = LoopOrder.WEIGHT_STATIONARY, LoopOrder.INPUT_STATIONARY


@pytest.mark.parametrize(
    ("shape", "order", "least_ps"),
    [
        # Tiles of full size along M, N and K, each of which reads two operands of 4 x 4 f16.
        ((8, 12, 8), LoopOrder.MNK, 2 * 3 * 2 * 2 * 32),
        ((9, 12, 8), LoopOrder.MNK, 2 * 3 * 2 * 2 * 32),
        ((12, 9, 8), LoopOrder.MNK, 3 * 2 * 2 * 2 * 32),
        ((5, 5, 16), LoopOrder.MNK, 1 * 1 * 4 * 2 * 32),
        # A tile is no longer than its side.
        ((3, 3, 4), LoopOrder.MNK, 24 + 24),
        ((3, 8, 4), LoopOrder.MNK, 2 * (24 + 32)),
        ((8, 3, 4), LoopOrder.MNK, 2 * (32 + 24)),
        # What is kept is read with the first tile of the inner loop alone.
        ((12, 12, 8), WEIGHT, (9 + 3) * 2 * 32),
        ((12, 16, 8), INPUT, (12 + 3) * 2 * 32),
        ((9, 5, 8), WEIGHT, (2 + 1) * 2 * 32),
        ((5, 9, 8), INPUT, (2 + 1) * 2 * 32),
        ((4, 12, 8), WEIGHT, (3 + 3) * 2 * 32),
    ],
)
def test_the_lower_bound_counts_tiles_of_full_size(
    shape: tuple[int, int, int], order: LoopOrder, least_ps: int
) -> None:
    assert lower_bound(shape, TileCosts(stage_time=by_bytes), order, 1 << OFFSET_BITS) == least_ps


def by_products(stage_type: StageType, params: StageParams) -> StageTime:
    """A ps for each product of two elements, nothing else."""
    ps = params.m * params.n * params.k if isinstance(params, GemmParams) else 0
    return StageTime(ps, ps)


@pytest.mark.parametrize(("shape", "order"), [((9, 5, 8), LoopOrder.MNK), ((9, 5, 8), WEIGHT), ((5, 9, 8), INPUT)])
def test_the_lower_bound_counts_the_products_of_tiles_of_full_size(
    shape: tuple[int, int, int], order: LoopOrder
) -> None:
    assert lower_bound(shape, TileCosts(stage_time=by_products), order) == 2 * 1 * 2 * 4**3


def test_the_lower_bound_is_the_busiest_block_or_the_memory() -> None:
    # 12 tiles, of 6 sums
    assert lower_bound((8, 12, 8), costs()) == 12 * 2 * 10
    assert lower_bound((8, 12, 8), costs(GEMM=30)) == 12 * 30
    assert lower_bound((8, 12, 8), costs(STORE=70)) == 6 * 70
    # 8 reads of 10 and 4 writes, of which the memory works for 8 each
    shared = TileCosts(stage_time=shared_memory)
    assert lower_bound((8, 8, 4), shared) == (8 + 4) * 8
    assert lower_bound((8, 8, 4), shared, address=1 << OFFSET_BITS) == 8 * 10
    nothing = TileCosts(stage_time=lambda *_: StageTime(0, 0))
    assert lower_bound((8, 8, 4), nothing, address=1 << OFFSET_BITS) == 0


def test_all_times_of_a_walk_move_together() -> None:
    side = Matrix.packed(8, 8, DType.F16)
    plan = generate_gemm_plan(GemmCommand(a=side, b=side, out=side, tile=TileShape(4, 4, 4)), "pe0")
    walk = TileWalk(TileTimes(plan, TileCosts(stage_time=shared_memory)), PLENTY)
    end_ps = walk.latency_ps()
    before, fed_ps, ports = walk._state(), walk._fed_ps, list(walk._port_free)
    walk._shift(1000)
    assert (walk._end_ps, walk._fed_ps) == (end_ps + 1000, fed_ps + 1000)
    assert walk._port_free == [each + 1000 for each in ports]
    assert walk._state() == (before[0], before[1] + 1000)


def test_two_tiles_overlap_where_operands_of_two_fit_beside_a_sum() -> None:
    side = Matrix.packed(64, 64, DType.F16)
    plan = generate_gemm_plan(GemmCommand(a=side, b=side, out=side, tile=TileShape(16, 16, 16)), "pe0")
    # Two operands of 512 bytes each, their result of 512, and a sum of 1024
    assert (plan.buffers.input_nbytes, plan.buffers.output_nbytes) == (1024, 512)
    assert (plan.buffers.register_nbytes, plan.buffers.accumulator_nbytes) == (1024, 1024)
    room = TileRoom(input_nbytes=2 * 1024, output_nbytes=512, register_nbytes=2 * 1024 + 1024)

    def overlaps(room: TileRoom) -> bool:
        return Search(lambda _: plan, room, costs(), ([16], [16], [16]))._overlaps(plan)

    assert overlaps(room)
    for name in ("input_nbytes", "output_nbytes", "register_nbytes"):
        assert not overlaps(replace(room, **{name: getattr(room, name) - 1}))


def test_two_tiles_overlap_beside_a_panel() -> None:
    side = Matrix.packed(64, 64, DType.F16)
    gemm = GemmCommand(a=side, b=side, out=side, tile=TileShape(16, 16, 16), loop_order=WEIGHT)
    plan = generate_gemm_plan(gemm, "pe0")
    # The panel has 4 pieces of 16 x 16 f16, and A another for each tile.
    for nbytes, fits in ((4 * 512 + 2 * 512, True), (4 * 512 + 2 * 512 - 1, False)):
        search = Search(lambda _: plan, replace(PLENTY, input_nbytes=nbytes), costs(), ([16], [16], [16]))
        assert search._overlaps(plan) is fits


def test_a_search_begins_with_powers_of_two_and_the_longest_side() -> None:
    sides = [1, 3, 4, 6, 9]
    assert [_is_coarse(sides, at) for at in range(5)] == [True, False, True, False, True]


def test_the_sides_to_try_are_powers_of_two_and_three_times_them_and_equal_parts() -> None:
    assert sides_of(20) == [20]
    assert sides_of(100) == [32, 34, 48, 50, 64, 96, 100]
    powers = [32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024]
    assert sides_of(3000) == sorted([*powers, 375, 429, 500, 600, 750, 1000])


def test_a_search_begins_with_coarse_sides_and_the_deepest_tile_and_half_of_it() -> None:
    side = Matrix.packed(64, 64, DType.F16)
    plan = generate_gemm_plan(GemmCommand(a=side, b=side, out=side, tile=TileShape(16, 16, 16)), "pe0")
    sides = [32, 48, 64, 96], [32, 48, 64], [16, 32, 48, 64]
    search = Search(lambda _: plan, PLENTY, costs(), sides)
    assert list(search._coarse()) == [(m, n) for m in (0, 2, 3) for n in (0, 2)]
    assert search._depths(0, 0) == (3, 1)
    nothing = Search(lambda _: plan, replace(PLENTY, input_nbytes=0), costs(), sides)
    assert nothing._depths(0, 0) == (0, 0)
