"""A GEMM as libraries of kernels cut it: output tiles that PEs take in turn, and parts of K where tiles are few."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kb_engine import Host, Language, LaunchResult, Tensor, TensorRef, TileShape
from kb_plans import SUMS_NBYTES, ChipCosts, GemmSize, Waves, suggest_waves


class Operands(NamedTuple):
    """The tensors of a GEMM: the matrices of a batch lie one below the other."""

    a: Tensor
    b: Tensor
    c: Tensor

    @property
    def nbytes(self) -> int:
        """The bytes of all three."""
        return sum(matrix.nbytes for each in self for _, matrix in each.every_block())


class TileGrid(NamedTuple):
    """The programs of a GEMM: `splits` parts of K, the fastest, then tiles along M, tiles along N, and matrices."""

    splits: int
    m: int
    n: int
    batch: int

    @property
    def n_programs(self) -> int:
        """Programs in all."""
        return self.splits * self.m * self.n * self.batch


def kernel(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, size: GemmSize, tile: TileShape) -> None:
    """A program computes a tile of C. The PE goes on while bytes are on the way."""
    n_rows, n_cols = -(-size.m // tile.m), -(-size.n // tile.n)
    number = tl.program_id(0)
    of, i, j = number // (n_rows * n_cols), number % n_rows, number // n_rows % n_cols
    rows = slice(of * size.m + i * tile.m, of * size.m + min((i + 1) * tile.m, size.m))
    cols = slice(j * tile.n, min((j + 1) * tile.n, size.n))
    tl.composite("gemm", a[rows, :], b[of * size.k : (of + 1) * size.k, cols], out=c[rows, cols], tile=tile)


def split_kernel(
    tl: Language,
    a: TensorRef,
    b: TensorRef,
    c: TensorRef,
    sums: TensorRef,
    arrived: TensorRef,
    size: GemmSize,
    tile: TileShape,
    depth: int,
) -> None:
    """A program writes the sum of a tile over a part of K to *sums*. The last one of a tile adds them up.

    A part is *depth* deep. *sums* has the f32 sums of the parts, one below the other; *arrived* counts a tile's parts.
    """
    splits, n_rows, n_cols = -(-size.k // depth), -(-size.m // tile.m), -(-size.n // tile.n)
    number = tl.program_id(0)
    part, i, j = number % splits, number // splits % n_rows, number // (splits * n_rows) % n_cols
    of, below = number // (splits * n_rows * n_cols), size.batch * size.m
    rows = slice(of * size.m + i * tile.m, of * size.m + min((i + 1) * tile.m, size.m))
    cols = slice(j * tile.n, min((j + 1) * tile.n, size.n))
    along = slice(part * depth, min((part + 1) * depth, size.k))
    mine = slice(part * below + rows.start, part * below + rows.stop)
    of_b = slice(of * size.k + along.start, of * size.k + along.stop)
    tl.wait(tl.composite("gemm", a[rows, along], b[of_b, cols], out=sums[mine, cols], tile=tile))
    counter = of * n_rows + i
    if int(tl.atomic_add(arrived[counter : counter + 1, j : j + 1], 1)) + 1 < splits:
        return
    step = max(1, SUMS_NBYTES // (splits * (cols.stop - cols.start) * sums.dtype.nbytes))
    for first in range(rows.start, rows.stop, step):
        last = min(first + step, rows.stop)
        parts = [tl.load_async(sums[at * below + first : at * below + last, cols]) for at in range(splits)]
        total = parts[0]
        for each in parts[1:]:
            total = total + each
        tl.store(c[first:last, cols], total.to(c.dtype))


def operands(host: Host, size: GemmSize) -> Operands:
    """Uninitialised operands and result of a GEMM of *size*."""
    return Operands(
        host.empty("a", (size.batch * size.m, size.k), size.dtype),
        host.empty("b", (size.batch * size.k, size.n), size.dtype),
        host.empty("c", (size.batch * size.m, size.n), size.out_dtype),
    )


def grid_of(size: GemmSize, cut: Waves) -> TileGrid:
    """The programs of a GEMM of *size* that is cut as *cut* says."""
    depth = _depth(size, cut)
    return TileGrid(-(-size.k // depth), -(-size.m // cut.tile.m), -(-size.n // cut.tile.n), size.batch)


def launch_gemm(
    host: Host, size: GemmSize, tensors: Operands, cut: Waves, n_programs: int | None = None
) -> LaunchResult:
    """Launch `c = a @ b`, cut as *cut* says, or the first *n_programs* programs of it alone."""
    grid = grid_of(size, cut)
    n_programs = n_programs or grid.n_programs
    if grid.splits == 1:
        return host.launch(kernel, *tensors, size, cut.tile, grid=n_programs)
    sums = host.empty("sums", (grid.splits * size.batch * size.m, size.n), size.dtype.accumulator)
    arrived = host.tensor("arrived", np.zeros((size.batch * grid.m, grid.n), np.int32), "i32")
    launched = (*tensors, sums, arrived, size, cut.tile, _depth(size, cut))
    result = host.launch(split_kernel, *launched, grid=n_programs)
    host.free(sums)
    host.free(arrived)
    return result


def suggest_cut(host: Host, size: GemmSize, tensors: Operands) -> Waves:
    """The cut of *size* that is estimated to be fastest on the chip of *host*."""
    return suggest_waves(size, chip_costs(host, tensors.a))


def _depth(size: GemmSize, cut: Waves) -> int:
    """How deep a part of K is: whole steps of the tile."""
    return -(-size.k // (cut.tile.k * cut.splits)) * cut.tile.k


def chip_costs(host: Host, a: Tensor) -> ChipCosts:
    """The costs of the chip of *host*, whose operands lie where *a* does. Its PEs are taken to be equal."""
    pes = list(host.engine.pes.values())
    scheduler: Any = pes[0].scheduler
    address = next(matrix.address for _, matrix in a.every_block())
    memory: Any = host.engine.components[host.engine.topology.address_map.decode(address)[0].node_id]
    return ChipCosts(
        n_pes=len(pes),
        room=scheduler.tile_room,
        costs=scheduler.tile_costs,
        address=address,
        shared_reads=getattr(memory.spec, "multicast", 1),
    )
