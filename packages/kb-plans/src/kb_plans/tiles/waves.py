"""The cut of one GEMM for many PEs: output tiles that PEs take in turn, and parts of K where tiles are few."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final, NamedTuple

from msgspec import Struct

from kb_messages import (
    BufferNeeds,
    DmaParams,
    DType,
    GemmParams,
    PlanError,
    Rectangle,
    StageType,
    TileShape,
    TransferParams,
)
from kb_plans.tiles.room import TileRoom
from kb_plans.tiles.tile_times import TileCosts

SIDES: Final = (64, 128, 256, 512, 1024)
"""The sides of output tiles for which a library has kernels.

Source: up to 256, the tile sizes of CUTLASS's GEMM profiler; above, for chips that keep megabytes of sums, assumed.
"""
DEPTHS: Final = (64, 128)
"""The depths of a step over K. Source: the tile sizes of CUTLASS's GEMM profiler."""
SPLITS: Final = (1, 2, 3, 4, 6, 8, 12, 16)
"""The parts of K. Source: assumed."""
SUMS_NBYTES: Final = 1 << 16
"""The bytes of sums of parts that a PE adds up at a time. Source: assumed."""
_MUCH_LONGER: Final = 1.15
_LEAST_DEPTH: Final = 2
"""Steps over K of a part, at least. Source: assumed: a pipeline of two stages is filled once."""


class GemmSize(NamedTuple):
    """`batch` times C[m, n] = A[m, k] @ B[k, n], with operands of `dtype` and a C of `out_dtype`."""

    m: int
    n: int
    k: int
    dtype: DType
    out_dtype: DType
    batch: int = 1


class Waves(NamedTuple):
    """Output tiles of `tile`, K in `splits` parts, and the estimated picoseconds."""

    tile: TileShape
    splits: int
    estimated_ps: int


class ChipCosts(Struct, frozen=True, kw_only=True):
    """`n_pes` equal PEs, each with `room` and `costs`. Their operands lie in the memory at `address`.

    The memory serves up to `shared_reads` reads of the same bytes at once.
    """

    n_pes: int
    room: TileRoom
    costs: TileCosts
    address: int
    shared_reads: int = 1


def suggest_waves(size: GemmSize, chip: ChipCosts) -> Waves:
    """The cut of *size* with the shortest estimated time on *chip*.

    Among the cuts that take at most 15 % longer, the cut that reads the fewest bytes is taken, because reads cost power
    and an estimate knows no other traffic. Source: assumed, with the choices of GPU libraries in view.

    The time is the time of the PE with most programs. It adds the first reads, for each step over K the longest of four
    times (the product, the fetch, the read over the PE's own port, and the turn of all PEs at the memory), and then the
    last store and write. With parts of K, one PE counts the parts of a tile and reads their sums again, one behind the
    other.

    Raises PlanError where no tile fits the room.
    """
    found = [_estimated(size, chip, *each) for each in _cuts(size, chip.room)]
    if not found:
        raise PlanError("gemm", f"{chip.room}", "room for a tile of 64 x 64 x 64 twice", "make the buffers larger")
    limit_ps = _MUCH_LONGER * min(each.estimated_ps for each in found)
    near = [each for each in found if each.estimated_ps <= limit_ps]
    return min(near, key=lambda each: (each.splits, 1 / each.tile.m + 1 / each.tile.n, each.estimated_ps))


def _cuts(size: GemmSize, room: TileRoom) -> Iterator[tuple[TileShape, int]]:
    for m, n, k in product(SIDES, SIDES, DEPTHS):
        tile = TileShape(min(m, size.m), min(n, size.n), min(k, size.k))
        if not _fits(tile, size, room):
            continue
        n_steps = -(-size.k // tile.k)
        for splits in SPLITS:
            if splits == 1 or n_steps >= splits * _LEAST_DEPTH:
                yield tile, splits


def _fits(tile: TileShape, size: GemmSize, room: TileRoom) -> bool:
    """Whether the operands of two steps fit beside the sums of a PE.

    A PE keeps two sums at a time if they fit, else one.
    """
    operands = (tile.m + tile.n) * tile.k * size.dtype.nbytes
    fit = room.at_once(
        BufferNeeds(
            input_nbytes=operands,
            output_nbytes=tile.m * tile.n * size.out_dtype.nbytes,
            register_nbytes=operands,
            accumulator_nbytes=tile.m * tile.n * size.dtype.accumulator.nbytes,
            panel_nbytes=0,
        )
    )
    return min(fit.input or 0, fit.registers or 0) >= _LEAST_DEPTH and bool(fit.output)


def _estimated(size: GemmSize, chip: ChipCosts, tile: TileShape, splits: int) -> Waves:
    time, nbytes = chip.costs.time, size.dtype.nbytes
    a, b = (_transfer(chip, side * tile.k * nbytes, StageType.DMA_READ) for side in (tile.m, tile.n))
    n_programs = size.batch * -(-size.m // tile.m) * -(-size.n // tile.n) * splits
    n_busy = min(chip.n_pes, n_programs)
    n_each, n_steps = -(-n_programs // chip.n_pes), -(-size.k // (tile.k * splits))
    gemm = time(StageType.GEMM, _product(tile, size.dtype)).holds_ps
    fetch = time(StageType.FETCH, TransferParams(nbytes=(tile.m + tile.n) * tile.k * nbytes)).holds_ps
    at_memory = (a.memory_ps + b.memory_ps) * n_busy // (1 if n_busy == 1 else chip.shared_reads)
    step = max(gemm, fetch, a.port_ps + b.port_ps, at_memory)
    summed = size.dtype.accumulator.nbytes if splits > 1 else size.out_dtype.nbytes
    store = time(StageType.STORE, TransferParams(nbytes=tile.m * tile.n * summed)).holds_ps
    out = _transfer(chip, tile.m * tile.n * summed, StageType.DMA_WRITE)
    leave = store + out.alone_ps + out.memory_ps * n_busy
    if splits > 1:
        leave += _reduction_ps(chip, tile.m * tile.n * summed, splits)
    whole = a.alone_ps + b.alone_ps + fetch + n_each * n_steps * step + (n_each - 1) * store + leave
    return Waves(tile, splits, whole)


def _reduction_ps(chip: ChipCosts, nbytes: int, splits: int) -> int:
    """The time from the last part to the finished sum of *nbytes*: a count, the reads of all parts, and the write."""
    counted, written = (_transfer(chip, each, StageType.DMA_WRITE) for each in (4, nbytes // 2))
    part = _transfer(chip, nbytes, StageType.DMA_READ)
    n_pieces = -(-splits * nbytes // SUMS_NBYTES)
    latency_ps = part.alone_ps - part.port_ps + written.alone_ps - written.port_ps
    added = chip.costs.time(StageType.FETCH, TransferParams(nbytes=splits * nbytes)).holds_ps
    return counted.alone_ps + n_pieces * latency_ps + splits * part.port_ps + added + written.port_ps


def _product(tile: TileShape, dtype: DType) -> GemmParams:
    return GemmParams(
        m=tile.m, n=tile.n, k=tile.k, dtype=dtype, dtype_b=dtype, dtype_acc=dtype.accumulator, accumulate=True
    )


class _Move(NamedTuple):
    """The times of a transfer: alone, its bytes at the narrowest place of the way, and its bytes at the memory."""

    alone_ps: int
    port_ps: int
    memory_ps: int


def _transfer(chip: ChipCosts, nbytes: int, stage_type: StageType) -> _Move:
    whole, latency = (
        chip.costs.time(stage_type, DmaParams(Rectangle(chip.address, 1, each, each))) for each in (nbytes, 1)
    )
    return _Move(whole.alone_ps, whole.alone_ps - latency.alone_ps, whole.memory_ps)
