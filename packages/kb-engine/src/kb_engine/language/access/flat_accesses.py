"""Accesses to flat tensors that are one rectangle: found by the shape and the steps of the indices alone.

The loads of a loop differ in where they begin. What they have in common is computed once.
"""

from __future__ import annotations

from functools import lru_cache

from kb_engine.language.access.element_pieces import TilePiece, pieces_of_affine
from kb_engine.program.values.affine import Affine, places_before, sides_of
from kb_engine.program.values.tensors import TensorRef
from kb_messages import Matrix


def flat_rectangle(ref: TensorRef, burst_nbytes: int) -> Matrix | None:
    """Where all elements of *ref* lie, if they are affine indices of a flat tensor in one block, and one rectangle.

    A tile of them is the rectangle row by row. None for anything else, for an index beyond the tensor, and for several
    rows that are no whole bursts of *burst_nbytes*, which are moved in pieces.
    """
    indices, tensor = ref.indices, ref.tensor
    if indices is None or len(indices.dimensions) != 1 or len(tensor.col_bounds) != 2:
        return None
    along, shape = indices.dimensions[0], indices.shape
    if type(along) is not Affine or tensor.copies or tensor.virtual or not along.shape == shape == indices.inside:
        return None
    dtype = tensor.dtype
    found = _rectangle(shape, along.steps, dtype.nbytes)
    (start, end), base = indices.limits[0], along.base
    if found is None or base < start or base + found.place >= end:
        return None
    block = tensor.block(0, 0)
    address, stride = block.address + base * dtype.nbytes, found.stride
    if sides_of(shape)[0] == 1:
        stride = block.stride
    elif address % burst_nbytes or found.cols * dtype.nbytes % burst_nbytes or stride % burst_nbytes:
        return None
    return Matrix(address=address, rows=found.rows, cols=found.cols, stride=stride, dtype=dtype)


@lru_cache(maxsize=4096)
def _rectangle(shape: tuple[int, ...], steps: tuple[int, ...], nbytes: int) -> TilePiece | None:
    """The one piece of elements of *nbytes*, the first at 0, that is the tile row by row; None where there is none.

    Its `place` is the number of elements from the first to the last.
    """
    place = Affine(shape, 0, tuple(n * (size > 1) for n, size in zip(places_before(shape), shape, strict=True)))
    address = Affine(shape, 0, steps).times(nbytes)
    pieces = pieces_of_affine(address, place, nbytes)
    only = pieces[0]
    rows, cols = only.rows, only.cols
    if len(pieces) > 1 or only.pitch != cols or only.stride < cols * nbytes:
        return None
    if sides_of(shape)[0] == 1 and rows > 1:
        return None
    return only._replace(place=address.high // nbytes)
