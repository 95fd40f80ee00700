"""The cut of a GEMM for many PEs: by the estimated time, on a machine whose numbers are easy."""

import pytest

from kb_messages import DmaParams, DType, GemmParams, MemorySpace, PhysAddr, PlanError, TileShape, TransferParams
from kb_plans import ChipCosts, GemmSize, StageTime, TileCosts, TileRoom, suggest_waves

ROOM = TileRoom(input_nbytes=192 << 10, output_nbytes=128 << 10, register_nbytes=256 << 10)
ADDRESS = PhysAddr(space=MemorySpace.HBM).encode()


def stage_time(stage_type, params):
    """1024 products a ps, a byte a ps over the port after 1000 ps, and 100 bytes a ps at the memory."""
    if isinstance(params, GemmParams):
        return StageTime(ps := params.m * params.n * params.k // 1024, ps)
    if isinstance(params, TransferParams):
        return StageTime(ps := params.nbytes // 4, ps)
    assert isinstance(params, DmaParams)
    nbytes = params.memory.nbytes
    return StageTime(1000 + nbytes, nbytes // 100, nbytes // 100)


def chip(n_pes=100, **changes):
    numbers = {"n_pes": n_pes, "room": ROOM, "costs": TileCosts(stage_time=stage_time), "address": ADDRESS}
    return ChipCosts(**numbers | changes)


def cut(m, n, k, chip=None):
    return suggest_waves(GemmSize(m, n, k, DType.F16, DType.F16), chip or CHIP)


CHIP = chip()


def test_large_products_have_large_tiles_and_whole_sums():
    found = cut(8192, 8192, 4096)
    assert (found.splits, found.tile.m * found.tile.n) == (1, 128 * 256)


def test_few_tiles_and_deep_sums_are_cut_along_k():
    assert cut(64, 64, 1 << 16).splits > 1
    assert cut(64, 64, 128).splits == 1  # a part has two steps at least


def test_the_estimate_of_one_tile_by_hand():
    # One PE, one tile of 64 x 64, two steps of 64 over K. Reads of 8192 bytes: 9192 ps each, 8191 of them at the port.
    # Fetch of 16384 bytes: 4096. Steps: the port, 2 x 8191, is slower than the product, 256. Store of 8192 bytes: 2048.
    # Write: 9192, and its turn at the memory, 81.
    found = cut(64, 64, 128, chip(n_pes=1))
    assert found.tile == TileShape(64, 64, 64)
    assert found.estimated_ps == 2 * 9192 + 4096 + 2 * 16382 + 2048 + 9192 + 81


@pytest.mark.parametrize("sizes", [(1, 1, 1), (1, 4096, 3), (97, 101, 103), (4097, 63, 129)])
def test_any_sizes_are_cut_and_no_tile_is_larger_than_the_product(sizes):
    found = cut(*sizes)
    assert all(side <= size for side, size in zip((found.tile.m, found.tile.n, found.tile.k), sizes, strict=True))
    assert found.estimated_ps > 0


def test_equal_arguments_give_equal_cuts():
    assert cut(777, 333, 2048) == cut(777, 333, 2048)


def test_reads_that_are_shared_never_make_a_cut_slower():
    assert cut(2048, 2048, 2048, chip(shared_reads=4)).estimated_ps <= 1.15 * cut(2048, 2048, 2048).estimated_ps


def test_no_room_is_refused():
    with pytest.raises(PlanError) as caught:
        cut(64, 64, 64, chip(room=TileRoom(input_nbytes=1024, output_nbytes=1024, register_nbytes=1024)))
    assert "make the buffers larger" in str(caught.value)
