"""A GEMM as libraries of kernels cut it: output tiles that PEs take in turn, and parts of K where tiles are few."""

from __future__ import annotations

from typing import Any

import numpy as np

from kb_engine import Host, Language, Tensor, TensorRef, TileShape
from kb_plans import SUMS_NBYTES, ChipCosts, GemmSize, Waves, suggest_waves


def kernel(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, tile: TileShape) -> None:
    """Program (i, j) computes tile (i, j) of C. The PE goes on while bytes are on the way."""
    i, j = tl.program_id(0), tl.program_id(1)
    rows, cols = slice(i * tile.m, (i + 1) * tile.m), slice(j * tile.n, (j + 1) * tile.n)
    tl.composite("gemm", a[rows, :], b[:, cols], out=c[rows, cols], tile=tile)


def split_kernel(
    tl: Language,
    a: TensorRef,
    b: TensorRef,
    c: TensorRef,
    sums: TensorRef,
    arrived: TensorRef,
    tile: TileShape,
    depth: int,
) -> None:
    """Program (s, i, j) writes its sum over part s of K, *depth* deep, to *sums*. The last one of a tile adds them up.

    *sums* has the f32 sums of each part, one part below the other; *arrived* counts the parts of each tile.
    """
    part, i, j = (tl.program_id(axis) for axis in range(3))
    m, n = c.shape
    rows, cols = slice(i * tile.m, min((i + 1) * tile.m, m)), slice(j * tile.n, min((j + 1) * tile.n, n))
    along = slice(part * depth, (part + 1) * depth)
    mine = slice(part * m + rows.start, part * m + rows.stop)
    tl.wait(tl.composite("gemm", a[rows, along], b[along, cols], out=sums[mine, cols], tile=tile))
    if int(tl.atomic_add(arrived[i : i + 1, j : j + 1], 1)) + 1 < tl.num_programs(0):
        return
    step = max(1, SUMS_NBYTES // (tl.num_programs(0) * (cols.stop - cols.start) * sums.dtype.nbytes))
    for first in range(rows.start, rows.stop, step):
        last = min(first + step, rows.stop)
        parts = [tl.load_async(sums[at * m + first : at * m + last, cols]) for at in range(tl.num_programs(0))]
        total = parts[0]
        for each in parts[1:]:
            total = total + each
        tl.store(c[first:last, cols], total.to(c.dtype))


def launch_gemm(host: Host, size: GemmSize, a: Tensor, b: Tensor, c: Tensor, cut: Waves | None = None) -> Waves:
    """Launch `c = a @ b`, cut as *cut* says, or as is estimated to be fastest. Returns how it was cut."""
    cut = cut or suggest_waves(size, chip_costs(host, a))
    tile, depth = cut.tile, -(-size.k // (cut.tile.k * cut.splits)) * cut.tile.k
    splits, grid = -(-size.k // depth), (-(-size.m // tile.m), -(-size.n // tile.n))
    if splits == 1:
        host.launch(kernel, a, b, c, tile, grid=grid)
        return cut
    sums = host.empty("sums", (splits * size.m, size.n), size.dtype.accumulator)
    arrived = host.tensor("arrived", np.zeros(grid, np.int32), "i32")
    host.launch(split_kernel, a, b, c, sums, arrived, tile, depth, grid=(splits, *grid))
    host.free(sums)
    host.free(arrived)
    return cut


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
