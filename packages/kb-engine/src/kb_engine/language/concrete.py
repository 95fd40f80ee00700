"""Integers and booleans that a kernel knows without loading them: `tl.arange`, and what the kernel computes from it.

They live in PE_CPU. They take no TCM and no simulated time, and the op log does not hold them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import add, and_, eq, floordiv, ge, gt, index, le, lshift, lt, mod, mul, ne, or_, rshift, sub, xor
from typing import Any

import numpy as np
import numpy.typing as npt

from kb_engine.program.handles import Handle
from kb_engine.program.transposed import Transposed
from kb_messages import KernelError

_Function = Callable[[Any, Any], Any]
_ARITHMETIC = add, sub, mul, floordiv, mod, lshift, rshift
_NEEDS = "integers, booleans, and vectors of such that tl.arange began"


def _operator(function: _Function, reflected: bool = False) -> Callable[[Concrete, Any], Any]:
    return lambda self, other: self._with(other, function, reflected)


class Concrete:
    """A vector or matrix of integers (i64) or booleans, read-only. Its elements read as Python numbers.

    Integer operators and comparisons work element by element, with numpy's broadcasting, and give a `Concrete` again;
    a comparison gives a mask. `v[:, None]` makes a column. *line* returns the line that the kernel stands at. Raises
    KernelError for floats, tensors, numbers beyond 64 bits, shapes that do not broadcast, and a division by zero.
    """

    __slots__ = ("_line", "data")

    def __init__(self, data: npt.NDArray[Any], line: Callable[[], str]) -> None:
        self.data = data if data.dtype == np.bool_ else data.astype(np.int64)
        self.data.flags.writeable = False
        self._line = line

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements in each dimension."""
        return self.data.shape

    def __getitem__(self, key: Any) -> Any:
        found = self.data[key]
        return found.item() if isinstance(found, np.generic) else Concrete(found, self._line)

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[Any]:
        return (self[number] for number in range(len(self)))

    def __bool__(self) -> bool:
        return bool(self._only_element("the truth value"))

    def __int__(self) -> int:
        return int(self._only_element("`int()`"))

    def __index__(self) -> int:
        return int(self._only_element("use as an index"))

    def _only_element(self, touched_by: str) -> Any:
        if self.data.size != 1:
            raise KernelError(self._line(), f"{touched_by} of {self}", "one element", "index it")
        return self.data.item()

    def __str__(self) -> str:
        kind = "booleans" if self.data.dtype == np.bool_ else "integers"
        return f"{' x '.join(map(str, self.shape))} {kind}"

    def _with(self, other: object, function: _Function, reflected: bool = False) -> Any:
        if isinstance(other, (Handle, Transposed)):
            return NotImplemented
        array = self._array(other, function)
        first, second = (array, self.data) if reflected else (self.data, array)
        if function in _ARITHMETIC:
            first, second = first.astype(np.int64), second.astype(np.int64)
        try:
            with np.errstate(divide="raise"):
                return Concrete(np.asarray(function(first, second)), self._line)
        except ValueError:
            got = f"{function.__name__} of {' x '.join(map(str, first.shape))} and {' x '.join(map(str, second.shape))}"
            raise KernelError(self._line(), got, "shapes that broadcast", "make a column: v[:, None]") from None
        except FloatingPointError:
            raise KernelError(self._line(), "a division by zero of integers", "another divisor") from None

    def _array(self, other: object, function: _Function) -> npt.NDArray[Any]:
        if isinstance(other, Concrete):
            return other.data
        if isinstance(other, (bool, np.bool_)):
            return np.asarray(other)
        try:
            return np.asarray(index(other), np.int64)  # type: ignore[arg-type]
        except TypeError:
            got = f"{function.__name__} of {self} and a {type(other).__name__}"
            raise KernelError(self._line(), got, _NEEDS) from None
        except OverflowError:
            raise KernelError(self._line(), f"{function.__name__} of {self} and {other}", "a number of i64") from None

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

    def __neg__(self) -> Concrete:
        return Concrete(-self.data.astype(np.int64), self._line)

    def __invert__(self) -> Concrete:
        return Concrete(~self.data, self._line)
