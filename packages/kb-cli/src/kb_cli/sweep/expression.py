"""Expressions over the values of a point: `bw_gbs * depth <= 1024`. They can compute, and nothing else.

Every value on the way is bounded, so an expression from anybody takes neither time nor memory.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from simpleeval import DEFAULT_OPERATORS, InvalidExpression, NameNotDefined, SimpleEval

from kb_messages import BenchmarkError
from kb_topology import did_you_mean, listing, parse_nbytes

_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "log2": math.log2,
    "sqrt": math.sqrt,
    "int": int,
}
_TILE = re.compile(r"(\d{1,18})x(\d{1,18})x(\d{1,18})")
_ASSIGNMENT = re.compile(r"(?<![=!<>])=(?![=>])")
_MOST_CHARACTERS = 1000
"""The most characters of an expression, and of a text that it computes. Source: assumed."""
_MOST_LEVELS = 150
"""The deepest nesting of an expression. Source: assumed; a sum of so many terms is nested so deeply."""
_MOST_BITS: Final = 1023
"""The most bits of an integer that an expression computes. Every such integer is a finite float."""
Value = float | str | bool


class _TooLargeError(Exception):
    """Raised for a number or a text beyond the bounds, before it is computed."""


class Expression:
    """*text*, a Python expression over *names*, the axes of a sweep, and *fixed*, values that all points have.

    *where* is its place in errors. In names of axes, every character that no name of Python has is written `_`. Values
    are numbers; sizes such as `2 MiB` are bytes, and the sides of a tile called `tile` are `tile_m`, `tile_n` and
    `tile_k`. All else is text. Raises BenchmarkError for a text that is no expression.
    """

    def __init__(self, text: str, names: Sequence[str], where: str, fixed: Mapping[str, str] | None = None) -> None:
        self.text = text
        self._where = where
        self._names = {name: _identifier(name) for name in (*(fixed or ()), *names)}
        self._fixed = self._named(fixed or {})
        try:
            if len(text) > _MOST_CHARACTERS:
                raise self._error(f"{len(text)} characters", f"at most {_MOST_CHARACTERS}")
            self._parsed = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            fix = "compare with ==" if _ASSIGNMENT.search(text) else ""
            raise self._error(repr(text[:80]), f"one expression over {listing(self._names.values())}", fix) from None
        if (levels := _levels(self._parsed)) > _MOST_LEVELS:
            raise self._error(f"{levels} levels of nesting", f"at most {_MOST_LEVELS}")
        if any(isinstance(node, ast.keyword) for node in ast.walk(self._parsed)):
            raise self._error(repr(text[:80]), "functions of values alone, such as min(M, 3)")

    def value(self, point: Mapping[str, str]) -> Value:
        """Returns the value for *point*, the texts of its values by axis.

        Raises BenchmarkError for a name that is no axis, and for an operation that the values do not have.
        """
        names = {**self._fixed, **self._named(point)}
        try:
            found = _evaluator(names).eval(self.text, previously_parsed=self._parsed)
        except NameNotDefined as error:
            fix = did_you_mean(error.name, names) or f"give its values with -p {error.name}=VALUES"
            raise self._error(f"{error.name!r}", f"a name that has values here: {listing(names)}", fix) from None
        except (_TooLargeError, OverflowError):
            needs = f"integers of at most {_MOST_BITS} bits, and texts of at most {_MOST_CHARACTERS} characters"
            raise self._error(f"too large a value{_at(point)}", needs) from None
        except InvalidExpression:
            needs = f"operators and the functions {listing(_FUNCTIONS)} over {listing(names)}"
            raise self._error(repr(self.text), needs) from None
        except (ArithmeticError, TypeError, ValueError, LookupError) as error:
            raise self._error(f"{error}{_at(point)}", "an expression that every point has a value for") from None
        if not isinstance(found, (bool, int, float, str)):
            raise self._error(f"a {type(found).__name__} from {self.text!r}", "a number or a truth value")
        return found

    def holds(self, point: Mapping[str, str]) -> bool:
        """Returns the truth value for *point*. Raises BenchmarkError for any other value, and where there is no
        value.
        """
        found = self.value(point)
        if not isinstance(found, bool):
            raise self._error(f"{found!r}{_at(point)}", "true or false", "compare it, such as by == or <=")
        return found

    def number(self, point: Mapping[str, str]) -> float:
        """Returns the finite number for *point*. Raises BenchmarkError for any other value, and where there is no
        value.
        """
        found = self.value(point)
        if isinstance(found, str) or not math.isfinite(found):
            raise self._error(f"{found!r} from {self.text!r}", "a finite number")
        return float(found)

    def _named(self, values: Mapping[str, str]) -> dict[str, Value]:
        """Returns *values* by their names in expressions."""
        found: dict[str, Value] = {}
        for axis, text in values.items():
            found[self._names[axis]] = _value(text)
            if tile := _TILE.fullmatch(text):
                found |= {f"{self._names[axis]}_{side}": int(tile[at + 1]) for at, side in enumerate("mnk")}
        return found

    def _error(self, got: str, needs: str, fix: str = "") -> BenchmarkError:
        return BenchmarkError(self._where, got, needs, fix)


def _evaluator(names: dict[str, Value]) -> SimpleEval:
    """Returns an evaluator of *names* without access to attributes, and without texts of a format."""
    evaluator = SimpleEval(operators=_OPERATORS, names=names, functions=_BOUNDED_FUNCTIONS)
    for kind in (ast.Attribute, ast.JoinedStr, ast.FormattedValue):
        del evaluator.nodes[kind]
    evaluator.nodes[ast.Constant] = _constant
    return evaluator


def _levels(tree: ast.AST) -> int:
    """Returns the number of levels of *tree*, without recursion."""
    level, count = [tree], 0
    while level:
        level, count = [child for node in level for child in ast.iter_child_nodes(node)], count + 1
    return count


def _bounded(found: Any) -> Any:
    """Returns *found*. Raises _TooLargeError for an integer of too many bits, and for a text that is too long."""
    is_large = found.bit_length() > _MOST_BITS if isinstance(found, int) else _length(found) > _MOST_CHARACTERS
    if is_large:
        raise _TooLargeError
    return found


def _length(value: object) -> int:
    return len(value) if isinstance(value, (str, bytes)) else 0


def _constant(node: ast.Constant) -> Any:
    return _bounded(node.value)


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and abs(base) > 1:
        bits = (abs(base).bit_length() - 1) * abs(exponent)  # of the smallest power of as many bits
        if bits > _MOST_BITS:
            raise _TooLargeError
    return _bounded(base**exponent)


def _product(left: Any, right: Any) -> Any:
    for text, times in ((left, right), (right, left)):
        if _length(text) and isinstance(times, int) and times * _length(text) > _MOST_CHARACTERS:
            raise _TooLargeError
    return _bounded(left * right)


def _shifted_left(value: Any, bits: Any) -> Any:
    if isinstance(bits, int) and bits > _MOST_BITS:
        raise _TooLargeError
    return _bounded(value << bits)


def _remainder(left: Any, right: Any) -> Any:
    if isinstance(left, (str, bytes)):
        raise TypeError("% of a text")  # it would format the text, to any width
    return left % right


def _within_bounds(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns *function* of a bounded result. *function* itself makes no value that is much larger than its
    arguments.
    """
    return lambda *values: _bounded(function(*values))


_OPERATORS: Final[Mapping[type[ast.AST], Callable[..., Any]]] = {
    **{kind: _within_bounds(function) for kind, function in DEFAULT_OPERATORS.items()},
    ast.Add: _within_bounds(operator.add),
    ast.Mult: _product,
    ast.Pow: _power,
    ast.Mod: _remainder,
    ast.LShift: _shifted_left,
    ast.RShift: operator.rshift,
}
_BOUNDED_FUNCTIONS: Final = {name: _within_bounds(function) for name, function in _FUNCTIONS.items()}


_KIBI = re.compile(r"(\d{1,15})k")


def number_of(text: str) -> float | None:
    """Returns *text* as a number, a size such as `2 MiB` in bytes, and `4k` as 4096; None for other texts."""
    nbytes = parse_nbytes(text)
    if nbytes is not None:
        return nbytes
    if kibi := _KIBI.fullmatch(text):
        return float(kibi[1]) * 1024
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _value(text: str) -> Value:
    if text in ("true", "false"):
        return text == "true"
    found = number_of(text)
    if found is None:
        return text
    return int(found) if float(found).is_integer() and abs(found) < 2**53 else found


def _at(point: Mapping[str, str]) -> str:
    """Returns the place of *point* as the end of a sentence: ` at M=64 N=8`, and nothing where no axis varies."""
    values = " ".join(f"{name}={value}" for name, value in point.items())
    return f" at {values}" if values else ""


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)
