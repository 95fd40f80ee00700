"""The cut of a GEMM for many PEs: by the estimated time, on a machine whose numbers are easy."""

from itertools import product
from math import ceil
from typing import NamedTuple

import pytest

from kb_messages import DmaParams, DType, GemmParams, MemorySpace, PhysAddr, PlanError, TileShape, TransferParams
from kb_plans import ChipCosts, GemmSize, StageTime, TileCosts, TileRoom, suggest_waves

ROOM = TileRoom(input_nbytes=192 << 10, output_nbytes=128 << 10, register_nbytes=256 << 10)
ADDRESS = PhysAddr(space=MemorySpace.HBM).encode()


class Machine(NamedTuple):
    """Products a ps, and the ps that 100 bytes take at the memory."""

    products: int = 1024
    memory_ps: int = 1

    def stage_time(self, stage_type, params):
        """8 ps to add to a sum, 4 bytes a ps to the registers, and a byte a ps over the port after 1000 ps."""
        if isinstance(params, GemmParams):
            ps = params.m * params.n * params.k // self.products + 8 * params.accumulate
            return StageTime(ps, ps)
        if isinstance(params, TransferParams):
            return StageTime(ps := params.nbytes // 4, ps)
        assert isinstance(params, DmaParams)
        memory_ps = params.memory.nbytes * self.memory_ps // 100
        return StageTime(1000 + params.memory.nbytes, memory_ps, memory_ps)


MACHINE = Machine()


def chip(n_pes=100, machine=MACHINE, **changes):
    numbers = {"n_pes": n_pes, "room": ROOM, "costs": TileCosts(stage_time=machine.stage_time), "address": ADDRESS}
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
    # Fetch of 16384 bytes: 4096. Steps: the port, 2 x 8191, is slower than the product, 264. Store of 8192 bytes: 2048.
    # Write: 9192, and its turn at the memory, 81.
    found = cut(64, 64, 128, chip(n_pes=1))
    assert found.tile == TileShape(64, 64, 64)
    assert found.estimated_ps == 2 * 9192 + 4096 + 2 * 16382 + 2048 + 9192 + 81


def up(whole, part):
    """The number of parts of *whole*."""
    return ceil(whole / part)


def by_hand_ps(machine, size, chip, m, n, k, splits):
    """The time of one cut, with the numbers of *machine* in place of its function."""
    a, b = m * k * 2, n * k * 2
    n_programs = size.batch * up(size.m, m) * up(size.n, n) * splits
    n_busy, n_each, n_steps = min(chip.n_pes, n_programs), up(n_programs, chip.n_pes), up(size.k, k * splits)
    turns = n_busy if n_busy == 1 else n_busy / chip.shared_reads
    at_memory = int((a * machine.memory_ps // 100 + b * machine.memory_ps // 100) * turns)
    step = max(m * n * k // machine.products + 8, (a + b) // 4, a - 1 + b - 1, at_memory)
    out = m * n * (2 if splits == 1 else 4)
    ps = 1000 + a + 1000 + b + (a + b) // 4 + n_each * n_steps * step + n_each * (out // 4)
    ps += 1000 + out + out * machine.memory_ps // 100 * n_busy
    if splits > 1:
        # One PE counts the parts by a write of 4 bytes, and reads all parts, 65536 bytes at a time. A read and a write
        # take 1001 ps each until their first byte. The PE fetches the parts, and writes the sum in the type of C.
        ps += 1004 + up(splits * out, 65536) * 2002 + splits * (out - 1) + splits * out // 4 + out // 2 - 1
    return ps


def cut_by_hand(machine, size, chip):
    """The cut by the rule of `suggest_waves`, from all cuts that fit the room of `CHIP`."""
    found = {}
    for m, n, k in product((64, 128, 256, 512, 1024), (64, 128, 256, 512, 1024), (64, 128)):
        tile = m, n, k = min(m, size.m), min(n, size.n), min(k, size.k)
        operands, sums = (m + n) * k * 2, m * n * 4
        left = ROOM.register_nbytes - sums * (2 if 2 * sums + operands <= ROOM.register_nbytes else 1)
        if min(ROOM.input_nbytes, left) < 2 * operands or m * n * 2 > ROOM.output_nbytes:
            continue
        for splits in (1, 2, 3, 4, 6, 8, 12, 16):
            if splits == 1 or up(size.k, k) >= 2 * splits:
                found[*tile, splits] = by_hand_ps(machine, size, chip, *tile, splits)
    near = [each for each, ps in found.items() if ps <= 1.15 * min(found.values())]
    best = min(near, key=lambda each: (each[3], 1 / each[0] + 1 / each[1], found[each]))
    return TileShape(*best[:3]), best[3], found[best]


SIZES = [
    (64, 64, 40, 1),
    (64, 64, 128, 1),
    (64, 64, 256, 1),
    (64, 64, 320, 1),
    (64, 64, 1024, 1),
    (64, 192, 4096, 1),
    (100, 300, 256, 3),
    (128, 2048, 512, 1),
    (256, 256, 65536, 1),
    (512, 128, 2048, 4),
    (777, 333, 2048, 1),
    (1024, 1024, 1024, 1),
    (2048, 96, 384, 2),
    (4096, 4096, 128, 1),
    (4097, 63, 129, 1),
]


@pytest.mark.parametrize(("n_pes", "shared_reads"), [(1, 4), (7, 3), (100, 1), (1000, 2)])
@pytest.mark.parametrize("machine", [MACHINE, Machine(products=1), Machine(memory_ps=300)], ids=str)
@pytest.mark.parametrize("sizes", SIZES)
def test_cuts_and_their_times_are_those_by_hand(sizes, machine, n_pes, shared_reads):
    """With few and many PEs, whole sums and parts, reads that are shared, and batches."""
    m, n, k, batch = sizes
    size, pes = GemmSize(m, n, k, DType.F16, DType.F16, batch), chip(n_pes, machine, shared_reads=shared_reads)
    assert tuple(suggest_waves(size, pes)) == cut_by_hand(machine, size, pes)


@pytest.mark.parametrize(
    ("depth", "input_nbytes", "output_nbytes", "register_nbytes"),
    [
        # Operands of two steps: 2 x (64 + 48) x 64 x 2 bytes. C: 64 x 48 x 2. Two sums: 2 x 64 x 48 x 4.
        (64, 28672, 6144, 2 * 12288 + 28672),
        # Half as deep: 2 x (64 + 48) x 32 x 2 bytes, and two sums have no room beside a step, so one has to do.
        (32, 14336, 6144, 12288 + 14336),
    ],
)
def test_a_room_that_just_holds_two_steps_is_enough(depth, input_nbytes, output_nbytes, register_nbytes):
    enough = {"input_nbytes": input_nbytes, "output_nbytes": output_nbytes, "register_nbytes": register_nbytes}
    assert cut(64, 48, depth, chip(room=TileRoom(**enough))).tile == TileShape(64, 48, depth)
    for name, nbytes in enough.items():
        with pytest.raises(PlanError, match="room for a tile of 64 x 64 x 64 twice"):
            cut(64, 48, depth, chip(room=TileRoom(**{**enough, name: nbytes - 1})))


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
