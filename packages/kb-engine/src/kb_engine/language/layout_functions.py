"""Functions that put elements of values in another order, choose or count them, or read their bytes in another type.

Views are the same bytes in another shape. They move no byte and take no time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from kb_engine.language.access.piece_transfers import PieceTransfers, permuted
from kb_engine.language.call_rules import broadcast, promoted, steps_of
from kb_engine.program.author.arguments import describe, dtype_named
from kb_engine.program.language_base import LanguageBase
from kb_engine.program.values.handles import Handle, LoadedTensor, Permuted, TensorView
from kb_engine.program.values.host_values import HostValue
from kb_engine.program.values.tensors import TensorRef
from kb_engine.program.values.transposed import LaidOutOperators, Transposed
from kb_messages import DType, KernelError, MathAttributes

ViewT = TypeVar("ViewT")
PermutedValue: TypeAlias = "Handle | Transposed[Handle] | Permuted | HostValue | TensorRef"


class ViewOps(LanguageBase):
    """Views: `tl.reshape`, `tl.ravel`, `tl.expand_dims` and `tl.permute`, of values in TCM and of known integers and
    masks."""

    def reshape(self, x: Handle | HostValue, *shape: Any) -> LoadedTensor | HostValue:
        """*x* in another shape of as many elements, row by row; one length may be -1.

        Raises KernelError for anything else, and for a shape of another size.
        """
        sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        return self._view(x, "reshape", lambda value: value.reshape(sizes))

    def ravel(self, x: Handle | HostValue) -> LoadedTensor | HostValue:
        """*x* as a vector, row by row."""
        return self.reshape(x, -1)

    def expand_dims(self, x: Handle | HostValue, axis: int) -> LoadedTensor | HostValue:
        """*x* with a further axis of length 1, which becomes axis *axis*."""
        n_axes = len(getattr(x, "shape", ()))
        if not -n_axes - 1 <= axis <= n_axes:
            raise KernelError(self._port.line(), f"tl.expand_dims at axis {axis!r}", f"{-n_axes - 1} to {n_axes}")
        at = axis % (n_axes + 1)
        return self._view(x, "expand_dims", lambda value: value.reshape((*x.shape[:at], 1, *x.shape[at:])))

    def permute(self, x: Handle | HostValue | TensorRef, *order: Any) -> PermutedValue:
        """*x* with its axes in another *order*: axis i of the result is axis `order[i]` of *x*.

        A value in TCM stays where it is. `tl.dot` takes a matrix with exchanged axes, and `tl.store` any order: it
        moves the elements in pieces. Math of the result begins with an op that puts the elements in order, and so does
        a store of a computed value that has no place in TCM yet. A tensor in memory may be loaded in any order. Raises
        KernelError unless *order* has each axis once.
        """
        axes: Sequence[Any] = order[0] if len(order) == 1 and isinstance(order[0], (tuple, list)) else order
        if not isinstance(x, (Handle, HostValue, TensorRef)):
            raise KernelError(self._port.line(), f"tl.permute of {describe(x)}", "a tensor")
        n_axes = len(x.shape)
        try:
            wanted = tuple(index(axis) % n_axes for axis in axes)
        except (TypeError, ZeroDivisionError):
            wanted = ()
        if sorted(wanted) != list(range(n_axes)):
            raise KernelError(self._port.line(), f"tl.permute by {tuple(axes)}", f"each of the {n_axes} axes once")
        return _permuted(x, wanted)

    def _view(self, x: Any, call: str, make: Callable[[Handle | HostValue], ViewT]) -> ViewT:
        if isinstance(x, LaidOutOperators):
            x = x.laid_out()
        if not isinstance(x, (Handle, HostValue)):
            raise KernelError(
                self._port.line(),
                f"tl.{call} of {describe(x)}",
                "a value in TCM, or integers that are known while the kernel runs",
            )
        try:
            return make(x)
        except (TypeError, ValueError):
            sizes = " x ".join(map(str, x.shape))
            raise KernelError(self._port.line(), f"tl.{call} of {sizes}", "a shape of as many elements") from None


def _permuted(x: Handle | HostValue | TensorRef, order: tuple[int, ...]) -> PermutedValue:
    if isinstance(x, HostValue):
        return x.transposed(order)
    if isinstance(x, TensorRef):
        return permuted(x, order)
    if [axis for axis in order if x.shape[axis] > 1] == [axis for axis, n in enumerate(x.shape) if n > 1]:
        return x.reshape(tuple(x.shape[axis] for axis in order))
    return x.T if order == (1, 0) else Permuted(x, order)


class LayoutFunctions(PieceTransfers):
    """Functions whose results are values of their own. Nothing goes through memory, and a result is computed where it
    is needed.

    Values that do not fit the register file are processed block by block, with a command for each block. For `gather`,
    the rows to choose from have to fit. Raises KernelError for arguments that are not in TCM.
    """

    def sort(self, x: Handle, axis: int = -1, descending: bool = False) -> LoadedTensor:
        """The elements in ascending order along *axis*, or in *descending* order. NaN counts as larger than all others.

        Raises KernelError for an axis that *x* does not have.
        """
        return self._along("sort", x, axis, descending)

    def topk(self, x: Handle, k: int) -> LoadedTensor:
        """The *k* largest elements along the last axis, in descending order: the first elements of a sort.

        Raises KernelError unless the axis has *k* elements.
        """
        ordered = self.sort(x, -1, descending=True)
        given: object = k
        if not isinstance(given, int) or not 0 < given <= ordered.shape[-1]:
            raise KernelError(self._port.line(), f"tl.topk of {k!r}", f"a number from 1 to {ordered.shape[-1]}")
        shape = (*ordered.shape[:-1], k)
        return self._ordered("rearrange", [ordered], shape, steps_of(ordered.shape), shape)

    def flip(self, x: Handle | HostValue, axis: int = -1) -> LoadedTensor:
        """The elements in reverse order along *axis*. Raises KernelError for an axis that *x* does not have."""
        value = self._value(x, "flip")
        at = self._axis_of(value, axis, "flip")
        steps = steps_of(value.shape)
        first = (value.shape[at] - 1) * steps[at]
        strides = tuple(-step if number == at else step for number, step in enumerate(steps))
        return self._ordered("rearrange", [value], value.shape, strides, value.shape, first)

    def broadcast_to(self, x: Handle | HostValue, shape: Sequence[int]) -> LoadedTensor:
        """The elements repeated over *shape*, by numpy's rules. Raises KernelError where they do not broadcast."""
        value = self._value(x, "broadcast_to")
        sizes = tuple(shape)
        line = self._port.line()
        if broadcast([value.shape, sizes], "tl.broadcast_to", line) != sizes:
            listed = [" x ".join(map(str, each)) for each in (value.shape, sizes)]
            raise KernelError(line, f"tl.broadcast_to of {listed[0]} over {listed[1]}", "a shape that it broadcasts to")
        return self._ordered("rearrange", [value], sizes, _repeating(value.shape, sizes), sizes)

    def gather(self, x: Handle, index: Handle | HostValue, axis: int) -> LoadedTensor:
        """The elements of *x* at *index* along *axis*: `out[i, j] = x[i, index[i, j]]` for axis 1 of a matrix.

        *index* has integers, and the shape of the result: that of *x* apart from *axis*. The result is NaN, or 0 for
        integers, where a pending index is out of range. Raises KernelError for an index of floats or of another shape,
        for a known index out of range, and, with more than two dimensions, for an axis other than the last.
        """
        value, places = self._value(x, "gather"), self._value(index, "gather")
        at, line = self._axis_of(value, axis, "gather"), self._port.line()
        rest = [tuple(size for number, size in enumerate(each.shape) if number != at) for each in (value, places)]
        if places.dtype.is_float or len(places.shape) != len(value.shape) or rest[0] != rest[1]:
            got = " x ".join(map(str, places.shape))
            raise KernelError(
                line, f"tl.gather at {got} of {places.dtype}", "integers of the shape of x but for the axis"
            )
        if len(value.shape) > 2 and at != len(value.shape) - 1:
            raise KernelError(line, f"tl.gather along axis {axis}", f"the last axis, {len(value.shape) - 1}")
        if places.known is not None:
            self.leave("looks at the places of a gather")
        if places.known is not None and not ((places.known >= 0) & (places.known < value.shape[at])).all():
            got = f"tl.gather at {int(places.known.min())} to {int(places.known.max())}"
            raise KernelError(line, got, f"indices from 0 to {value.shape[at] - 1}")
        math = MathAttributes(op="gather", axis=at if len(value.shape) == 2 else 1)
        return self._laid(math, [places, value], places.shape, value.dtype)

    def histogram(self, x: Handle | HostValue, bins: int, mask: Handle | HostValue | None = None) -> LoadedTensor:
        """Counts the elements that are 0, 1, ... *bins* - 1; a vector of i32. Elements outside *mask* do not count.

        Raises KernelError for floats, and unless *bins* is positive.
        """
        value, line = self._value(x, "histogram"), self._port.line()
        given: object = bins
        if value.dtype.is_float or not isinstance(given, int) or given < 1:
            raise KernelError(
                line, f"tl.histogram of {value.dtype} in {bins!r} bins", "integers, and a positive number"
            )
        if mask is not None:
            value = self._call("where", [mask, value, bins])
        return self._laid(MathAttributes(op="histogram"), [value], (bins,), DType.I32)

    def join(self, x: Handle | HostValue, y: Handle | HostValue) -> LoadedTensor:
        """The elements of *x* and *y* side by side, along a new last axis of length 2. Their shapes broadcast."""
        shape, pair = self._pair(x, y, "join")
        return self._combined(pair, (*shape, 2))

    def interleave(self, x: Handle | HostValue, y: Handle | HostValue) -> LoadedTensor:
        """The elements of *x* and *y* in turn along the last axis, which is then twice as long."""
        shape, pair = self._pair(x, y, "interleave")
        return self._combined(pair, (*shape[:-1], 2 * shape[-1]))

    def cat(self, x: Handle | HostValue, y: Handle | HostValue, axis: int = 0) -> LoadedTensor:
        """The elements of *x*, followed along *axis* by the elements of *y*, which has the shape of *x* apart from axis
        0.

        Raises KernelError for other shapes.
        """
        values = [self._value(each, "cat") for each in (x, y)]
        at, shapes = self._axis_of(values[0], axis, "cat"), [each.shape for each in values]
        same = shapes[0] == shapes[1] or (at == 0 and len({each[1:] for each in shapes} | {shapes[0][1:]}) == 1)
        if not same or len(shapes[0]) != len(shapes[1]):
            listed = " and ".join(" x ".join(map(str, each)) for each in shapes)
            raise KernelError(
                self._port.line(), f"tl.cat of {listed} along axis {axis}", "equal shapes but along axis 0"
            )
        pair = self._alike(values)
        shape = tuple(shapes[0][n] + shapes[1][n] if n == at else size for n, size in enumerate(shapes[0]))
        if at == 0:
            return self._ordered("combine", pair, (int(np.prod(shape)),), (1,), shape)
        steps, size = steps_of(shapes[0]), int(np.prod(shapes[0]))
        lengths = (*shapes[0][:at], 2, *shapes[0][at:])
        return self._ordered("combine", pair, lengths, (*steps[:at], size, *steps[at:]), shape)

    def split(self, x: Handle | HostValue) -> tuple[LoadedTensor, LoadedTensor]:
        """The elements at 0 and the elements at 1 of the last axis, which has length 2 and is dropped. The inverse of
        `join`.

        Raises KernelError for another length.
        """
        value = self._value(x, "split")
        if value.shape[-1] != 2:
            sizes = " x ".join(map(str, value.shape))
            raise KernelError(self._port.line(), f"tl.split of {sizes}", "a last axis of length 2")
        shape = value.shape[:-1] or (1,)
        first, second = (self._ordered("rearrange", [value], (int(np.prod(shape)),), (2,), shape, at) for at in (0, 1))
        return first, second

    def bitcast(self, x: Handle | HostValue, dtype: DType | str) -> LoadedTensor:
        """The bytes of *x* as elements of *dtype*, which is as wide. The result of a value in TCM is a view, at no
        cost.

        Known elements stay known. Raises KernelError for a dtype of another width, and for bool.
        """
        line = self._port.line()
        value, wanted = self._value(x, "bitcast"), dtype_named(dtype, line)
        if wanted.nbytes != value.dtype.nbytes or DType.BOOL in (wanted, value.dtype):
            raise KernelError(line, f"tl.bitcast of {value.dtype} to {wanted}", "a dtype as wide, and not bool")
        if self._programs.recorded(value) is not None:
            return self._laid(MathAttributes(op="bitcast"), [value], value.shape, wanted)
        self._loaded(value, "bitcast", line)
        return TensorView(value, value.shape, wanted, _retyped(value.known, wanted))

    def _value(self, x: object, call: str) -> Handle:
        """*x* as a value. Raises KernelError for anything else."""
        if isinstance(x, HostValue):
            given = self._with_bytes(x)
            x = self._index(given, self._port.line()) if isinstance(given, HostValue) else given
        if isinstance(x, LaidOutOperators):
            x = x.laid_out()
        if not isinstance(x, Handle):
            raise KernelError(self._port.line(), f"tl.{call} of {describe(x)}", "a loaded or computed value")
        return x

    def _pair(self, x: object, y: object, call: str) -> tuple[tuple[int, ...], list[Handle]]:
        """The shape to which *x* and *y* broadcast, and both of them with this shape and one dtype."""
        values = [self._value(each, call) for each in (x, y)]
        shape = broadcast([each.shape for each in values], f"tl.{call}", self._port.line())
        return shape, self._alike([each if each.shape == shape else self.broadcast_to(each, shape) for each in values])

    def _alike(self, values: list[Handle]) -> list[Handle]:
        """*values*, converted to the dtype of a function of both."""
        dtype = promoted(values[0].dtype, values[1].dtype)
        return [each if each.dtype is dtype else self.convert(each, dtype) for each in values]

    def _combined(self, pair: list[Handle], shape: tuple[int, ...]) -> LoadedTensor:
        size = int(np.prod(pair[0].shape))
        return self._ordered("combine", pair, (size, 2), (1, size), shape)


def _repeating(shape: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The steps of a value of *shape* that is repeated over *sizes*: 0 along the repeated axes."""
    steps = [0 if size == 1 else step for size, step in zip(shape, steps_of(shape), strict=True)]
    return (*(0 for _ in range(len(sizes) - len(shape))), *steps)


def _retyped(known: npt.NDArray[Any] | None, dtype: DType) -> npt.NDArray[Any] | None:
    """The bytes of *known* as elements of *dtype*, read-only."""
    if known is None:
        return None
    from kb_dataexec import numpy_dtype

    found = np.array(known, order="C").view(numpy_dtype(dtype))
    found.flags.writeable = False
    return found
