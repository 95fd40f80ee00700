"""Stencil: steps of the heat equation on a plate, whose rows lie in the TCMs of several PEs. Neighbours exchange edges.

A step replaces each element by the mean of its four neighbours, with zeros around the plate (Jacobi's method for
Laplace's equation). Source: Datta et al., "Stencil Computation Optimization and Auto-tuning", SC 2008, for stencils and
their halos.
"""

from typing import Annotated

import numpy as np
from msgspec import Meta

import kernbench as kb

Size = Annotated[int, Meta(ge=1)]


def kernel(tl, x, y, steps: int) -> None:
    """Program p has band p of the rows in TCM, with a zero behind each. So the neighbours of an element lie one element
    and one row before and after it.
    """
    here, last, width = tl.program_id(), tl.num_programs() - 1, x.shape[1]
    rows = slice(here * x.shape[0] // (last + 1), (here + 1) * x.shape[0] // (last + 1))
    n, row, size = rows.stop - rows.start, width + 1, (rows.stop - rows.start) * (width + 1)
    cols = tl.arange(0, row)
    inside = tl.broadcast_to((cols < width)[None, :], (n, row))
    band = tl.load(x[rows, cols], mask=inside, other=0).to("f32").reshape(-1)
    shares = tl.where(inside, 0.25, 0.0).reshape(-1)
    end = tl.zeros((1,), "f32")
    for _ in range(steps):
        above, below = edges(tl, band, row, here, last)
        whole = tl.cat(tl.cat(above, band), tl.cat(below, end))
        beside = whole[row - 1 : row - 1 + size] + whole[row + 1 : row + 1 + size]
        band = (beside + whole[:size] + whole[2 * row : 2 * row + size]) * shares
    tl.store(y[rows, :], band.reshape(n, row)[:, :width].to(y.dtype))


def edges(tl, band, row: int, here: int, last: int):
    """The rows above and below *band*: those of the neighbours, which get the first and last row, or zeros."""
    if here > 0:
        tl.send(band[:row], here - 1, "up")
    if here < last:
        tl.send(band[band.shape[0] - row :], here + 1, "down")
    above = tl.recv(here - 1, "down") if here > 0 else tl.zeros((row,), "f32")
    below = tl.recv(here + 1, "up") if here < last else tl.zeros((row,), "f32")
    return above, below


def bands(host: kb.Host, rows: int, pes: int | None) -> dict[str, list[int]]:
    """The PEs, each with a band of the rows: at most one for each row."""
    used = min(rows, host.num_pes if pes is None else pes)
    host.chose(bands=used)
    return {"pes": list(range(used))}


def plate(x: np.ndarray, steps: int) -> np.ndarray:
    """The plate after *steps* steps, in float64."""
    found = np.pad(x.astype(np.float64), 1)
    for _ in range(steps):
        found[1:-1, 1:-1] = (found[:-2, 1:-1] + found[2:, 1:-1] + found[1:-1, :-2] + found[1:-1, 2:]) / 4
    return found[1:-1, 1:-1]


@kb.benchmark(footprint=lambda p: 2 * p.dtype.nbytes * p.rows * p.width)
def stencil(
    rng: np.random.Generator,
    rows: Size = 128,
    width: Size = 128,
    steps: Annotated[int, Meta(ge=0)] = 4,
    pes: Size | None = None,
    dtype: kb.DType = kb.DType.F32,
) -> kb.Call:
    """`steps` steps in f32 on a plate of `rows` x `width`. The rows are spread over `pes` PEs, by default over all."""
    x = kb.cast(rng.standard_normal((rows, width), np.float32), dtype)
    return kb.call(
        kernel,
        x,
        kb.empty((rows, width), dtype),
        steps,
        chosen=lambda host: bands(host, rows, pes),
        reference=lambda x: plate(x, steps),
        flops=4 * steps * rows * width,
    )
