"""Accesses: the elements that a reference and a mask choose for a load or store, and the pieces that they make.

A piece is a largest rectangle of memory that is a rectangle in the tile as well.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kb_dataexec.log.compressed import addresses_of
from kb_engine.program.values.affine import Affine, IndexBox, merged_axes, places_before, sides_of, where_not_negative
from kb_engine.program.values.host_values import HostValue
from kb_engine.program.values.indexing import Indices, Integers, rows_and_columns, spread_out
from kb_engine.program.values.tensors import Tensor, TensorRef
from kb_messages import KernelError, Matrix

Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]


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


class ElementAccess(NamedTuple):
    """The elements of a tensor that a load or store moves, of the `shape` elements that the kernel asked for.

    For every moved element, `row` and `col` are its row and column in the tensor, and `place` is its number among the
    elements asked for, row by row: affine integers, or arrays of one axis. `chosen` is the mask of the moved elements.
    """

    ref: TensorRef
    shape: tuple[int, ...]
    row: Integers
    col: Integers
    place: Integers
    chosen: IndexBox | _Bools

    @property
    def is_empty(self) -> bool:
        """Whether no element is moved."""
        return self.chosen.is_empty if isinstance(self.chosen, IndexBox) else not self.chosen.any()

    def left_out(self) -> list[TilePiece]:
        """The places of a tile that no element moves to. Their addresses have no meaning."""
        if isinstance(self.chosen, IndexBox):
            return [] if self.chosen.is_everywhere else places_left_out(self.chosen.data())
        return places_left_out(self.chosen)


def access_of(ref: TensorRef, mask: HostValue | None, line: str) -> ElementAccess:
    """The elements of *ref* that *mask*, of its shape, chooses; with None, all elements inside the tensor.

    Raises KernelError for an element beyond the tensor, or beyond the slice that *ref* was made from.
    """
    indices = ref.every_index()
    shape = indices.inside if mask is None else indices.shape
    if mask is not None and not isinstance(mask.form, IndexBox):
        chosen: IndexBox | _Bools = mask.data
    else:
        chosen = IndexBox.everywhere(shape) if mask is None else mask.form  # type: ignore[assignment]  # a box
    if isinstance(chosen, IndexBox) and chosen.is_empty:
        nothing = np.empty(0, np.int64)
        return ElementAccess(ref, shape, nothing, nothing, nothing, chosen)
    dimensions, place = _moved(indices, shape, chosen)
    _check_inside(ref, dimensions, indices, line)
    moved = place.shape
    row, col = rows_and_columns(dimensions, ref.tensor.shape, moved)
    return ElementAccess(ref, shape, row, col, place, chosen)


def _moved(indices: Indices, shape: tuple[int, ...], chosen: IndexBox | _Bools) -> tuple[list[Integers], Integers]:
    """The indices in each dimension, and the numbers, of the chosen elements."""
    place = Affine(shape, 0, tuple(n * (size > 1) for n, size in zip(places_before(shape), shape, strict=True)))
    cut = tuple(slice(n) for n in shape)
    inside = [each.at(cut) if isinstance(each, Affine) and each.shape != shape else each for each in indices.dimensions]
    if isinstance(chosen, IndexBox) and all(isinstance(each, Affine) for each in inside):
        if chosen.is_everywhere:
            return inside, place  # type: ignore[return-value]  # nothing is empty
        key = tuple(slice(*interval) for interval in chosen.intervals)
        found = [each.at(key) for each in (*inside, place)]  # type: ignore[union-attr]  # nothing is empty
        return found[:-1], found[-1]  # type: ignore[return-value]
    numbers = np.flatnonzero(chosen.data() if isinstance(chosen, IndexBox) else chosen)
    arrays = [
        np.broadcast_to(spread_out(each), shape).reshape(-1)[numbers]  # type: ignore[arg-type]
        for each in inside
    ]
    return arrays, numbers  # type: ignore[return-value]


def _check_inside(ref: TensorRef, dimensions: list[Integers], indices: Indices, line: str) -> None:
    """Raises KernelError for an index beyond its limits."""
    for number, (each, (start, end)) in enumerate(zip(dimensions, indices.limits, strict=True)):
        if isinstance(each, np.ndarray):
            if not len(each) or (start <= each.min() and each.max() < end):
                continue
            at = int(np.argmax((each < start) | (each >= end)))
            element = [int(array[at]) for array in dimensions if isinstance(array, np.ndarray)]
        else:
            if start <= each.low and each.high < end:
                continue
            element = _extreme(dimensions, each, each.low < start)
        tensor = ref.tensor
        offset = sum(i * n for i, n in zip(element, places_before(tensor.shape), strict=True)) * tensor.dtype.nbytes
        got = f"index {element[number]} in dimension {number} of {tensor.name}, {offset} bytes from its start"
        raise KernelError(line, got, f"{start} to {end - 1}", "leave it out by a mask, or correct the index")


def _extreme(dimensions: list[Any], beyond: Affine, is_low: bool) -> list[int]:
    """The indices of the element at which *beyond* is lowest or highest."""
    at = [(n - 1) * ((step < 0) == is_low) * (step != 0) for n, step in zip(beyond.shape, beyond.steps, strict=True)]
    return [each.base + sum(i * step for i, step in zip(at, each.steps, strict=True)) for each in dimensions]


def pieces_of(access: ElementAccess, copy: int, is_store: bool) -> list[TilePiece]:
    """The pieces of *access*, to a copy of the tensor, at virtual addresses if the tensor has them.

    The pieces of a store share no byte: of several elements for one place, the last alone is moved.
    """
    tensor, nbytes = access.ref.tensor, access.ref.tensor.dtype.nbytes
    if isinstance(access.row, Affine) and isinstance(access.col, Affine) and isinstance(access.place, Affine):
        found = _affine_in_blocks(tensor, copy, (access.row, access.col, access.place))
        if found is not None and not (is_store and not all(is_one_to_one(each, nbytes) for each, _ in found)):
            return [piece for address, place in found for piece in pieces_of_affine(address, place, nbytes)]
    row, col, place = (
        np.broadcast_to(spread_out(each), access.place.shape).reshape(-1)
        for each in (access.row, access.col, access.place)
    )
    address, block = _addresses(tensor, copy, row, col)
    if is_store:
        last = last_of_each(address)
        address, place, block = address[last], place[last], block[last]
    return pieces_of_elements(address, place, block, nbytes, may_repeat=not is_store)


def _affine_in_blocks(
    tensor: Tensor, copy: int, elements: tuple[Affine, Affine, Affine]
) -> list[tuple[Affine, Affine]] | None:
    """The addresses and the numbers of the elements in each block of the tensor; None where the elements are no box.

    *elements* are their rows, columns and numbers.
    """
    row, col, _ = elements
    downs, alongs = _blocks(tensor.row_bounds, row), _blocks(tensor.col_bounds, col)
    found = []
    for i, j in product(downs, alongs):
        is_only = len(downs) * len(alongs) == 1
        box = IndexBox.everywhere(row.shape) if is_only else _inside_block(row, col, (i, j), tensor)
        if box is None:
            return None
        key = tuple(slice(*interval) for interval in box.intervals)
        mine = [each.at(key) for each in elements] if not box.is_empty else []
        rows, cols, places = mine or (None, None, None)
        if rows is None or cols is None or places is None:
            continue
        block = _block(tensor, i, j, copy)
        base = block.address - tensor.row_bounds[i] * block.stride - tensor.col_bounds[j] * tensor.dtype.nbytes
        address = rows.times(block.stride).plus(cols.times(tensor.dtype.nbytes))
        found.append((address.plus(Affine.constant(base, address.shape)), places))
    return found


def _blocks(bounds: tuple[int, ...], integers: Affine) -> range:
    """The numbers of the blocks between *bounds* that *integers* reach."""
    return range(bisect_right(bounds, integers.low) - 1, bisect_right(bounds, integers.high))


def _inside_block(row: Affine, col: Affine, block: tuple[int, int], tensor: Tensor) -> IndexBox | None:
    """The mask of the rows and columns that lie in a block; None where that is no box."""
    box = IndexBox.everywhere(row.shape)
    for each, bounds, number in ((row, tensor.row_bounds, block[0]), (col, tensor.col_bounds, block[1])):
        start, end = bounds[number], bounds[number + 1]
        for integers in (
            each.plus(Affine.constant(-start, each.shape)),
            each.times(-1).plus(Affine.constant(end - 1, each.shape)),
        ):
            mask = where_not_negative(integers)
            if not isinstance(mask, IndexBox):
                return None
            box = box.within(mask)
    return box


def _block(tensor: Tensor, i: int, j: int, copy: int) -> Matrix:
    """A block, at its virtual address if the tensor has one."""
    block = tensor.block(i, j, copy)
    if not tensor.virtual:
        return block
    return Matrix.packed(block.rows, block.cols, block.dtype, tensor.virtual[copy][i][j])


def _addresses(tensor: Tensor, copy: int, row: Any, col: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The address of each element, and the number of its block."""
    rows, cols = np.array(tensor.row_bounds), np.array(tensor.col_bounds)
    i, j = (np.searchsorted(bounds, at, side="right") - 1 for bounds, at in ((rows, row), (cols, col)))
    base = addresses_of(
        tensor.virtual[copy] if tensor.virtual else tensor.copies[copy - 1] if copy else tensor.addresses
    )
    within = (row - rows[i]) * (cols[j + 1] - cols[j]) + col - cols[j]
    return base[i, j] + within * tensor.dtype.nbytes, i * (len(cols) - 1) + j


def flat_rectangle(ref: TensorRef, burst_nbytes: int) -> Matrix | None:
    """The matrix of all elements of *ref*, if they are affine indices of a flat tensor in one block, and one rectangle.

    The tile holds the rectangle row by row. None for anything else, for an index beyond the tensor, and for several
    rows that are no whole bursts of *burst_nbytes*, which are moved in pieces. The loads of a loop differ in their
    first element alone, so the rest is cached.
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
    """The single piece of elements of *nbytes*, the first at 0, that is the tile row by row; None for several pieces.

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


def places_left_out(chosen: _Bools) -> list[TilePiece]:
    """The places of a tile that *chosen* leaves out. Their addresses have no meaning."""
    places = np.flatnonzero(~chosen)
    return pieces_of_elements(places, places, np.zeros_like(places), 1)


def _joined(address: Ints, place: Ints, length: Ints, fits: _Bools, nbytes: int) -> list[TilePiece]:
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


def last_of_each(address: Ints) -> _Bools:
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
