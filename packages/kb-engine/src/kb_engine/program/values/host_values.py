"""HostValue: integers and booleans that are known while the kernel runs: `tl.arange`, and results computed from it.

They are values of PE_CPU. They take no TCM and no simulated time, and the op log does not hold them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import add, and_, eq, floordiv, ge, gt, le, lshift, lt, mod, mul, ne, or_, rshift, sub, xor
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kb_engine.program.values.affine import (
    Affine,
    HalfSpace,
    IndexBox,
    MaskForm,
    basic_key,
    compared,
    where_not_negative,
)
from kb_engine.program.values.handles import Handle
from kb_engine.program.values.symbols import plain, whole
from kb_engine.program.values.transposed import Transposed
from kb_messages import DType, KernelError

Form: TypeAlias = "Affine | MaskForm"
_COMPARISONS = lt, le, gt, ge, eq, ne
_MOST_SHIFT = 62


def form_of(function: Callable[[Any, Any], Any], first: Form | None, second: Form | None) -> Form | None:
    """The form of `function(first, second)`; None where the result, or an operand, has no form.

    Raises ValueError for shapes that do not broadcast, and ZeroDivisionError.
    """
    if first is None or second is None:
        return None
    one, two = first.shape, second.shape
    shape = one if one == two or not two else two if not one else np.broadcast_shapes(one, two)
    if not shape:
        return None
    if isinstance(first, Affine) and isinstance(second, Affine):
        if function in _COMPARISONS:
            return compared(function, first.broadcast(shape).plus(second.broadcast(shape).times(-1)))
        found = _arithmetic(function, first.broadcast(shape), second.broadcast(shape))
        return found if found is not None and found.fits else None
    if isinstance(first, Affine) or isinstance(second, Affine):
        return None
    if function not in (and_, or_):
        return None
    return _joined(function is and_, first.broadcast(shape), second.broadcast(shape))


def inverted(form: Form | None) -> Form | None:
    """The form of `~form`; None where there is none."""
    if isinstance(form, Affine):
        return form.times(-1).plus(Affine.constant(-1, form.shape))
    if isinstance(form, HalfSpace):
        return where_not_negative(form.integers.times(-1).plus(Affine.constant(-1, form.shape)))
    return None if form is None else form.inverted()


def _arithmetic(function: Callable[[Any, Any], Any], first: Affine, second: Affine) -> Affine | None:
    """The affine result of two operands of one shape, if there is one."""
    if function is add:
        return first.plus(second)
    if function is sub:
        return first.plus(second.times(-1))
    if function is mul:
        if not second.axes:
            return first.times(second.base)
        return None if first.axes else second.times(first.base)
    if second.axes:
        return None
    if function is lshift:
        return first.times(1 << second.base) if 0 <= second.base <= _MOST_SHIFT else None
    if function is floordiv:
        return first.floor_div(second.base)
    return first.modulo(second.base) if function is mod else None


def _joined(both: bool, first: MaskForm, second: MaskForm) -> MaskForm | None:
    """The mask that is true where *both* masks of one shape are true, or, without *both*, where either is."""
    if both and isinstance(first, IndexBox) and isinstance(second, IndexBox):
        return first.within(second)
    for one, other in ((first, second), (second, first)):
        if isinstance(one, IndexBox) and (one.is_everywhere or one.is_empty):
            return other if one.is_everywhere == both else one
    return None


_Function = Callable[[Any, Any], Any]
_ARITHMETIC = add, sub, mul, floordiv, mod, lshift, rshift
_NEEDS = "integers, booleans, or vectors computed from tl.arange"


def _operator(function: _Function, reflected: bool = False) -> Callable[[HostValue, Any], Any]:
    return lambda self, other: self._with(other, function, reflected)


class HostValue:
    """An array of integers (i64) or booleans that is known while the kernel runs, read-only. Elements read as Python
    numbers.

    Integer operators and comparisons work element by element, with numpy's broadcasting, and give a `HostValue` again;
    a comparison gives a mask. `v[:, None]` makes a column. *line* returns the current line of the kernel. Raises
    KernelError for floats, tensors, numbers beyond 64 bits, shapes that do not broadcast, and a division by zero.

    `form` describes the elements in the same space for any size: `Affine` integers, or an `IndexBox` or `HalfSpace` of
    booleans. It is None where the elements have no such description. With a form, `data` is made when it is read.
    """

    __slots__ = ("_data", "_line", "form")

    __array_ufunc__ = None  # numpy leaves an operator with an array on its left to this class

    def __init__(self, data: npt.NDArray[Any], line: Callable[[], str]) -> None:
        self._data: npt.NDArray[Any] | None = data if data.dtype == np.bool_ else data.astype(np.int64)
        self._data.flags.writeable = False
        self._line = line
        self.form: Form | None = None

    @classmethod
    def of(cls, form: Form, line: Callable[[], str]) -> HostValue:
        """The value that *form* describes."""
        known = cls.__new__(cls)
        known._data, known._line, known.form = None, line, form
        return known

    @property
    def data(self) -> npt.NDArray[Any]:
        """The elements, read-only."""
        if self._data is None:
            assert self.form is not None
            self._data = self.form.data()
            self._data.flags.writeable = False
        return self._data

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements in each dimension."""
        return self.data.shape if self.form is None else self.form.shape

    @property
    def T(self) -> HostValue:
        """The same elements with the axes in reverse order."""
        return self.transposed(tuple(reversed(range(len(self.shape)))))

    @property
    def is_mask(self) -> bool:
        """Whether the elements are booleans."""
        return self.data.dtype == np.bool_ if self.form is None else not isinstance(self.form, Affine)

    @property
    def integers(self) -> DType:
        """The dtype of the elements as an operand: i32 where all elements fit, else i64; bool for a mask."""
        if self.is_mask:
            return DType.BOOL
        if isinstance(self.form, Affine):
            low, high = self.form.low, self.form.high
        else:
            low, high = int(self.data.min(initial=0)), int(self.data.max(initial=0))
        return DType.I32 if low >= -(2**31) and high < 2**31 else DType.I64

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.data, dtype=dtype) if copy or dtype is not None else self.data

    def __getitem__(self, key: Any) -> Any:
        keys = basic_key(key, len(self.shape))
        if self.form is not None and keys is not None:
            form = self.form.at(keys)
            if form is not None:
                return HostValue.of(form, self._line) if form.shape or not isinstance(form, Affine) else form.base
        found = self.data[key.data if isinstance(key, HostValue) else key]
        return found.item() if isinstance(found, np.generic) else HostValue(found, self._line)

    def reshape(self, shape: tuple[int, ...]) -> HostValue:
        """The same elements, row by row, in another shape. Raises ValueError for a shape of another size."""
        sizes = np.empty(self.shape, np.bool_).reshape(shape).shape
        form = self.form.reshaped(sizes) if isinstance(self.form, Affine) else None
        return HostValue(self.data.reshape(sizes), self._line) if form is None else HostValue.of(form, self._line)

    def transposed(self, order: tuple[int, ...]) -> HostValue:
        """The same elements with the axes in another *order*."""
        if self.form is None:
            return HostValue(self.data.transpose(order), self._line)
        return HostValue.of(self.form.transposed(order), self._line)

    def broadcast_to(self, shape: tuple[int, ...]) -> HostValue:
        """The same elements over *shape*. Raises ValueError unless `shape` broadcasts to *shape*."""
        if np.broadcast_shapes(self.shape, shape) != shape:
            raise ValueError(f"{self.shape} does not broadcast to {shape}")
        if self.form is not None:
            return HostValue.of(self.form.broadcast(shape), self._line)
        return HostValue(np.broadcast_to(self.data, shape), self._line)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of one element")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[number] for number in range(len(self)))

    def __bool__(self) -> bool:
        return bool(self._only_element("the truth value"))

    def __int__(self) -> int:
        return int(self._only_element("`int()`"))

    def __index__(self) -> int:
        return int(self._only_element("use as an index"))

    def _only_element(self, touched_by: str) -> Any:
        if self.shape != (1,) * len(self.shape):
            raise KernelError(self._line(), f"{touched_by} of {self}", "one element", "index it")
        return self.data.item()

    def __repr__(self) -> str:
        return f"<{self}, known>"

    def __str__(self) -> str:
        kind = "booleans" if self.is_mask else "integers"
        return f"{' x '.join(map(str, self.shape))} {kind}"

    def _with(self, other: object, function: _Function, reflected: bool = False) -> Any:
        if isinstance(other, (Handle, Transposed)):
            return NotImplemented
        other = self._value(other, function)
        first, second = (other, self) if reflected else (self, other)
        try:
            form = form_of(function, _form(first), _form(second))
            return HostValue.of(form, self._line) if form is not None else self._computed(function, first, second)
        except ValueError:
            shapes = [" x ".join(map(str, np.shape(each))) for each in (first, second)]
            got = f"{function.__name__} of {shapes[0]} and {shapes[1]}"
            raise KernelError(self._line(), got, "shapes that broadcast", "make a column: v[:, None]") from None
        except (FloatingPointError, ZeroDivisionError):
            raise KernelError(self._line(), "a division by zero of integers", "another divisor") from None

    def _computed(self, function: _Function, first: HostValue | int, second: HostValue | int) -> HostValue:
        """The result of *function*, element by element."""
        one, two = (each.data if isinstance(each, HostValue) else np.asarray(plain(each)) for each in (first, second))
        if function in _ARITHMETIC:  # numpy adds booleans as a logical or
            one, two = one.astype(np.int64), two.astype(np.int64)
        with np.errstate(divide="raise"):
            return HostValue(np.asarray(function(one, two)), self._line)

    def _value(self, other: object, function: _Function) -> HostValue | int:
        """*other* as a `HostValue`, or as a Python boolean or an integer of 64 bits."""
        if isinstance(other, HostValue):
            return other
        if isinstance(other, (bool, np.bool_)):
            return bool(other)
        if isinstance(other, np.ndarray) and other.dtype.kind in "iub" and other.dtype != np.uint64:
            return HostValue(other.copy(), self._line)
        try:
            number: int = whole(other)
        except TypeError:
            got = f"{function.__name__} of {self} and a {type(other).__name__}"
            raise KernelError(self._line(), got, _NEEDS) from None
        if not -(1 << 63) <= number < 1 << 63:
            raise KernelError(self._line(), f"{function.__name__} of {self} and {other}", "a number of i64")
        return number

    __add__, __radd__ = _operator(add), _operator(add)
    __sub__, __rsub__ = _operator(sub), _operator(sub, reflected=True)
    __mul__, __rmul__ = _operator(mul), _operator(mul)
    __floordiv__, __rfloordiv__ = _operator(floordiv), _operator(floordiv, reflected=True)
    __mod__, __rmod__ = _operator(mod), _operator(mod, reflected=True)
    __lshift__, __rlshift__ = _operator(lshift), _operator(lshift, reflected=True)
    __rshift__, __rrshift__ = _operator(rshift), _operator(rshift, reflected=True)
    __and__, __rand__ = _operator(and_), _operator(and_)
    __or__, __ror__ = _operator(or_), _operator(or_)
    __xor__, __rxor__ = _operator(xor), _operator(xor)
    __lt__, __le__ = _operator(lt), _operator(le)
    __gt__, __ge__ = _operator(gt), _operator(ge)

    def __eq__(self, other: object) -> Any:
        return self._with(other, eq)

    def __ne__(self, other: object) -> Any:
        return self._with(other, ne)

    __hash__ = object.__hash__

    def __neg__(self) -> HostValue:
        form = form_of(mul, _form(self), Affine.constant(-1))
        return HostValue(-self.data.astype(np.int64), self._line) if form is None else HostValue.of(form, self._line)

    def __invert__(self) -> HostValue:
        form = inverted(self.form)
        return HostValue(~self.data, self._line) if form is None else HostValue.of(form, self._line)


def _form(value: HostValue | int) -> Form | None:
    """The form of an operand. A number is an `Affine` without axes; a boolean has no form."""
    if isinstance(value, HostValue):
        return value.form
    return None if isinstance(value, bool) else Affine.constant(value)
