"""Masks of loads and stores: they choose the moved elements among all that the kernel asked for."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kb_engine.language.access.accesses import ElementAccess, access_of
from kb_engine.memory.tiles import TilePart
from kb_engine.program.author.arguments import describe, in_tcm
from kb_engine.program.values.affine import Affine, IndexBox, sides_of
from kb_engine.program.values.handles import Handle
from kb_engine.program.values.host_values import HostValue
from kb_engine.program.values.indexing import spans
from kb_engine.program.values.symbols import plain
from kb_engine.program.values.tensors import TensorRef
from kb_messages import DType, KernelError, Matrix


class MaskedAccess(NamedTuple):
    """A load or store of `rows x cols` elements that moves only the rectangle at rows *down* and columns *along*.

    `ref` is the reference to the moved elements in memory, and `shape` the elements in each dimension, moved or not. A
    column that is a vector has one dimension, and its rows.
    """

    ref: TensorRef
    rows: int
    cols: int
    down: slice
    along: slice
    shape: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        """Whether all elements are moved."""
        return (self.down, self.along) == (slice(0, self.rows), slice(0, self.cols))

    def tile(self, lies: Matrix) -> Matrix:
        """The bytes of *lies*, which are packed, as `rows x cols` elements."""
        if lies.rows == self.rows:
            return lies
        return Matrix.packed(self.rows, self.cols, lies.dtype, lies.address)

    @property
    def part(self) -> TilePart:
        """The moved elements among all."""
        start = plain(self.down.start) * self.cols + plain(self.along.start)
        rows, cols = (plain(each.stop - each.start) for each in (self.down, self.along))
        return TilePart(start, self.cols, rows, cols)


def access_under(ref: TensorRef, mask: HostValue | None, line: str) -> MaskedAccess | ElementAccess:
    """The access to *ref* under *mask*, a result of `mask_of`; None moves all elements.

    Returns an `ElementAccess` where the moved elements are no rectangle in one block of the tensor, or are none at all.
    Raises KernelError for a mask that reaches beyond the tensor's edge.
    """
    if ref.indices is not None:
        access = access_of(ref, mask, line)
        return _rectangle_of(ref, access) or access
    return _of_slices(ref, mask, line) or access_of(ref, mask, line)


def _of_slices(ref: TensorRef, mask: HostValue | None, line: str) -> MaskedAccess | None:
    """The access to a rectangle; None for moved elements that are no rectangle in one block."""
    there = ref.row_slice.stop - ref.row_slice.start, ref.col_slice.stop - ref.col_slice.start
    if mask is None:
        whole = slice(0, there[0]), slice(0, there[1])
        return MaskedAccess(ref, *there, *whole, ref.shape) if ref.is_in_one_block else None
    rows, cols = ref.asked_shape
    found = _rectangle(mask[:, None] if ref.is_column else mask, (rows, cols))
    if found is None:
        return None
    down, along = found
    if down.stop > there[0] or along.stop > there[1]:
        got = f"a mask that includes element ({down.stop - 1}, {along.stop - 1}) of {ref}, {there[0]} x {there[1]}"
        raise KernelError(line, got, "one that excludes elements beyond the tensor's edge")
    down, along = (slice(each.start, each.start + plain(each.stop - each.start)) for each in (down, along))
    part = ref.part(down, along)
    return MaskedAccess(part, rows, cols, down, along, mask.shape) if part.is_in_one_block else None


def _rectangle_of(ref: TensorRef, access: ElementAccess) -> MaskedAccess | None:
    """*access* as an access to a rectangle; None where its elements are no rectangle in one block."""
    row, col, place = access.row, access.col, access.place
    if not (isinstance(row, Affine) and isinstance(col, Affine) and isinstance(place, Affine)):
        return None
    found = spans(row, col, place)
    rows, cols = sides_of(access.shape)
    if found is None or (found[2] != cols and found[0][1] - found[0][0] > 1):
        return None
    part = TensorRef(ref.tensor, *found[:2], ref.copy)
    top, left = (plain(each) for each in divmod(place.base, cols))
    down = slice(top, top + found[0][1] - found[0][0])
    along = slice(left, left + found[1][1] - found[1][0])
    if along.stop > cols or not part.is_in_one_block:
        return None
    return MaskedAccess(part, rows, cols, down, along, access.shape)


def constant(value: object, dtype: DType, line: str) -> npt.NDArray[Any]:
    """*value* as a 1 x 1 array of *dtype*, rounded if *dtype* is a float.

    Raises KernelError for anything but a number, and for a number that an integer *dtype* cannot hold exactly.
    """
    from kb_dataexec import cast

    if not isinstance(value, (int, float)):
        raise KernelError(line, f"other = {describe(value)}", "a number")
    if dtype.is_float:
        return cast(np.array([[float(value)]]), dtype)
    if not (isinstance(value, int) and -(1 << 63) <= value < 1 << 64):
        raise KernelError(line, f"other={value!r} for {dtype}", "a number of that type")
    element = cast(np.array([[value]]), dtype)
    if element.item() != value:
        raise KernelError(line, f"other={value!r} for {dtype}", "a number of that type")
    return element


def constants(values: npt.NDArray[Any], dtype: DType, line: str) -> npt.NDArray[Any]:
    """The integers or booleans *values* as *dtype*, rounded if *dtype* is a float.

    Raises KernelError for a number that an integer *dtype* cannot represent.
    """
    from kb_dataexec import cast

    found = cast(values, dtype)
    if not dtype.is_float and (found != values).any():
        bad = values[found != values].flat[0]
        raise KernelError(line, f"{bad} as {dtype}", "a number of that type")
    return found


def mask_of(mask: object, ref: TensorRef, line: str) -> HostValue | None:
    """*mask*, broadcast to the shape that the kernel asked for; None for None.

    Raises KernelError for a mask that is pending, has no booleans, or has another shape.
    """
    if mask is None:
        return None
    if isinstance(mask, Handle):
        in_tcm(mask, line)
        mask = HostValue(mask.look("use as a mask"), lambda: line)
    if not isinstance(mask, HostValue):
        raise KernelError(line, f"mask = {describe(mask)}", "a comparison of integers, from tl.arange or loaded")
    if not mask.is_mask:
        raise KernelError(line, f"a mask of {mask}", "booleans", "compare it")
    shape = ref.asked_dimensions
    try:
        return mask.broadcast_to(shape)
    except ValueError:
        sizes = [" x ".join(map(str, each)) for each in (mask.shape, shape)]
        raise KernelError(line, f"a mask of {sizes[0]} for {sizes[1]} of {ref}", "a shape that broadcasts") from None


def _rectangle(mask: HostValue, sides: tuple[int, int]) -> tuple[slice, slice] | None:
    """The rows and columns that *mask* chooses of a tile with *sides*; None for no element, and for gaps."""
    if isinstance(mask.form, IndexBox):
        down, along = ((0, 1), *mask.form.intervals)[-2:]
        return None if mask.form.is_empty else (slice(*down), slice(*along))
    data = mask.data.reshape(sides)
    vertical, horizontal = (np.flatnonzero(data.any(axis=axis)) for axis in (1, 0))
    if not len(vertical):
        return None
    rows = slice(int(vertical[0]), int(vertical[-1]) + 1)
    cols = slice(int(horizontal[0]), int(horizontal[-1]) + 1)
    return (rows, cols) if data[rows, cols].all() else None
