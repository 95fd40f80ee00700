"""Handles: the results of a kernel's calls. Their elements are known now, or pending.

Design: docs/design/kernel-language.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from kb_engine.memory.pending import Producer
from kb_engine.program.port import Completion
from kb_engine.program.tcm_holder import TcmHolder
from kb_engine.program.values.affine import basic_key, sides_of
from kb_engine.program.values.transposed import LaidOutOperators, Transposed
from kb_messages import DType, KernelError, Matrix


class Operators(Protocol):
    """Turns the operators that a kernel applies to handles into commands. Kernel languages implement this protocol."""

    def arithmetic(self, op: str, x: Any, y: Any = None) -> LoadedTensor:
        """Returns the result of the math function *op* of one or two arguments."""

    def convert(self, x: Handle, dtype: DType | str) -> LoadedTensor:
        """Returns *x* converted to *dtype*."""

    def reordered(self, value: Handle, order: tuple[int, ...]) -> LoadedTensor:
        """Returns *value* with its axes in *order*, as a value of its own."""

    def sliced(self, value: Handle, key: tuple[Any, ...]) -> LoadedTensor:
        """Returns the elements of *value* at *key*, integers, slices and None, as a value of its own."""

    def wait(self, handle: Handle) -> None:
        """Returns, in simulated time, when the command of *handle* is done."""

    def wait_until_done(self, completion: Completion) -> None:
        """Returns, in simulated time, when the command of *completion* is done."""

    def evaluate(self, handle: Handle, touched_by: str) -> None:
        """Waits for the command of *handle* and computes its pending elements.

        Raises KernelError, which names *touched_by*, in a run without an op log.
        """

    def leave(self, why: str) -> None:
        """Marks the program as one that no other program repeats. *why* names the act, such as `looks at a value`."""

    def notify_wrapped_index(self, wrapped_at: str) -> None:
        """Notifies the observers of an index that was computed from integers that wrapped at the line *wrapped_at*."""


_ALL: Final = slice(None)


def _no_operators(op: str) -> NoReturn:
    raise TypeError(f"{op} of a value that no kernel made")


def _operator(op: str) -> Callable[[Handle, Any], LoadedTensor]:
    return lambda self, other: (self.operators or _no_operators(op)).arithmetic(op, self, other)


def _reflected(op: str) -> Callable[[Handle, Any], LoadedTensor]:
    """The operator of a handle that stands on the right of a number."""
    return lambda self, other: (self.operators or _no_operators(op)).arithmetic(op, other, self)


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

_SAME_NAMES: Final = (
    "exp exp2 expm1 log log2 log10 log1p sqrt cbrt sin cos tan sinh cosh tanh sign floor ceil rint trunc isnan isinf "
    "isfinite signbit maximum minimum copysign hypot fmod nextafter"
)
_FUNCTIONS_OF_NUMPY: Final = {
    **{name: name for name in _SAME_NAMES.split()},
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "arcsinh": "asinh", "arccosh": "acosh",
    "arctanh": "atanh", "absolute": "abs", "fabs": "abs", "negative": "neg", "power": "pow", "float_power": "pow",
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div",
    "floor_divide": "floordiv", "remainder": "mod", "left_shift": "lshift", "right_shift": "rshift",
    "bitwise_and": "bit_and", "bitwise_or": "bit_or", "bitwise_xor": "bit_xor", "less": "lt", "less_equal": "le",
    "greater": "gt", "greater_equal": "ge", "equal": "eq", "not_equal": "ne",
}  # fmt: skip
"""The math function by numpy's name of a function of elements."""

INDEX_USE: Final = "use as an index"
"""The use of a value by which a kernel indexes a tensor."""


class Handle:
    """A value in TCM or memory, whose elements are known now, or pending because a compute op produces them.

    `place` is the matrix of the elements, in TCM or in memory. `known` is their values, read-only, or None while they
    are pending; `producer` is then the op that produces them. `completion` is the completion of the command behind the
    handle, and `readers` are the completions of composites that have the handle as an operand. `operators` issues the
    commands of operators such as `x + y`: the language of the program that made the handle, None for a value that no
    kernel made. `holder` is the allocation in TCM, which other handles may share; None if the handle lies elsewhere.
    `wrapped_at` is the kernel line of integers that wrapped, from which the elements were computed; "" for none. It is
    set where an observer listens.
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
        """The matrix in TCM; None if the handle lies elsewhere."""
        return self.place

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.place.dtype

    @property
    def freed(self) -> bool:
        """Whether `tl.free` freed the handle's TCM."""
        return self.holder is not None and self.holder.freed

    @property
    def is_pending(self) -> bool:
        """Whether the elements are not known while the kernel runs."""
        return self.known is None

    def look(self, touched_by: str) -> npt.NDArray[Any]:
        """The elements, read-only, after a wait for the command that brings them. Pending elements are computed.

        Raises KernelError, which names *touched_by*, for pending elements that cannot be computed.
        """
        self._leave()
        if self.operators is not None:
            if self.known is None:
                self.operators.evaluate(self, touched_by)
            elif not self.completion.done:
                self.operators.wait(self)
        if self.known is None:
            assert self.producer is not None
            raise self.producer.error(touched_by)
        self._notify_wrap(touched_by)
        return self.known

    def _notify_wrap(self, touched_by: str) -> None:
        """Notifies the observers of an index that wrapped, if the kernel uses the value as an index."""
        if self.wrapped_at and touched_by == INDEX_USE and self.operators is not None:
            self.operators.notify_wrapped_index(self.wrapped_at)

    def note_wrap(self, line: str) -> None:
        """Notes that the elements were computed from integers that wrapped at *line*."""
        self.wrapped_at = line

    def _leave(self) -> None:
        if self.operators is not None:
            self.operators.leave("looks at a value")

    def settle(self, elements: npt.NDArray[Any]) -> None:
        """Sets *elements*, as many as the handle has, as the known elements."""
        self.known = elements.reshape(self.shape)

    @property
    def data(self) -> npt.NDArray[Any]:
        """The elements, read-only. Waits for the command that brings them, and computes pending ones."""
        return self.look("reading `.data`")

    @property
    def T(self) -> TransposedHandle:
        """The matrix transposed. A GEMM reads the bytes as they lie; math puts the elements in order first. Raises
        KernelError for a vector."""
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
        """Makes a function of numpy by element, such as `np.exp`, a math function. Raises KernelError for others.

        A value that no kernel made is an array to numpy.
        """
        name = _OPERATORS_OF_NUMPY.get(ufunc.__name__)
        if name is not None and method == "__call__" and len(inputs) == 2 and not named and inputs[1] is self:
            left = inputs[0]
            return getattr(self, name)(left[()] if isinstance(left, np.ndarray) and not left.shape else left)
        if self.operators is None:
            elements = [np.asarray(each) if isinstance(each, Handle) else each for each in inputs]
            return getattr(ufunc, method)(*elements, **named)
        op = _FUNCTIONS_OF_NUMPY.get(ufunc.__name__)
        if op is None or method != "__call__" or named or len(inputs) > 2:
            raise self._refused(ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}")
        given = [each[()] if isinstance(each, np.ndarray) and not each.shape else each for each in inputs]
        return self.operators.arithmetic(op, *given)

    def __array_function__(self, function: Any, types: Any, arguments: Any, named: Any) -> Any:
        """Answers `np.shape`, `np.ndim` and `np.size`. Raises KernelError for the other functions of numpy."""
        if function in (np.shape, np.ndim, np.size) and arguments[:1] == (self,):
            return function(np.empty(self.shape, np.bool_), *arguments[1:], **named)
        raise self._refused(function.__name__)

    def _refused(self, name: str) -> KernelError:
        fix = "a function of tl makes a value, and x.data has the elements as an array of numpy, for the host alone"
        return KernelError(f"a {type(self).__name__}", f"np.{name} of a value", "a function that takes values", fix)

    def __getitem__(self, key: Any) -> Any:
        """A number for an integer in each dimension. Slices, integers and None give a value, by numpy's indexing.

        Keys of `None`, `...` and `:` alone give a view. Raises KernelError for a list of indices.
        """
        keys = key if isinstance(key, tuple) else (key,)
        if all(each is None or each is Ellipsis or (type(each) is slice and each == _ALL) for each in keys):
            return self.reshape(np.empty(self.shape, np.bool_)[key].shape)
        basic = basic_key(key, len(self.shape))
        if basic is None:
            fix = "tl.gather takes elements anywhere, and x.data has the elements as an array of numpy"
            raise KernelError(f"a {type(self).__name__}", f"the index {key!r:.100}", "integers and slices", fix)
        if any(each is None or isinstance(each, slice) for each in basic):
            return self.look("indexing")[key] if self.operators is None else self.operators.sliced(self, basic)
        found = self.look("indexing")[basic]
        return found.item() if isinstance(found, np.generic) else found

    def reshape(self, *shape: Any) -> LoadedTensor:
        """The same bytes in another shape. Takes no time. One length may be -1. Raises ValueError for another size."""
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        return TensorView(self, np.empty(self.shape, np.bool_).reshape(sizes).shape)

    def ravel(self) -> LoadedTensor:
        """The same bytes as a vector. Takes no time."""
        return self.reshape(-1)

    def __iter__(self) -> Iterator[Any]:
        if len(self.shape) > 1 and self.operators is not None:
            return (self[number] for number in range(self.shape[0]))
        return iter(self.look("iteration"))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of one element")
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
        return (self.operators or _no_operators("to")).convert(self, dtype)

    def reordered(self, order: tuple[int, ...]) -> LoadedTensor:
        """The elements with the axes in *order*, as a value of its own, which is computed where it is needed."""
        return (self.operators or _no_operators("a transpose")).reordered(self, order)

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
    """Data in TCM, the result of `tl.load` and of math. Elements that are known read as Python numbers."""


class TensorView(LoadedTensor):
    """The bytes of *of*, which lie in TCM, in another *shape*. A change to the bytes changes both values.

    *dtype*, by default that of *of*, has to be as wide as that of *of*. With *dtype*, *known* are the known elements.
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


class ValuePart(LoadedTensor):
    """Elements *start* to *stop* of *of*, which lies in TCM, as a vector with the same bytes. Takes no time."""

    def __init__(self, of: Handle, start: int, stop: int) -> None:
        lies = of.matrix
        if lies is None:
            raise KernelError(f"a {type(of).__name__}", "a part of a result in memory", "one in TCM", "tl.load it")
        place = Matrix.packed(1, stop - start, of.dtype, lies.address + start * of.dtype.nbytes)
        known = None if of.known is None else of.known.reshape(-1)[start:stop]
        super().__init__(place, (stop - start,), known, of.producer, of.operators, of.holder)
        self.completion, self.readers = of.completion, of.readers
        self.wrapped_at = of.wrapped_at


class CompositeHandle(Handle):
    """The result of `tl.composite`. `tl.wait` waits for it, and its elements are pending until `tl.materialize`.

    `matrix` is the place of the result in this PE's TCM, or None when the composite writes to memory (`out=`).
    """

    def __init__(
        self, place: Matrix, holder: TcmHolder | None, producer: Producer, operators: Operators | None = None
    ) -> None:
        super().__init__(place, (place.rows, place.cols), None, producer, operators, holder)

    @property
    def matrix(self) -> Matrix | None:
        """The place of the result in TCM; None if the result lies elsewhere."""
        return None if self.holder is None else self.place


class PendingStore:
    """The result of `tl.store_async`: the completions of its commands, for which `tl.wait` waits."""

    __slots__ = ("completions",)

    def __init__(self) -> None:
        self.completions: list[Completion] = []


class TransposedHandle(LaidOutOperators, Transposed[Handle]):
    """Data in TCM, transposed. Known elements can be read, as with a `Handle`. Math puts the elements in order
    first."""

    __slots__ = ()

    def laid_out(self) -> LoadedTensor:
        """Returns a value of its own, whose elements lie in their order."""
        return self.of.reordered((1, 0))

    @property
    def data(self) -> npt.NDArray[Any]:
        """The elements, read-only. Raises KernelError while they are pending."""
        return self.of.data.T

    def __getitem__(self, key: Any) -> Any:
        """As `Handle.__getitem__`, of the elements in their order."""
        basic = basic_key(key, 2)
        if basic is not None and not any(each is None or isinstance(each, slice) for each in basic):
            return self.of[basic[::-1]]
        return self.laid_out()[key]


class Permuted(LaidOutOperators):
    """Data in TCM with its axes in another order: axis i is axis `order[i]` of *of*. `tl.store` moves the elements as
    they lie; math puts them in order first."""

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
        """The order that undoes `order`."""
        return tuple(self.order.index(axis) for axis in range(len(self.order)))

    def laid_out(self) -> LoadedTensor:
        """Returns a value of its own, whose elements lie in their order."""
        return self.of.reordered(self.order)
