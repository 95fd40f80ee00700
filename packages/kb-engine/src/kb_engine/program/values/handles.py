"""What the calls of a kernel return: data in TCM that is known now or pending, and composites that are on their way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from kb_engine.memory.pending import Producer
from kb_engine.program.port import Completion
from kb_engine.program.tcm_holder import TcmHolder
from kb_engine.program.values.affine import sides_of
from kb_engine.program.values.transposed import LaidOutOperators, Transposed
from kb_messages import DType, KernelError, Matrix


class Operators(Protocol):
    """Turns the operators that a kernel applies to handles into commands. A kernel language implements it."""

    def arithmetic(self, op: str, x: Any, y: Any = None) -> LoadedTensor:
        """The result of the math function *op* of one or two arguments."""

    def convert(self, x: Handle, dtype: DType | str) -> LoadedTensor:
        """*x* as *dtype*."""

    def reordered(self, value: Handle, order: tuple[int, ...]) -> LoadedTensor:
        """*value* with its axes in *order*, as a value of its own."""

    def wait(self, handle: Handle) -> None:
        """Return, in simulated time, when the handle's command is done."""

    def wait_for(self, completion: Completion) -> None:
        """Return, in simulated time, when the command of *completion* is done."""

    def evaluate(self, handle: Handle, touched_by: str) -> None:
        """Make the elements of *handle*, which are pending, known, after a wait for the command that produces them.

        Raises KernelError, which names *touched_by*, in a run without an op log.
        """

    def leave(self, why: str) -> None:
        """The kernel looks at a value, as `ProgramPort.leave`."""

    def notify_wrapped_index(self, wrapped_at: str) -> None:
        """The kernel uses a value as an index that follows from integers that wrapped at the line *wrapped_at*."""


def _no_operators(op: str) -> NoReturn:
    raise TypeError(f"{op} of a value that no kernel made")


def _operator(op: str) -> Callable[[Handle, Any], LoadedTensor]:
    def computed(self: Handle, other: Any) -> LoadedTensor:
        return (self.operators or _no_operators(op)).arithmetic(op, self, other)

    return computed


def _reflected(op: str) -> Callable[[Handle, Any], LoadedTensor]:
    """The operator of a handle that stands on the right of a number."""

    def computed(self: Handle, other: Any) -> LoadedTensor:
        return (self.operators or _no_operators(op)).arithmetic(op, other, self)

    return computed


_OPERATORS_OF_NUMPY: Final = {
    "add": "__radd__",
    "subtract": "__rsub__",
    "multiply": "__rmul__",
    "divide": "__rtruediv__",
    "true_divide": "__rtruediv__",
    "floor_divide": "__rfloordiv__",
    "remainder": "__rmod__",
    "left_shift": "__rlshift__",
    "right_shift": "__rrshift__",
    "bitwise_and": "__rand__",
    "bitwise_or": "__ror__",
    "bitwise_xor": "__rxor__",
    "less": "__gt__",
    "less_equal": "__ge__",
    "greater": "__lt__",
    "greater_equal": "__le__",
    "equal": "__eq__",
    "not_equal": "__ne__",
}
"""The operator of a handle on the right, by numpy's name of the operator."""

INDEX_USE: Final = "use as an index"
"""What the kernel does with a value that it indexes a tensor by."""


class Handle:
    """A matrix whose elements are known now, or pending because a compute op produces them.

    `place` is where the elements lie, in TCM or in memory, and `known` is their values, read-only, or None while they
    are pending; `producer` is then the op that produces them. `completion` says whether the command behind the handle
    is done, and `readers` which composites have the handle as an operand. `operators` issues the commands of `x + y`
    and the like: the language of the program that made the handle, None for a value that no kernel made. `holder` is
    the allocation in TCM that the handle lies in, alone or with others; None if it lies elsewhere. `wrapped_at` is the
    kernel line where integers wrapped from which the elements follow, empty for none; it is told where somebody
    listens.
    """

    wrapped_at = ""

    def __init__(
        self,
        place: Matrix,
        shape: tuple[int, ...],
        known: npt.NDArray[Any] | None,
        producer: Producer | None,
        operators: Operators | None = None,
        holder: TcmHolder | None = None,
    ):
        self.place = place
        self.shape = shape
        self.known = known
        self.producer = producer
        self.completion = Completion()
        self.readers: list[Completion] = []
        self.holder = holder
        self.operators = operators

    @property
    def matrix(self) -> Matrix | None:
        """Where the data lies in TCM; None if it lies elsewhere."""
        return self.place

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.place.dtype

    @property
    def freed(self) -> bool:
        """Whether `tl.free` gave the handle's TCM back."""
        return self.holder is not None and self.holder.freed

    @property
    def is_pending(self) -> bool:
        """Whether the values are known only after the run."""
        return self.known is None

    def look(self, touched_by: str) -> npt.NDArray[Any]:
        """The elements, read-only, after a wait for the command that brings them. Pending ones are computed.

        Raises KernelError, which names *touched_by*, for pending elements that cannot be computed.
        """
        self._leave()
        if self.operators is not None:
            if self.known is None:
                self.operators.evaluate(self, touched_by)
            elif not self.completion.done:
                self.operators.wait(self)
        if self.known is None:
            self._refuse(touched_by)
        self._notify_wrap(touched_by)
        return self.known

    def _notify_wrap(self, touched_by: str) -> None:
        """Tell of an index that wrapped, if the kernel uses the value as one."""
        if self.wrapped_at and touched_by == INDEX_USE and self.operators is not None:
            self.operators.notify_wrapped_index(self.wrapped_at)

    def note_wrap(self, line: str) -> None:
        """The elements follow from integers that wrapped at *line*."""
        self.wrapped_at = line

    def _leave(self) -> None:
        if self.operators is not None:
            self.operators.leave("looks at a value")

    def settle(self, elements: npt.NDArray[Any]) -> None:
        """Make *elements*, as many as the handle has, known."""
        self.known = elements.reshape(self.shape)

    def _refuse(self, touched_by: str) -> NoReturn:
        assert self.producer is not None
        raise self.producer.error(touched_by)

    @property
    def data(self) -> npt.NDArray[Any]:
        """The elements, read-only, as `look` gives them."""
        return self.look("reading `.data`")

    @property
    def T(self) -> TransposedHandle:
        """The matrix transposed: a GEMM takes it as it lies, math puts it in order. Raises KernelError for a vector."""
        return TransposedHandle(self)

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.shape)) or "1"
        self._leave()
        line = self.holder.line if self.holder is not None else self.producer.line if self.producer is not None else ""
        state = "known"
        if self.known is None:
            state = "pending" if self.producer is None else f"pending: {self.producer.op} of {self.producer.line}"
        made = f" of {line}" if line else ""
        return f"<{self.dtype} {shape}{made}, {state}{', freed' if self.freed else ''}>"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        array = self.look("conversion to a numpy array")
        return np.array(array, dtype=dtype) if copy or dtype is not None else array

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        """An operator whose left operand is numpy's is math; other functions of numpy get the elements by a look."""
        name = _OPERATORS_OF_NUMPY.get(ufunc.__name__)
        if name is not None and method == "__call__" and len(inputs) == 2 and not named and inputs[1] is self:
            left = inputs[0]
            return getattr(self, name)(left[()] if isinstance(left, np.ndarray) and not left.shape else left)
        given = [np.asarray(each) if isinstance(each, Handle) else each for each in inputs]
        return getattr(ufunc, method)(*given, **named)

    def __getitem__(self, key: Any) -> Any:
        """A view for a key of `None`, `...` and `:` alone; for any other key, what numpy's indexing gives."""
        keys = key if isinstance(key, tuple) else (key,)
        if any(each is None for each in keys) and all(each in (None, Ellipsis, slice(None)) for each in keys):
            return self.reshape(np.empty(self.shape, np.bool_)[key].shape)
        found = self.look("indexing")[key]
        return found.item() if isinstance(found, np.generic) else found

    def reshape(self, *shape: Any) -> LoadedTensor:
        """The same bytes in another shape, in no time. One length may be -1. Raises ValueError for another size."""
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        return TensorView(self, np.empty(self.shape, np.bool_).reshape(sizes).shape)

    def ravel(self) -> LoadedTensor:
        """The same bytes as a vector, in no time."""
        return self.reshape(-1)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.look("iteration"))

    def __len__(self) -> int:
        return self.shape[0]

    def __bool__(self) -> bool:
        return bool(self._only_element("the truth value"))

    def __float__(self) -> float:
        return float(self._only_element("`float()`"))

    def __int__(self) -> int:
        return int(self._only_element("`int()`"))

    def __index__(self) -> int:
        return int(self._only_element(INDEX_USE))

    def _only_element(self, touched_by: str) -> Any:
        found = self.look(touched_by)
        if found.size != 1:
            shape, fix = " x ".join(map(str, self.shape)), "reduce the value first; & and tl.where go by element"
            raise KernelError(f"a {type(self).__name__}", f"{touched_by} of {shape} elements", "one element", fix)
        return found.item()

    def __setitem__(self, key: object, value: object) -> NoReturn:
        fix = "tl.where(mask, new, old) chooses by element"
        raise KernelError(f"a {type(self).__name__}", "an assignment to elements", "a new value", fix)

    def to(self, dtype: DType | str) -> LoadedTensor:
        """The elements as *dtype*: floats are rounded to nearest even, integers lose the fraction and wrap."""
        if self.operators is None:
            raise TypeError("a value that no kernel made")
        return self.operators.convert(self, dtype)

    def reordered(self, order: tuple[int, ...]) -> LoadedTensor:
        """The elements with the axes in *order*, as a value of its own, which is computed where it is needed."""
        if self.operators is None:
            raise TypeError("a value that no kernel made")
        return self.operators.reordered(self, order)

    __add__, __radd__ = _operator("add"), _reflected("add")
    __sub__, __rsub__ = _operator("sub"), _reflected("sub")
    __mul__, __rmul__ = _operator("mul"), _reflected("mul")
    __truediv__, __rtruediv__ = _operator("div"), _reflected("div")
    __floordiv__, __rfloordiv__ = _operator("floordiv"), _reflected("floordiv")
    __mod__, __rmod__ = _operator("mod"), _reflected("mod")
    __lshift__, __rlshift__ = _operator("lshift"), _reflected("lshift")
    __rshift__, __rrshift__ = _operator("rshift"), _reflected("rshift")
    __and__, __rand__ = _operator("bit_and"), _reflected("bit_and")
    __or__, __ror__ = _operator("bit_or"), _reflected("bit_or")
    __xor__, __rxor__ = _operator("bit_xor"), _reflected("bit_xor")
    __lt__, __le__ = _operator("lt"), _operator("le")
    __gt__, __ge__ = _operator("gt"), _operator("ge")

    def __eq__(self, other: object) -> Any:
        return (self.operators or _no_operators("eq")).arithmetic("eq", self, other)

    def __ne__(self, other: object) -> Any:
        return (self.operators or _no_operators("ne")).arithmetic("ne", self, other)

    def __neg__(self) -> LoadedTensor:
        return (self.operators or _no_operators("neg")).arithmetic("neg", self)

    def __invert__(self) -> LoadedTensor:
        op = "not" if self.dtype is DType.BOOL else "bit_not"
        return (self.operators or _no_operators(op)).arithmetic(op, self)

    __hash__ = object.__hash__


class LoadedTensor(Handle):
    """Data in TCM, as `tl.load` and math return it. Unless they are pending, its elements read as Python numbers."""


class TensorView(LoadedTensor):
    """The bytes of *of*, which lie in TCM, in another *shape*: what happens to one of the two happens to both.

    With *dtype*, which is as wide as that of *of*, the elements are of this type. *known* are then their values.
    """

    def __init__(
        self,
        of: Handle,
        shape: tuple[int, ...],
        dtype: DType | None = None,
        known: npt.NDArray[Any] | None = None,
    ) -> None:
        lies = of.matrix
        if lies is None:
            raise KernelError(f"a {type(of).__name__}", "a view of a result in memory", "one in TCM", "tl.load it")
        rows, cols = sides_of(shape)
        if dtype is None and of.known is not None:
            known = of.known.reshape(shape)
        place = Matrix.packed(rows, cols, dtype or of.dtype, lies.address)
        super().__init__(place, shape, known, of.producer, of.operators, of.holder)
        self.completion, self.readers = of.completion, of.readers
        self.wrapped_at = of.wrapped_at


class CompositeHandle(Handle):
    """What `tl.composite` returns: wait for it with `tl.wait`. Its elements are pending until `tl.materialize`.

    `matrix` is where the result lies in this PE's TCM, or None when the composite writes to memory (`out=`).
    """

    def __init__(
        self, place: Matrix, holder: TcmHolder | None, producer: Producer, operators: Operators | None = None
    ) -> None:
        super().__init__(place, (place.rows, place.cols), None, producer, operators, holder)

    @property
    def matrix(self) -> Matrix | None:
        """Where the result lies in TCM; None if it lies elsewhere."""
        return None if self.holder is None else self.place


class TransposedHandle(LaidOutOperators, Transposed[Handle]):
    """Data in TCM, transposed. Known elements can be looked at, as those of a `Handle`. Math lays them out."""

    __slots__ = ()

    def laid_out(self) -> LoadedTensor:
        """The value as one of its own, with its elements in their order."""
        return self.of.reordered((1, 0))

    @property
    def data(self) -> npt.NDArray[Any]:
        """The elements, read-only. Raises KernelError while they are pending."""
        return self.of.data.T

    def __getitem__(self, key: Any) -> Any:
        found = self.of.look("indexing").T[key]
        return found.item() if isinstance(found, np.generic) else found


class Permuted(LaidOutOperators):
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

    def laid_out(self) -> LoadedTensor:
        """The value as one of its own, with its elements in their order."""
        return self.of.reordered(self.order)
