import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from sampled_cases import examples

from kb_messages import (
    BufferNeeds,
    DmaParams,
    DType,
    EpilogueOp,
    EpilogueScope,
    GemmCommand,
    GemmParams,
    Matrix,
    PlanError,
    StageParams,
    StageType,
    TileShape,
    TransferParams,
)
from kb_plans import StageTime, TileCosts, TileRoom, estimate, generate_gemm_plan, suggest_tile

KIB = 1024

shapes = st.tuples(st.integers(1, 600), st.integers(1, 600), st.integers(1, 600))
# two tiles of 1 x 1 x 1 take 2 * 128 bytes of input, 2 * 64 of output, 2 * 192 of registers
rooms = st.tuples(st.integers(256, 10**6), st.integers(128, 10**6), st.integers(384, 10**6))


def gemm(m: int, n: int, k: int, tile: TileShape | None = None) -> GemmCommand:
    a, b, out = (Matrix.packed(*shape, DType.F16) for shape in ((m, k), (k, n), (m, n)))
    return GemmCommand(a=a, b=b, out=out, tile=tile)


def suggest(m: int, n: int, k: int, inputs: int, outputs: int, registers: int) -> TileShape:
    room = TileRoom(input_nbytes=inputs, output_nbytes=outputs, register_nbytes=registers)
    return suggest_tile(gemm(m, n, k), room)


def needs_of(m: int, n: int, k: int, tile: TileShape) -> BufferNeeds:
    return generate_gemm_plan(gemm(m, n, k, tile), "").buffers


def fits(needs: BufferNeeds, copies: int, inputs: int, outputs: int, registers: int) -> bool:
    return (
        copies * needs.input_nbytes <= inputs
        and copies * needs.output_nbytes <= outputs
        and copies * (needs.register_nbytes + needs.accumulator_nbytes) <= registers
    )


def test_two_tiles_fit_and_none_with_a_side_doubled_would() -> None:
    # two tiles of 128^3 take 2 * (32 + 32) KiB of input, 2 * 32 of output, 2 * (64 + 64) of registers: 256 all told
    assert suggest(4096, 4096, 4096, 128 * KIB, 64 * KIB, 256 * KIB) == TileShape(128, 128, 128)


def test_the_side_that_can_still_grow_does() -> None:
    # 64 KiB more of input and registers let k alone double: a and b of 128 x 256 are 64 KiB each
    assert suggest(4096, 4096, 4096, 256 * KIB, 64 * KIB, 384 * KIB) == TileShape(128, 128, 256)


def test_no_side_exceeds_the_problem_or_256() -> None:
    assert suggest(1, 100, 10**6, 10**9, 10**9, 10**9) == TileShape(1, 100, 256)


@given(shape=shapes, room=rooms)
def test_two_suggested_tiles_always_fit_where_two_of_any_kind_do(
    shape: tuple[int, int, int], room: tuple[int, int, int]
) -> None:
    tile = suggest(*shape, *room)
    assert fits(needs_of(*shape, tile), 2, *room)


@given(shape=shapes, room=rooms)
def test_no_side_of_a_suggested_tile_can_be_doubled(shape: tuple[int, int, int], room: tuple[int, int, int]) -> None:
    tile = suggest(*shape, *room)
    for name, limit in zip("mnk", shape, strict=True):
        side = getattr(tile, name)
        if side < min(limit, 256):
            doubled = replace(tile, **{name: min(2 * side, limit)})
            assert not fits(needs_of(*shape, doubled), 2, *room)


def test_one_tile_must_do_where_no_two_fit() -> None:
    # 1 x 1 x 1 takes 128 bytes of input, 64 of output and 64 + 128 of registers; a slot of 64 bytes holds 32 f16
    tile = suggest(64, 64, 64, 128, 64, 192)
    assert fits(needs_of(64, 64, 64, tile), 1, 128, 64, 192)
    assert not fits(needs_of(64, 64, 64, TileShape(1, 1, 1)), 2, 128, 64, 192)
    assert tile.m * tile.n * tile.k > 1


def test_no_room_for_the_smallest_tile_is_refused() -> None:
    message = (
        "gemm: got 127 bytes of input buffer, 64 of output buffer, 192 of registers, needs room for one tile of 1x1x1; "
        "make the buffers larger"
    )
    with pytest.raises(PlanError, match=f"^{message}$"):
        suggest(64, 64, 64, 127, 64, 192)


def test_a_pinned_operand_takes_no_input_buffer() -> None:
    room = TileRoom(input_nbytes=4096, output_nbytes=1 << 20, register_nbytes=1 << 20)

    def elements(**pins: bool) -> int:
        tile = suggest_tile(replace(gemm(256, 256, 256), **pins), room)
        return tile.m * tile.n * tile.k

    assert elements() < elements(a_pinned=True) < elements(a_pinned=True, b_pinned=True)


ONE_PE = TileRoom(input_nbytes=512 * KIB, output_nbytes=256 * KIB, register_nbytes=512 * KIB)


def stage_time(stage_type: StageType, params: StageParams) -> StageTime:
    """By hand: 70 ns a transfer and 100 GB/s, a TCM port of 500 GB/s, 64 x 64 MACs at 1 GHz."""
    if isinstance(params, DmaParams):
        ps = params.memory.nbytes * 10
        return StageTime(70_000 + ps, 70_000 + ps, ps)
    if isinstance(params, TransferParams):
        return StageTime(2_000 + params.nbytes * 2, 2_000 + params.nbytes * 2)
    assert isinstance(params, GemmParams)
    cycles = -(-params.m // 64) * -(-params.n // 64) * params.k + 126
    return StageTime(cycles * 1000, cycles * 1000)


COSTS = TileCosts(stage_time=stage_time)


def time_of(shape: tuple[int, int, int], tile: TileShape) -> int:
    return estimate(generate_gemm_plan(gemm(*shape, tile), ""), ONE_PE, COSTS).latency_ps


def test_time_decides_where_costs_are_known() -> None:
    # of bytes alone, 128 x 128 x 256 looks best: two of them fit. Tiles of 256 x 256 read half as much
    shape = 512, 4096, 4096
    assert suggest_tile(gemm(*shape), ONE_PE) == TileShape(128, 128, 256)
    assert suggest_tile(gemm(*shape), ONE_PE, COSTS) == TileShape(256, 256, 128)
    assert time_of(shape, TileShape(256, 256, 128)) < 0.8 * time_of(shape, TileShape(128, 128, 256))


@settings(max_examples=examples(30))
@given(shape=shapes)
@example(shape=(8, 64, 588))  # three uneven cuts of K are estimated 5.1 % shorter than two equal ones
def test_a_tile_by_time_fits_and_is_no_slower_than_one_by_bytes(shape: tuple[int, int, int]) -> None:
    tile = suggest_tile(gemm(*shape), ONE_PE, COSTS)
    assert ONE_PE.holds(needs_of(*shape, tile), 1)
    assert time_of(shape, tile) <= time_of(shape, suggest_tile(gemm(*shape), ONE_PE)) * 1.05


@settings(max_examples=examples(30))
@given(shape=shapes, room=rooms)
def test_a_tile_is_found_by_time_wherever_one_fits(shape: tuple[int, int, int], room: tuple[int, int, int]) -> None:
    there = TileRoom(input_nbytes=room[0], output_nbytes=room[1], register_nbytes=room[2])
    assert there.holds(needs_of(*shape, suggest_tile(gemm(*shape), there, COSTS)), 1)


def test_groups_keep_their_depth() -> None:
    op = EpilogueOp(op="dequant", scope=EpilogueScope.K_TILE, operand=Matrix.packed(4, 300, DType.F32), group=96)
    command = replace(gemm(200, 300, 384), epilogue=(op,))

    def with_math(stage_type: StageType, params: StageParams) -> StageTime:
        return StageTime(100, 100) if stage_type is StageType.MATH else stage_time(stage_type, params)

    assert suggest_tile(command, ONE_PE, TileCosts(stage_time=with_math)).k == 96


def test_an_accumulator_is_fetched_once_whatever_the_cuts_of_k() -> None:
    # 2 ps a byte at the port, and 8 products a ps. With tiles of 64 x 64 x 32, the sum so far is fetched, then 64 x 32
    # and 32 x 64 of f16. All products follow without a pause, and the result is stored.
    def slow_port(_: StageType, params: StageParams) -> StageTime:
        if isinstance(params, TransferParams):
            return StageTime(params.nbytes * 2, params.nbytes * 2)
        assert isinstance(params, GemmParams)
        ps = params.m * params.n * params.k // 8
        return StageTime(ps, ps)

    held = Matrix.packed(64, 64, DType.F32)
    command = replace(gemm(64, 64, 1024), out=held, acc=held, a_pinned=True, b_pinned=True, out_pinned=True)
    costs = TileCosts(stage_time=slow_port)
    tile = suggest_tile(command, ONE_PE, costs)
    latency_ps = estimate(generate_gemm_plan(replace(command, tile=tile), ""), ONE_PE, costs).latency_ps
    assert latency_ps <= 2 * 64 * 64 * 4 + 2 * 2 * 64 * 32 * 2 + 64 * 64 * 1024 // 8 + 2 * 64 * 64 * 4
