"""Values in TCM with their axes in another order: `tl.store` lays them out, and nothing else takes them."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

import numpy.typing as npt

from kb_engine.program.handles import Handle
from kb_messages import DType, KernelError

_FIX = "tl.store it and tl.load it"


class Permuted:
    """*of* with its axes in *order*: axis i is axis `order[i]` of *of*."""

    __slots__ = ("of", "order")

    def __init__(self, of: Handle, order: tuple[int, ...]) -> None:
        self.of = of
        self.order = order

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements in each dimension."""
        return tuple(self.of.shape[axis] for axis in self.order)

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.of.dtype

    @property
    def data(self) -> npt.NDArray[Any]:
        """The elements, read-only. Raises KernelError while they are pending."""
        return self.of.data.transpose(self.order)

    @property
    def inverse(self) -> tuple[int, ...]:
        """The order in which the axes of this are those of `of`."""
        return tuple(self.order.index(axis) for axis in range(len(self.order)))

    def _refuse(self, *_: Any) -> NoReturn:
        raise KernelError("a Permuted", "an operator on permuted axes", "axes as they are stored", _FIX)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __neg__ = _refuse
    __matmul__ = __rmatmul__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _refuse
    __hash__: ClassVar[Any] = object.__hash__
