"""Pieces of an access: the largest rectangles of memory that are rectangles in the tile as well."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kb_engine.program.values.affine import Affine, merged_axes

Ints = npt.NDArray[np.int64]


class TilePiece(NamedTuple):
    """`rows x cols` elements, rows `stride` bytes apart from `address` on.

    In the tile the first element is number `place`, and the rows are `pitch` elements apart.
    """

    address: int
    stride: int
    place: int
    pitch: int
    rows: int
    cols: int


def pieces_of_affine(address: Affine, place: Affine, nbytes: int) -> list[TilePiece]:
    """The pieces of elements of *nbytes* at the addresses *address*, with the numbers *place* in a tile.

    A row is along the axis on which both grow element by element. The rows of a piece are along one of the other axes:
    one on which the address does not change, so that a row is read once for all its places, else the longest. For each
    index of the remaining axes there is a piece, in the order of the elements.
    """
    axes = merged_axes(address.shape, (address.steps, place.steps))
    along = next((axis for axis in axes if axis[1] == (nbytes, 1)), None)
    cols = 1
    if along is not None:
        axes.remove(along)
        cols = along[0]
    downs = [axis for axis in axes if axis[1][0] >= 0 and axis[1][1] > 0]
    down = max(downs, key=lambda axis: (axis[1][0] == 0, axis[0]), default=(1, (cols * nbytes, cols)))
    if downs:
        axes.remove(down)
    rows, (stride, pitch) = down
    found = []
    for indices in product(*(range(n) for n, _ in axes)):
        at = sum(index * step for index, (_, (step, _)) in zip(indices, axes, strict=True))
        number = sum(index * step for index, (_, (_, step)) in zip(indices, axes, strict=True))
        found.append(TilePiece(address.base + at, stride, place.base + number, pitch, rows, cols))
    return found


def pieces_of_elements(
    address: Ints, place: Ints, block: Ints, nbytes: int, may_repeat: bool = True
) -> list[TilePiece]:
    """The pieces of elements at any addresses, in the order of their numbers *place*, which ascend.

    Adjacent elements of one *block* with adjacent numbers make a run. Equal runs at equal distances are the rows of a
    piece; with *may_repeat* the distance may be 0, and runs may overlap.
    """
    if not len(address):
        return []
    breaks = (np.diff(address) != nbytes) | (np.diff(place) != 1) | (np.diff(block) != 0)
    first = np.concatenate(([0], np.flatnonzero(breaks) + 1))
    length = np.diff(np.concatenate((first, [len(address)])))
    least = 0 if may_repeat else length[:-1] * nbytes
    fits = (np.diff(address[first]) >= least) & (np.diff(length) == 0) & (np.diff(block[first]) == 0)
    return _joined(address[first], place[first], length, fits, nbytes)


def places_left_out(chosen: npt.NDArray[np.bool_]) -> list[TilePiece]:
    """The places of a tile that *chosen* leaves out. Their addresses have no meaning."""
    places = np.flatnonzero(~chosen)
    return pieces_of_elements(places, places, np.zeros_like(places), 1)


def _joined(address: Ints, place: Ints, length: Ints, fits: npt.NDArray[np.bool_], nbytes: int) -> list[TilePiece]:
    """Joins each run with the runs behind it that are at equal distances, where *fits* allows it."""
    stride, pitch = np.diff(address), np.diff(place)
    goes_on = fits[1:] & fits[:-1] & (stride[1:] == stride[:-1]) & (pitch[1:] == pitch[:-1])
    last = np.arange(len(fits))  # of each link between two runs, the last link of its row of equal ones
    ends = np.flatnonzero(~np.concatenate((goes_on, [False])))
    if len(ends):
        last = ends[np.searchsorted(ends, last)]
    links = list(zip(fits.tolist(), last.tolist(), stride.tolist(), pitch.tolist(), strict=True))
    found, run, runs = list[TilePiece](), 0, list(zip(address.tolist(), place.tolist(), length.tolist(), strict=True))
    while run < len(runs):
        at, number, cols = runs[run]
        if run < len(links) and links[run][0]:
            _, end, step, apart = links[run]
            found.append(TilePiece(at, step, number, apart, end - run + 2, cols))
            run = end + 2
        else:
            found.append(TilePiece(at, cols * nbytes, number, cols, 1, cols))
            run += 1
    return found


def last_of_each(address: Ints) -> npt.NDArray[np.bool_]:
    """Marks the last element at each address."""
    _, at = np.unique(address[::-1], return_index=True)
    marks = np.zeros(len(address), np.bool_)
    marks[len(address) - 1 - at] = True
    return marks


def is_one_to_one(address: Affine, nbytes: int) -> bool:
    """Whether no two elements share a byte: each step is larger than the reach of all smaller steps."""
    reach = nbytes
    for step, n in sorted((abs(step), n) for n, step in zip(address.shape, address.steps, strict=True) if n > 1):
        if step < reach:
            return False
        reach += step * (n - 1)
    return True
