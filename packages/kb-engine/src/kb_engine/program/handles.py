"""What `tl` calls return: loaded data, concrete or pending, and composites on their way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from kb_engine.memory.pending import Producer
from kb_engine.program.port import Completion
from kb_engine.program.transposed import Transposed
from kb_messages import DType, Matrix


class Operators(Protocol):
    """Issues the commands that operators on values stand for, and waits for those that bring what is looked at."""

    def arithmetic(self, op: str, x: Any, y: Any = None) -> LoadedTensor:
        """The result of a function of one or two arguments."""

    def convert(self, x: Handle, dtype: DType | str) -> LoadedTensor:
        """*x* in another type."""

    def wait(self, handle: Handle) -> None:
        """Wait, in simulated time, until the handle's command is done."""


class Handle:
    """A matrix whose value is known now, or pending because a compute op makes it.

    `readers` are the composites that have it as an operand; `freed` says that its TCM is given back. Operators are
    math commands, issued by *maths* (`tl`).
    """

    def __init__(
        self,
        matrix: Matrix,
        shape: tuple[int, ...],
        value: npt.NDArray[Any] | None,
        producer: Producer | None,
        maths: Operators | None = None,
    ):
        self._maths = maths
        self._matrix = matrix
        self._value = value
        self._producer = producer
        self.shape = shape
        self.completion = Completion()
        self.readers: list[Completion] = []
        self.freed = False

    @property
    def matrix(self) -> Matrix | None:
        """Where the data lies in TCM, None if it does not."""
        return self._matrix

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self._matrix.dtype

    @property
    def is_pending(self) -> bool:
        """Whether the value is known only after the run."""
        return self._value is None

    def _concrete(self, touched_by: str) -> npt.NDArray[Any]:
        if self._value is None:
            self._refuse(touched_by)
        if self._maths is not None and not self.completion.done:
            self._maths.wait(self)
        return self._value

    def settle(self, value: npt.NDArray[Any]) -> None:
        """The value is known from now on: *value*, of as many elements."""
        self._value = value.reshape(self.shape)

    def _refuse(self, touched_by: str) -> NoReturn:
        assert self._producer is not None
        raise self._producer.error(touched_by)

    @property
    def data(self) -> npt.NDArray[Any]:
        """The elements, read-only. Raises KernelError while they are pending."""
        return self._concrete("reading `.data`")

    @property
    def T(self) -> TransposedHandle:
        """The matrix transposed, as an operand of a GEMM. Raises KernelError for one dimension."""
        return TransposedHandle(self, f"the .T of a {type(self).__name__}")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        array = self._concrete("conversion to a numpy array")
        return np.array(array, dtype=dtype) if copy or dtype is not None else array

    def __getitem__(self, key: Any) -> Any:
        found = self._concrete("indexing")[key]
        return found.item() if isinstance(found, np.generic) else found

    def __iter__(self) -> Iterator[Any]:
        return iter(self._concrete("iteration"))

    def __len__(self) -> int:
        return self.shape[0]

    def __bool__(self) -> bool:
        return bool(self._concrete("the truth value").item())

    def __float__(self) -> float:
        return float(self._concrete("`float()`").item())

    def __int__(self) -> int:
        return int(self._concrete("`int()`").item())

    def __index__(self) -> int:
        return int(self._concrete("use as an index").item())

    def _compute(self, op: str, *arguments: Any) -> LoadedTensor:
        if self._maths is None:
            raise TypeError(f"{op} of a value that no kernel made")
        return self._maths.arithmetic(op, *arguments)

    def to(self, dtype: DType | str) -> LoadedTensor:
        """The elements rounded to *dtype*."""
        if self._maths is None:
            raise TypeError("a value that no kernel made")
        return self._maths.convert(self, dtype)

    def __add__(self, other: Any) -> LoadedTensor:
        return self._compute("add", self, other)

    def __radd__(self, other: Any) -> LoadedTensor:
        return self._compute("add", other, self)

    def __sub__(self, other: Any) -> LoadedTensor:
        return self._compute("sub", self, other)

    def __rsub__(self, other: Any) -> LoadedTensor:
        return self._compute("sub", other, self)

    def __mul__(self, other: Any) -> LoadedTensor:
        return self._compute("mul", self, other)

    def __rmul__(self, other: Any) -> LoadedTensor:
        return self._compute("mul", other, self)

    def __truediv__(self, other: Any) -> LoadedTensor:
        return self._compute("div", self, other)

    def __rtruediv__(self, other: Any) -> LoadedTensor:
        return self._compute("div", other, self)

    def __floordiv__(self, other: Any) -> LoadedTensor:
        return self._compute("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> LoadedTensor:
        return self._compute("floordiv", other, self)

    def __mod__(self, other: Any) -> LoadedTensor:
        return self._compute("mod", self, other)

    def __rmod__(self, other: Any) -> LoadedTensor:
        return self._compute("mod", other, self)

    def __lshift__(self, other: Any) -> LoadedTensor:
        return self._compute("lshift", self, other)

    def __rlshift__(self, other: Any) -> LoadedTensor:
        return self._compute("lshift", other, self)

    def __rshift__(self, other: Any) -> LoadedTensor:
        return self._compute("rshift", self, other)

    def __rrshift__(self, other: Any) -> LoadedTensor:
        return self._compute("rshift", other, self)

    def __and__(self, other: Any) -> LoadedTensor:
        return self._compute("bit_and", self, other)

    def __rand__(self, other: Any) -> LoadedTensor:
        return self._compute("bit_and", other, self)

    def __or__(self, other: Any) -> LoadedTensor:
        return self._compute("bit_or", self, other)

    def __ror__(self, other: Any) -> LoadedTensor:
        return self._compute("bit_or", other, self)

    def __xor__(self, other: Any) -> LoadedTensor:
        return self._compute("bit_xor", self, other)

    def __rxor__(self, other: Any) -> LoadedTensor:
        return self._compute("bit_xor", other, self)

    def __invert__(self) -> LoadedTensor:
        return self._compute("not" if self.dtype is DType.BOOL else "bit_not", self)

    def __neg__(self) -> LoadedTensor:
        return self._compute("neg", self)

    def __eq__(self, other: object) -> Any:
        return self._compute("eq", self, other)

    def __ne__(self, other: object) -> Any:
        return self._compute("ne", self, other)

    def __lt__(self, other: Any) -> LoadedTensor:
        return self._compute("lt", self, other)

    def __le__(self, other: Any) -> LoadedTensor:
        return self._compute("le", self, other)

    def __gt__(self, other: Any) -> LoadedTensor:
        return self._compute("gt", self, other)

    def __ge__(self, other: Any) -> LoadedTensor:
        return self._compute("ge", self, other)

    __hash__ = object.__hash__


class LoadedTensor(Handle):
    """A value in TCM: what `tl.load` or math returns. Its elements read as Python numbers unless they are pending."""


class CompositeHandle(Handle):
    """What `tl.composite` returns: wait for it with `tl.wait`. Its value is pending unless `tl.materialize` is asked.

    `matrix` is where the result lies in this PE's TCM, or None when the composite writes to memory (`out=`).
    """

    def __init__(self, out: Matrix, in_tcm: bool, producer: Producer, maths: Operators | None = None) -> None:
        super().__init__(out, (out.rows, out.cols), None, producer, maths)
        self._in_tcm = in_tcm

    @property
    def matrix(self) -> Matrix | None:
        """Where the result lies in TCM, if it does."""
        return self._matrix if self._in_tcm else None


class TransposedHandle(Transposed[Handle]):
    """A value in TCM, transposed. What is concrete can be looked at; see `Handle`."""

    __slots__ = ()

    @property
    def data(self) -> npt.NDArray[Any]:
        """The elements, read-only. Raises KernelError while they are pending."""
        return self.of.data.T

    def __getitem__(self, key: Any) -> Any:
        found = self.of._concrete("indexing").T[key]
        return found.item() if isinstance(found, np.generic) else found
