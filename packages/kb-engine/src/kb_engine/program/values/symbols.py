"""Symbol: an integer computed from the number of a program, for all programs of a grid at once.

While one program is traced, its number is a `Symbol`. Arithmetic with symbols gives symbols. An operation that needs
the number itself, such as a comparison, uses the number of the traced program, and drops the programs from its peers
that would decide otherwise.

Design: docs/design/replay-and-purity.md.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
_HIGHEST: Final = (1 << 63) - 1
_OTHER_NUMBERS: Final = float, complex, np.generic
"""Types of numbers whose arithmetic with an integer gives their own type, with other rounding and overflow."""
_MOST_LISTED: Final = 64
"""The most numbers that Python compares faster than numpy."""


class Peers:
    """The peers of program *number* of *count*, which do the same as it: `agree` is true for each peer, by number.

    `why_alone` names the act of the program that no other can repeat, and `alone_at` its line; "" for none. *line*
    returns the current line of the program.
    """

    def __init__(self, number: int, count: int, line: Callable[[], str] = str) -> None:
        self.number = number
        self.agree = np.ones(count, np.bool_)
        self.why_alone = self.alone_at = ""
        self._line = line
        self.is_open = True

    @property
    def own_number(self) -> Symbol:
        """The number of the program, as a symbol."""
        count = len(self.agree)
        return Symbol(self, np.arange(count, dtype=np.int64), count)

    def require(self, alike: npt.NDArray[np.bool_]) -> None:
        """Keeps the peers for which *alike* is true."""
        self.agree &= alike

    def leave(self, why: str) -> None:
        """Notes an act of the program, *why*, that no other program can repeat."""
        if not self.why_alone:
            self.why_alone = why
            self.alone_at = self._line() if self.is_open else ""

    def close(self) -> None:
        """Ends the trace. From now on, symbols are numbers where the programs agree on them."""
        self.is_open = False


def _arithmetic(function: Callable[[Any, Any], Any], bound: Callable[[int, int], int]) -> tuple[Any, Any]:
    """The methods of an operator, as it is and reflected. *bound* bounds the result by the bounds of the operands."""

    divides = function in (operator.floordiv, operator.mod)
    moves, scales = function in (operator.add, operator.sub), function is operator.mul

    def apply(one: Any, other: Any) -> Any:
        if type(one) is Symbol and type(other) in _WHOLE and not divides and one._peers.is_open:
            is_number = type(other) is int
            limit = bound(one._bound, abs(other) if is_number else other._bound)
            if limit <= _HIGHEST:
                values = function(one.values, other if is_number else other.values)
                if is_number and (moves or (scales and other)):  # they differ where the values of the symbol do
                    return Symbol(one._peers, values, limit)
                return _symbol(one._peers, values, limit)
        sides = [_side(each) for each in (one, other)]
        if None in sides:
            is_number = isinstance(one, _OTHER_NUMBERS) or isinstance(other, _OTHER_NUMBERS)
            return function(plain(one), plain(other)) if is_number else NotImplemented
        (first, most), (second, most_too) = sides  # type: ignore[misc]  # none is None
        peers = (one if type(one) is Symbol else other)._peers
        limit = bound(most, most_too)
        if limit > _HIGHEST or not peers.is_open or (divides and not np.all(second)):
            return function(plain(one), plain(other))
        return _symbol(peers, function(first, second), limit)

    return apply, lambda self, other: apply(other, self)


def _by_number(function: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    """The methods of an operator that takes the number itself, as it is and reflected."""
    return (
        lambda self, other: function(plain(self), plain(other)),
        lambda self, other: function(plain(other), plain(self)),
    )


def _comparison(function: Callable[[Any, Any], Any]) -> Any:
    def apply(self: Symbol, other: Any) -> Any:
        if isinstance(other, np.integer):
            return np.bool_(apply(self, int(other)))
        side = _side(other)
        if side is None:
            return function(plain(self), other) if isinstance(other, _OTHER_NUMBERS) else NotImplemented
        if side[1] > _HIGHEST:  # beyond all values
            return function(self.here, side[0])
        if not self._peers.is_open:
            return function(plain(self), plain(other))
        return self._decide(function(self.values, side[0]))

    return apply


def _number(function: Callable[[Any], Any]) -> Any:
    return lambda self, *arguments: function(plain(self), *arguments)


def _wider(one: int, two: int) -> int:
    return 1 << max(one.bit_length(), two.bit_length())


class Symbol:
    """An integer for each program: `values`, by program number. It behaves as the integer of the traced program.

    No absolute value is larger than *bound*.
    """

    __slots__ = ("_bound", "_is_pinned", "_peers", "values")

    def __init__(self, peers: Peers, values: Ints, bound: int) -> None:
        self.values = values
        self._peers = peers
        self._bound = bound
        self._is_pinned = False

    @property  # type: ignore[misc]  # isinstance(symbol, int) is true, as for the integer
    def __class__(self) -> type:
        return int

    @property
    def bound(self) -> int:
        """No absolute value is larger."""
        return self._bound

    @property
    def here(self) -> int:
        """The value of the traced program. The caller ensures that nothing else depends on it for other programs."""
        return int(self.values[self._peers.number])

    def pinned(self) -> int:
        """The value of the traced program. From now on, its peers are the programs with the same value."""
        if not self._is_pinned:
            if not self._peers.is_open:
                raise RuntimeError("a symbol that outlives its trace")
            self._peers.require(self.values == self.values[self._peers.number])
            self._is_pinned = True
        return self.here

    def _decide(self, truths: npt.NDArray[np.bool_]) -> bool:
        truth = bool(truths[self._peers.number])
        self._peers.require(truths == truth)
        return truth

    def __bool__(self) -> bool:
        return self._decide(self.values != 0) if self._peers.is_open else bool(self.pinned())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.pinned(), dtype=dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        return getattr(ufunc, method)(*map(plain, inputs), **named)

    def __array_function__(self, function: Any, _: object, arguments: Any, named: Any) -> Any:
        return function(*_plain_parts(arguments), **{name: _plain_parts(each) for name, each in named.items()})

    def __getattr__(self, name: str) -> Any:  # methods of integers, such as `bit_length`
        if not hasattr(0, name):
            raise AttributeError(f"'int' object has no attribute '{name}'", name=name, obj=self)
        return getattr(self.pinned(), name)

    __add__, __radd__ = _arithmetic(operator.add, operator.add)
    __sub__, __rsub__ = _arithmetic(operator.sub, operator.add)
    __mul__, __rmul__ = _arithmetic(operator.mul, operator.mul)
    __floordiv__, __rfloordiv__ = _arithmetic(operator.floordiv, lambda one, two: one + 1)
    __mod__, __rmod__ = _arithmetic(operator.mod, lambda one, two: two)
    __and__, __rand__ = _arithmetic(operator.and_, _wider)
    __or__, __ror__ = _arithmetic(operator.or_, _wider)
    __xor__, __rxor__ = _arithmetic(operator.xor, _wider)
    __rlshift__ = _by_number(operator.lshift)[1]
    __pow__, __rpow__ = _by_number(operator.pow)
    __truediv__, __rtruediv__ = _by_number(operator.truediv)
    __lt__, __le__ = _comparison(operator.lt), _comparison(operator.le)
    __gt__, __ge__ = _comparison(operator.gt), _comparison(operator.ge)
    __eq__, __ne__ = _comparison(operator.eq), _comparison(operator.ne)
    __hash__, __index__, __int__ = _number(hash), _number(int), _number(int)
    __float__, __complex__, __str__, __repr__ = _number(float), _number(complex), _number(str), _number(repr)
    __format__, __round__, __trunc__ = _number(format), _number(round), _number(int)
    __floor__ = __ceil__ = __pos__ = _number(int)

    def __rshift__(self, other: Any) -> Any:
        if type(other) is int and 0 <= other < 63 and self._peers.is_open:
            return _symbol(self._peers, self.values >> other, self._bound)
        return plain(self) >> plain(other)

    def __lshift__(self, other: Any) -> Any:
        return self * (1 << other) if type(other) is int and 0 <= other < 63 else plain(self) << plain(other)

    def __rrshift__(self, other: Any) -> Any:
        return other >> plain(self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __neg__(self) -> Any:
        return 0 - self

    def __invert__(self) -> Any:
        return -1 - self

    def __abs__(self) -> Any:
        return _symbol(self._peers, np.abs(self.values), self._bound) if self._peers.is_open else abs(self.pinned())


_WHOLE: Final = int, Symbol


def plain(value: Any) -> Any:
    """*value*; for a symbol the number of the traced program, and its peers are the programs with that number."""
    return value.pinned() if type(value) is Symbol else value


def _plain_parts(value: Any) -> Any:
    """*value*, or its parts, without symbols. A named tuple becomes a tuple."""
    kind = list if isinstance(value, list) else tuple if isinstance(value, tuple) else None
    return plain(value) if kind is None else kind(map(_plain_parts, value))


def is_symbol(value: object) -> bool:
    """Whether *value* is a `Symbol`, for which `isinstance(value, int)` is true as well."""
    return type(value) is Symbol


def whole(value: Any) -> Any:
    """*value* as an integer, by `operator.index`; a symbol stays a symbol."""
    return value if type(value) is Symbol else operator.index(value)


def is_span_inside(first: Any, last: Any, size: int) -> bool:
    """Whether the slice from *first* to *last*, of which one is a symbol, has the same length in all programs and lies
    within *size* elements in all of them. False also where that is not known at once."""
    symbol = first if type(first) is Symbol else last
    if type(symbol) is not Symbol or not symbol._peers.is_open or not {type(first), type(last)} <= {int, Symbol}:
        return False
    begin, end = (each.values if type(each) is Symbol else each for each in (first, last))
    lengths: Ints = end - begin
    if not _is_one_number(lengths) or lengths[0] < 1:
        return False
    lowest, highest = _ends(symbol.values)
    if first is not symbol:
        return bool(first >= 0 and highest <= size)
    return bool(lowest >= 0 and highest + lengths[0] <= size)


def row_address(bounds: Sequence[int], addresses: Sequence[int], rows: tuple[Any, Any], stride: int) -> Any:
    """The address of the first of *rows* in blocks of rows at *addresses*. *bounds* are the first rows of the blocks,
    and then the end; rows are *stride* bytes apart. None where the rows lie in several blocks.

    Programs whose rows lie in one block, the same block or another, stay peers.
    """
    top, bottom = rows
    peers, firsts = top._peers, top.values
    ends = bottom.values if type(bottom) is Symbol else bottom
    blocks = _blocks(tuple(bounds), tuple(addresses), stride)
    block = blocks.ends[:-1].searchsorted(firsts, side="right")
    if not top._decide(ends <= blocks.ends[block]):
        return None
    return _symbol(peers, blocks.starts[block] + firsts * stride, blocks.bound)


class _Blocks(NamedTuple):
    """The ends of blocks of rows, the address of row 0 if it were in each block, and a bound of all addresses."""

    ends: Ints
    starts: Ints
    bound: int


@lru_cache(maxsize=64)
def _blocks(bounds: tuple[int, ...], addresses: tuple[int, ...], stride: int) -> _Blocks:
    starts = np.array(addresses) - np.array(bounds[:-1]) * stride
    return _Blocks(np.array(bounds[1:]), starts, max(map(abs, addresses)) + bounds[-1] * stride)


def _side(value: Any) -> tuple[Any, int] | None:
    """An operand for numpy, and its bound; None for a value that is no integer."""
    if type(value) is Symbol:
        return value.values, value.bound
    if isinstance(value, int):
        number = int(value)
        return number, abs(number)
    return None


def _symbol(peers: Peers, values: Ints, bound: int) -> Any:
    """A symbol, or a number where all programs have the same."""
    return int(values[0]) if _is_one_number(values) else Symbol(peers, values, bound)


def _ends(values: Ints) -> tuple[int, int]:
    """The least and the greatest value."""
    if len(values) > _MOST_LISTED:
        return int(values.min()), int(values.max())
    listed: list[int] = values.tolist()
    return min(listed), max(listed)


def _is_one_number(values: Ints) -> bool:
    if values[0] != values[-1]:
        return False
    if len(values) > _MOST_LISTED:
        return bool((values == values[0]).all())
    listed: list[int] = values.tolist()
    return listed.count(listed[0]) == len(listed)
