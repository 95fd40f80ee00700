"""Transposed operands, `x.T` and `tl.trans(x)`, and operators of values whose elements do not lie in their order.

The bytes stay as they are stored. A GEMM reads them transposed; a vector program puts the elements in order first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Generic, NoReturn, Protocol, TypeVar

from kb_messages import DType, KernelError

NEEDS = "one as it is stored: only a and b of tl.dot and of tl.composite('gemm') may be transposed"
SWAP = "compute the result the other way round: (a @ b).T is b.T @ a.T"


class Transposable(Protocol):
    """A reference to a tensor in memory, or a handle of data in TCM."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements in each dimension."""

    @property
    def dtype(self) -> DType:
        """Element type."""


StoredT = TypeVar("StoredT", bound=Transposable, covariant=True)


class Transposed(Generic[StoredT]):
    """A matrix with rows and columns exchanged, for `tl.dot` and `tl.composite("gemm", ...)` alone.

    `of` is the matrix as it is stored. Raises KernelError for a vector.
    """

    __slots__ = ("of",)

    def __init__(self, of: StoredT) -> None:
        self.of = of
        if len(of.shape) != 2:
            got, fix = "the transpose of a tensor of one dimension", "give the tensor the shape (1, n)"
            raise KernelError(str(self), got, "two dimensions", fix)

    def __str__(self) -> str:
        return f"the .T of a {type(self.of).__name__}"

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns after the exchange."""
        rows, cols = self.of.shape
        return cols, rows

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.of.dtype

    @property
    def T(self) -> StoredT:
        """The matrix as it is stored."""
        return self.of

    def _refuse(self, *_: Any) -> NoReturn:
        raise KernelError(f"a {type(self).__name__}", "an operator on a transposed tensor", NEEDS)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __neg__ = _refuse
    __matmul__ = __rmatmul__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _refuse
    __hash__: ClassVar[Any] = object.__hash__


def refuse(value: object, got: str, line: str, fix: str = "") -> None:
    """Raises KernelError, `<line>: got <got> a transposed tensor`, if *value* is transposed."""
    if isinstance(value, Transposed):
        raise KernelError(line, f"{got} a transposed tensor", NEEDS, fix)


def _operator(name: str) -> Callable[..., Any]:
    return lambda self, *others: getattr(self.laid_out(), name)(*others)


class LaidOutOperators:
    """The operators of a `Handle`, applied to the value of `laid_out`."""

    __slots__ = ()

    def laid_out(self) -> Any:
        """Returns a value of its own, whose elements lie in their order. It is computed where it is needed."""
        raise NotImplementedError

    def to(self, dtype: Any) -> Any:
        """The elements as *dtype*."""
        return self.laid_out().to(dtype)

    def reshape(self, *shape: Any) -> Any:
        """The elements, in their order, in another shape."""
        return self.laid_out().reshape(*shape)

    def ravel(self) -> Any:
        """The elements, in their order, as a vector."""
        return self.laid_out().ravel()

    __add__, __radd__ = _operator("__add__"), _operator("__radd__")
    __sub__, __rsub__ = _operator("__sub__"), _operator("__rsub__")
    __mul__, __rmul__ = _operator("__mul__"), _operator("__rmul__")
    __truediv__, __rtruediv__ = _operator("__truediv__"), _operator("__rtruediv__")
    __floordiv__, __rfloordiv__ = _operator("__floordiv__"), _operator("__rfloordiv__")
    __mod__, __rmod__ = _operator("__mod__"), _operator("__rmod__")
    __lshift__, __rlshift__ = _operator("__lshift__"), _operator("__rlshift__")
    __rshift__, __rrshift__ = _operator("__rshift__"), _operator("__rrshift__")
    __and__, __rand__ = _operator("__and__"), _operator("__rand__")
    __or__, __ror__ = _operator("__or__"), _operator("__ror__")
    __xor__, __rxor__ = _operator("__xor__"), _operator("__rxor__")
    __lt__, __le__ = _operator("__lt__"), _operator("__le__")
    __gt__, __ge__ = _operator("__gt__"), _operator("__ge__")
    __neg__, __invert__ = _operator("__neg__"), _operator("__invert__")
    __eq__, __ne__ = _operator("__eq__"), _operator("__ne__")
    __hash__: ClassVar[Any] = object.__hash__
