"""Math of integers that the simulator knows: on forms where the result is a form, and on arrays elsewhere."""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kb_engine.program import Affine, form_of, inverted
from kb_triton.language.tensors.dtypes import NUMPY, bounds, dtype, int1, wrapped
from kb_triton.language.tensors.program import refuse
from kb_triton.language.tensors.values import INTEGERS, Data, array_of, waits_of

COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip
_ON_FORMS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "tdiv": operator.floordiv, "trem": operator.mod,
    "lshift": operator.lshift, "bit_and": operator.and_, "bit_or": operator.or_, **COMPARISONS,
}  # fmt: skip


def _quotient(x: Any, y: Any) -> Any:
    """Returns the quotient rounded toward zero; 0 where y is 0."""
    if isinstance(x, int):
        return 0 if y == 0 else -(-x // y) if (x < 0) != (y < 0) else x // y
    whole = np.floor_divide(x, np.where(y == 0, 1, y))
    whole = whole + ((whole < 0) & (whole * y != x))
    return np.where(y == 0, 0, whole).astype(x.dtype)


def _remainder(x: Any, y: Any) -> Any:
    if isinstance(x, int):
        return 0 if y == 0 else x - _quotient(x, y) * y
    return np.where(y == 0, 0, np.fmod(x, np.where(y == 0, 1, y))).astype(x.dtype)


FUNCTIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "tdiv": _quotient, "trem": _remainder,
    "lshift": operator.lshift, "rshift": operator.rshift, "bit_and": operator.and_, "bit_or": operator.or_,
    "bit_xor": operator.xor, "maximum": np.maximum, "minimum": np.minimum, **COMPARISONS,
}  # fmt: skip
"""Functions of two integers, of Python or of numpy."""


def of_numbers(op: str, x: int, y: int, kind: dtype) -> int:
    """Returns the function *op* of two integers, computed in *kind*. Raises KernelError for a division by zero."""
    one: int = wrapped(_integer(x), kind)
    two: int = wrapped(_integer(y), kind)
    if op == "maximum" or op == "minimum":
        return max(one, two) if op == "maximum" else min(one, two)
    if op in ("tdiv", "trem") and y == 0:
        refuse("a division by zero of integers", "another divisor")
    if op in ("lshift", "rshift") and type(two) is int and not 0 <= two < kind.int_bitwidth:
        two = 0  # as for blocks; Triton leaves the result open
    found: Any = FUNCTIONS[op](one, two)
    if op in COMPARISONS:
        return bool(found)
    return bool(found) if kind is int1 else wrapped(found, kind)


def _integer(value: Any) -> Any:
    """Returns *value*, an integer or a boolean, as an integer."""
    return int(value) if type(value) is bool else value


def of_known(op: str, x: Any, y: Any, shape: tuple[int, ...], kind: dtype) -> Any:
    """Returns the function *op* of known integers, not both numbers, over *shape*, computed in *kind*."""
    function = _ON_FORMS.get(op)
    if function is not None and type(x) is not Data and type(y) is not Data:
        found = _of_forms(op, function, x, y, kind)
        if found is not None:
            return settled(found.broadcast(shape), kind)
    array = _apply(op, array_of(x, kind), array_of(y, kind))
    out = int1 if op in COMPARISONS else kind
    return Data(np.broadcast_to(array, shape), out.kb, (op, (x, y)), None, waits_of(x, y))


def _of_forms(op: str, function: Callable[[Any, Any], Any], x: Any, y: Any, kind: dtype) -> Any:
    one, two = _as_form(x), _as_form(y)
    if one is None or two is None:
        return _mask_with_number(op, x, y)
    if op in ("tdiv", "trem"):
        if not isinstance(one, Affine) or one.low < 0 or two.axes or two.base <= 0:
            return None
    elif op in ("bit_and", "bit_or") and isinstance(one, Affine) != isinstance(two, Affine):
        return None
    found = form_of(function, one, two)
    if isinstance(found, Affine) and not _fits(found, kind):
        return None
    return found


def _mask_with_number(op: str, x: Any, y: Any) -> Any:
    """Returns `&` or `|` of a mask and a boolean; None for other operands."""
    mask, number = (x, y) if type(y) is bool else (y, x)
    if type(number) is not bool or op not in ("bit_and", "bit_or") or isinstance(mask, (Affine, int)):
        return None
    keeps = number == (op == "bit_and")
    return mask if keeps else Affine.constant(int(number), mask.shape)


def _as_form(value: Any) -> Any:
    if type(value) in INTEGERS:
        return Affine((), value, ())
    return None if type(value) is bool else value


def _fits(form: Affine, kind: dtype) -> bool:
    low, high = bounds(kind)
    return low <= form.low and form.high <= high


def settled(form: Any, kind: dtype) -> Any:
    """Returns *form*, or the number that all elements are."""
    if isinstance(form, Affine):
        if any(form.steps):
            return form
        return bool(form.base) if kind is int1 else form.base
    if prod(form.shape) == 0:
        return form
    if isinstance(getattr(form, "intervals", None), tuple):
        if form.is_everywhere:
            return True
        if form.is_empty:
            return False
    return form


def _apply(op: str, x: npt.NDArray[Any], y: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if x.dtype == np.bool_ and op in ("add", "sub", "mul"):
        op = {"add": "bit_xor", "sub": "bit_xor", "mul": "bit_and"}[op]
    if op in ("lshift", "rshift"):
        beyond = (y < 0) | (y.astype(np.int64) >= 8 * x.dtype.itemsize)
        y = np.where(beyond, 0, y).astype(y.dtype)
    with np.errstate(all="ignore"):
        return np.asarray(FUNCTIONS[op](x, y))


def cast_known(value: Any, source: dtype, target: dtype) -> Any:
    """Returns the known integers *value* of type *source* as the integer type *target*."""
    if type(value) is Data:
        array = value.array != 0 if target is int1 else value.array.astype(NUMPY[target.name])
        of = ("ne", (value, 0)) if target is int1 else ("copy", (value,))
        return Data(array, target.kb, of, None, waits_of(value))
    if type(value) in INTEGERS or type(value) is bool:
        return bool(value) if target is int1 else wrapped(_integer(value), target)
    if isinstance(value, Affine):
        if target is int1:
            return of_known("ne", value, 0, value.shape, source)
        if _fits(value, target):
            return value
        return cast_known(Data(value.data(), source.kb, ("copy", (value,))), source, target)
    if target is int1:
        return value
    return Data(value.data().astype(NUMPY[target.name]), target.kb, ("copy", (value,)))


def inverted_known(value: Any, kind: dtype) -> Any:
    """Returns `~` of the known integers *value* of type *kind*."""
    if type(value) is not Data:
        found = inverted(value)
        if found is not None and (not isinstance(found, Affine) or _fits(found, kind)):
            return settled(found, kind)
    op = "not" if kind is int1 else "bit_not"
    return Data(~array_of(value, kind), kind.kb, (op, (value,)), None, waits_of(value))
