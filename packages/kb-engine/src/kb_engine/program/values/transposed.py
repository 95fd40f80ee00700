"""Transposed operands, `x.T` and `tl.trans(x)`: the bytes stay as they are stored, and a GEMM reads them transposed."""

from __future__ import annotations

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
    """A matrix with rows and columns exchanged, which only `tl.dot` and `tl.composite("gemm", ...)` take.

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
    """Raise KernelError, `<line>: got <got> a transposed tensor`, if *value* is transposed."""
    if isinstance(value, Transposed):
        raise KernelError(line, f"{got} a transposed tensor", NEEDS, fix)
