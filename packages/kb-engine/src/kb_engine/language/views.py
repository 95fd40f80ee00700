"""Views: the same bytes in another shape, and axes in another order. None of this moves a byte or takes time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from typing import Any, TypeAlias, TypeVar

from kb_engine.language.access.piece_transfers import permuted
from kb_engine.program.author.arguments import describe
from kb_engine.program.language_base import LanguageBase
from kb_engine.program.values.handles import Handle, LoadedTensor
from kb_engine.program.values.host_values import HostValue
from kb_engine.program.values.laid_out import LaidOutOperators
from kb_engine.program.values.permuted import Permuted
from kb_engine.program.values.tensors import TensorRef
from kb_engine.program.values.transposed import Transposed
from kb_messages import KernelError

ViewT = TypeVar("ViewT")
PermutedValue: TypeAlias = "Handle | Transposed[Handle] | Permuted | HostValue | TensorRef"


class ViewOps(LanguageBase):
    """`tl.reshape`, `tl.ravel`, `tl.expand_dims` and `tl.permute`, of values in TCM and of known integers and masks."""

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
        """*x* with an axis of length 1 more, which becomes number *axis*."""
        n_axes = len(getattr(x, "shape", ()))
        if not -n_axes - 1 <= axis <= n_axes:
            raise KernelError(self._port.line(), f"tl.expand_dims at axis {axis!r}", f"{-n_axes - 1} to {n_axes}")
        at = axis % (n_axes + 1)
        return self._view(x, "expand_dims", lambda value: value.reshape((*x.shape[:at], 1, *x.shape[at:])))

    def permute(self, x: Handle | HostValue | TensorRef, *order: Any) -> PermutedValue:
        """*x* with its axes in another *order*: axis i of the result is axis `order[i]` of *x*.

        A value in TCM stays where it is. `tl.dot` takes a matrix with exchanged axes, and `tl.store` any order: it
        moves the elements in pieces. Math of the result begins with an op that puts the elements in order, and so does
        a store of what is computed and has no place in TCM yet. A tensor in memory may be loaded in any order. Raises
        KernelError for an order that has not each axis once.
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
            raise KernelError(self._port.line(), f"tl.{call} of {describe(x)}", "a value in TCM, or known integers")
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
