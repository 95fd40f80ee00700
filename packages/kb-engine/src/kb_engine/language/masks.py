"""Masks of loads and stores: they choose the rectangle that is moved of all elements that the kernel asked for."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kb_engine.program.arguments import describe, in_tcm
from kb_engine.program.handles import Handle
from kb_engine.program.known import Known
from kb_engine.program.known_masks import IndexBox
from kb_engine.program.tensors import TensorRef
from kb_messages import DType, KernelError


class MaskedAccess(NamedTuple):
    """A load or store of `rows x cols` elements that moves only the rectangle at rows *down* and columns *along*.

    `ref` is where the moved elements lie in memory.
    """

    ref: TensorRef
    rows: int
    cols: int
    down: slice
    along: slice

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements in each dimension, moved or not."""
        return (self.cols,) if len(self.ref.tensor.shape) == 1 else (self.rows, self.cols)

    @property
    def is_whole(self) -> bool:
        """Whether all elements are moved."""
        return (self.down, self.along) == (slice(0, self.rows), slice(0, self.cols))


def masked_access(ref: TensorRef, mask: object, line: str) -> MaskedAccess:
    """The access to *ref* under *mask*, which broadcasts to the shape that the kernel asked for; None moves all.

    Raises KernelError for a mask that is pending, has another shape, has gaps, or reaches beyond the tensor's edge.
    """
    there = ref.row_slice.stop - ref.row_slice.start, ref.col_slice.stop - ref.col_slice.start
    if mask is None:
        return MaskedAccess(ref, *there, slice(0, there[0]), slice(0, there[1]))
    rows, cols = ref.asked_shape
    down, along = _rectangle(_matrix(mask, ref, line), ref, line)
    if down.stop > there[0] or along.stop > there[1]:
        got = f"a mask that includes element ({down.stop - 1}, {along.stop - 1}) of {ref}, {there[0]} x {there[1]}"
        raise KernelError(line, got, "one that excludes what is beyond the tensor's edge")
    return MaskedAccess(ref.part(down, along), rows, cols, down, along)


def padded(data: npt.NDArray[Any], access: MaskedAccess, element: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The `rows x cols` elements of *access*, read-only: *data* where they are moved, *element* elsewhere."""
    whole = np.full((access.rows, access.cols), element, dtype=element.dtype)
    whole[access.down, access.along] = data
    whole.flags.writeable = False
    return whole


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


def _matrix(mask: object, ref: TensorRef, line: str) -> Known:
    """The mask, broadcast to what the kernel asked for."""
    if isinstance(mask, Handle):
        in_tcm(mask, line)
        mask = Known(mask.look("use as a mask"), lambda: line)
    if not isinstance(mask, Known):
        raise KernelError(
            line, f"mask = {describe(mask)}", "a comparison of what tl.arange gives or of loaded integers"
        )
    if not mask.is_mask:
        raise KernelError(line, f"a mask of {mask}", "booleans", "compare it")
    rows, cols = ref.asked_shape
    shape = (cols,) if len(ref.tensor.shape) == 1 else (rows, cols)
    try:
        return mask.broadcast_to(shape)
    except ValueError:
        sizes = [" x ".join(map(str, each)) for each in (mask.shape, shape)]
        raise KernelError(line, f"a mask of {sizes[0]} for {sizes[1]} of {ref}", "a shape that broadcasts") from None


def _rectangle(mask: Known, ref: TensorRef, line: str) -> tuple[slice, slice]:
    """The rows and columns that *mask* chooses."""
    if isinstance(mask.form, IndexBox):
        if not mask.form.is_empty:
            down, along = ((0, 1), *mask.form.intervals)[-2:]
            return slice(*down), slice(*along)
        chosen = np.zeros((1, 1), np.bool_)
    else:
        chosen = mask.data.reshape(ref.asked_shape)
    return _rectangle_of_data(chosen, ref, line)


def _rectangle_of_data(mask: npt.NDArray[np.bool_], ref: TensorRef, line: str) -> tuple[slice, slice]:
    """The rows and columns that *mask* chooses."""
    down, along = (np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0))
    if not len(down):
        raise KernelError(line, f"a mask that excludes all of {ref}", "one element at least", "leave the call out")
    rows, cols = slice(int(down[0]), int(down[-1]) + 1), slice(int(along[0]), int(along[-1]) + 1)
    if not mask[rows, cols].all():
        fix = "move the rectangles it is made of one by one"
        raise KernelError(line, f"a mask with gaps for {ref}", "adjacent rows, and adjacent columns", fix)
    return rows, cols
