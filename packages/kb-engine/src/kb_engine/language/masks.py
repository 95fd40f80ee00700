"""Masks of loads and stores: which rectangle of the elements a reference asks for is there to be moved."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kb_engine.language.concrete import Concrete
from kb_engine.program.handles import Handle
from kb_engine.program.issue import describe, in_tcm
from kb_engine.program.tensors import TensorRef
from kb_messages import DType, KernelError


class Window(NamedTuple):
    """What a load or a store is about: `rows x cols` elements, of which those at *down* and *along* are moved.

    `ref` is where in memory they are.
    """

    ref: TensorRef
    rows: int
    cols: int
    down: slice
    along: slice

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements in each dimension, those left out too."""
        return (self.cols,) if len(self.ref.tensor.shape) == 1 else (self.rows, self.cols)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left out."""
        return (self.down, self.along) == (slice(0, self.rows), slice(0, self.cols))


def window(ref: TensorRef, mask: object, line: str) -> Window:
    """What of *ref* an access with *mask* is about; without one, all there is of it.

    Raises KernelError for a mask that is not known yet, has another shape, chooses no rectangle, or one that reaches
    beyond the tensor's edge.
    """
    there = ref.row_slice.stop - ref.row_slice.start, ref.col_slice.stop - ref.col_slice.start
    if mask is None:
        return Window(ref, *there, slice(0, there[0]), slice(0, there[1]))
    rows, cols = ref.asked_shape
    down, along = _rectangle(_matrix(mask, ref, line), ref, line)
    if down.stop > there[0] or along.stop > there[1]:
        got = f"a mask that includes element ({down.stop - 1}, {along.stop - 1}) of {ref}, {there[0]} x {there[1]}"
        raise KernelError(line, got, "one that excludes what is beyond the tensor's edge")
    return Window(ref.part(down, along), rows, cols, down, along)


def padded(data: npt.NDArray[Any], part: Window, element: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """All elements of *part*, read-only: *data* where they are moved, *element* elsewhere."""
    whole = np.full((part.rows, part.cols), element, dtype=element.dtype)
    whole[part.down, part.along] = data
    whole.flags.writeable = False
    return whole


def constant(value: object, dtype: DType, line: str) -> npt.NDArray[Any]:
    """*value* as a 1 x 1 array of *dtype*. Raises KernelError where it is no number, or none of an integer type."""
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


def _matrix(mask: object, ref: TensorRef, line: str) -> npt.NDArray[np.bool_]:
    """The mask's elements, as many as *ref* asks for."""
    if isinstance(mask, Handle):
        in_tcm(mask, line)
        data = mask._concrete("use as a mask")
    elif isinstance(mask, Concrete):
        data = mask.data
    else:
        raise KernelError(
            line, f"mask = {describe(mask)}", "a comparison of what tl.arange gives or of loaded integers"
        )
    if data.dtype != np.bool_:
        raise KernelError(line, f"a mask of {data.dtype}", "booleans", "compare it")
    rows, cols = ref.asked_shape
    shape = (cols,) if len(ref.tensor.shape) == 1 else (rows, cols)
    try:
        return np.broadcast_to(data, shape).reshape(rows, cols)
    except ValueError:
        sizes = [" x ".join(map(str, each)) for each in (data.shape, shape)]
        raise KernelError(line, f"a mask of {sizes[0]} for {sizes[1]} of {ref}", "a shape that broadcasts") from None


def _rectangle(mask: npt.NDArray[np.bool_], ref: TensorRef, line: str) -> tuple[slice, slice]:
    """The rows and columns that *mask* chooses."""
    down, along = (np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0))
    if not len(down):
        raise KernelError(line, f"a mask that excludes all of {ref}", "one element at least", "leave the call out")
    rows, cols = slice(int(down[0]), int(down[-1]) + 1), slice(int(along[0]), int(along[-1]) + 1)
    if not mask[rows, cols].all():
        fix = "move the rectangles it is made of one by one"
        raise KernelError(line, f"a mask with gaps for {ref}", "adjacent rows, and adjacent columns", fix)
    return rows, cols
