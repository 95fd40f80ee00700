"""Operators and elementwise math: types by Triton's table, and then numbers, known integers, or ops of the chip."""

from __future__ import annotations

from functools import lru_cache
from math import isfinite
from typing import Any, Final

import numpy as np

from kb_dataexec import cast as round_to
from kb_engine.program import Handle, plain
from kb_triton.language.tensors.dtypes import (
    dtype,
    float32,
    get_int_dtype,
    int1,
    promoted,
    type_of_number,
    with_number,
    wrapped,
)
from kb_triton.language.tensors.known_math import COMPARISONS, cast_known, inverted_known, of_known, of_numbers
from kb_triton.language.tensors.program import machine, refuse
from kb_triton.language.tensors.tensor import describe, provide, provided, tensor
from kb_triton.language.tensors.values import INTEGERS, NUMBERS, DotResult, as_argument, is_known

_SYMBOLS: Final = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "tdiv": "//", "trem": "%", "lshift": "<<", "rshift": ">>",
    "bit_and": "&", "bit_or": "|", "bit_xor": "^", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}  # fmt: skip
_INTEGERS_ONLY: Final = frozenset(("tdiv", "lshift", "rshift", "bit_and", "bit_or", "bit_xor"))
_SIGNS_MATTER: Final = frozenset(("tdiv", "trem", "rshift", "maximum", "minimum", *COMPARISONS))
_OF_BITS: Final = {"add": "bit_xor", "sub": "bit_xor", "mul": "bit_and"}
"""The bitwise functions that arithmetic on integers of one bit amounts to."""
_FLOATS: Final[dict[str, Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "maximum": np.maximum,
    "minimum": np.minimum, "maximum_number": np.fmax, "minimum_number": np.fmin, "trem": np.fmod, **COMPARISONS,
}  # fmt: skip


def as_tensor(value: Any) -> tensor:
    """Returns *value*, a tensor or a number, as a tensor. Raises KernelError for any other object."""
    if type(value) is tensor:
        return value
    number = plain_number(value)
    if number is None:
        refuse(describe(value), "a tensor or a number")
    kind = type_of_number(number)
    return tensor(rounded(number, kind), (), kind)


def plain_number(value: Any) -> Any:
    """Returns *value* as a plain Python number; None for an object that is no number."""
    if type(value) in NUMBERS:
        return value
    if isinstance(value, np.generic):
        return plain_number(value.item())
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int):
        return int(value)
    inner = getattr(value, "value", None)
    return None if inner is None or isinstance(value, tensor) else plain_number(inner)


def constant_number(value: Any) -> Any:
    """Returns *value*, a number or a scalar that the kernel knows, as a plain Python number; None for another object.

    It is for sizes, axes and switches, which are constants in Triton. A scalar is refused there before a kernel runs,
    unless kernels that Triton's compiler refuses are run, too.
    """
    if type(value) is not tensor:
        return plain_number(value)
    known = value.value
    return known if not value.shape and type(known) in (int, bool) else None


def rounded(number: float, kind: dtype) -> Any:
    """Returns *number* rounded or wrapped to the type *kind*."""
    if not kind.is_float:
        return bool(number) if kind is int1 else wrapped(whole(number), kind)
    if kind.is_f64 or number == 0:
        return float(number)
    return _rounded_float(float(number), kind)


def converted(number: Any, kind: dtype) -> Any:
    """Returns *number*, of a scalar of the kernel, cast to the type *kind*.

    An integer beyond 2^53 is rounded to a float once, as on the chip. `rounded` goes through float64, as Triton does
    for the constants of a kernel.
    """
    if kind.is_float and not kind.is_f64 and type(number) is int and abs(number) > 1 << 53:
        return float(round_to(np.array([number], np.int64 if number < 1 << 63 else np.uint64), kind.kb)[0])
    return rounded(number, kind)


@lru_cache(maxsize=4096)
def _rounded_float(number: float, kind: dtype) -> float:
    """Returns *number*, which is not 0, rounded to *kind*. The cache would take 0 and -0 for one key."""
    return float(round_to(np.array([number], np.float32), kind.kb)[0])


def whole(number: Any) -> Any:
    """Returns *number* rounded toward zero; 0 for NaN and infinity. A `Symbol` stays a `Symbol`."""
    if type(number) in INTEGERS:
        return number
    return int(number) if isfinite(number) else 0


def stored_number(number: Any, kind: dtype) -> Any:
    """Returns *number* in the chip's type for *kind*, its type. A float64 is moved as the integer of its bits."""
    return int(np.float64(number).view(np.uint64)) if kind.is_f64 else number


def broadcast_shapes(one: tuple[int, ...], two: tuple[int, ...], what: str) -> tuple[int, ...]:
    """Returns the shape of an op, *what*, of blocks of two shapes. Raises KernelError where they do not broadcast."""
    if one == two or not two:
        return one
    if not one:
        return two
    longer, shorter = (one, two) if len(one) >= len(two) else (two, one)
    padded = (1,) * (len(longer) - len(shorter)) + shorter
    found = []
    for a, b in zip(longer, padded, strict=True):
        if a != b and 1 not in (a, b):
            sizes = " and ".join(" x ".join(map(str, each)) for each in (one, two))
            refuse(f"{what} of blocks of {sizes}", "shapes that broadcast")
        found.append(b if a == 1 else a)
    return tuple(found)


def binary(op: str, x: Any, y: Any) -> Any:
    """Returns the result of the operator *op* of two values, of which at least one is a tensor.

    Returns NotImplemented for a value that is no tensor and no number.
    """
    if type(x) is not tensor:
        x = plain_number(x)
    if type(y) is not tensor:
        y = plain_number(y)
    if x is None or y is None:
        return NotImplemented
    if (type(x) is tensor and x.dtype.family == "void") or (type(y) is tensor and y.dtype.family == "void"):
        return provided("pointer_binary")(op, x, y)
    kind = _type(op, x, y)
    if op == "rshift" and type(x) is tensor and x.dtype.is_int_signed() and not kind.is_int_signed():
        # The sign of the shifted operand alone decides, as in Triton, so its bits are shifted as a signed integer.
        return provided("cast")(compute(op, x, y, get_int_dtype(kind.int_bitwidth, True)), kind)
    return compute(op, x, y, kind)


def add(x: Any, y: Any, sanitize_overflow: Any = True) -> tensor:
    """Returns `x + y`."""
    return _operated("add", x, y)


def sub(x: Any, y: Any, sanitize_overflow: Any = True) -> tensor:
    """Returns `x - y`."""
    return _operated("sub", x, y)


def mul(x: Any, y: Any, sanitize_overflow: Any = True) -> tensor:
    """Returns `x * y`."""
    return _operated("mul", x, y)


def _operated(op: str, x: Any, y: Any) -> tensor:
    found: tensor = binary(op, x, y)
    if found is NotImplemented:
        refuse(f"tl.{op} of {describe(x)} and {describe(y)}", "tensors and numbers")
    return found


def _type(op: str, x: Any, y: Any) -> dtype:
    """Returns the type that *op* of tensors and numbers computes in."""
    divides = op in ("div", "trem")
    if type(x) is tensor:
        kind = promoted(x.dtype, y.dtype, divides) if type(y) is tensor else with_number(x.dtype, y, divides)
    else:
        kind = with_number(y.dtype, x, divides) if type(y) is tensor else promoted(*map(type_of_number, (x, y)))
    if kind.is_float:
        if op in _INTEGERS_ONLY:
            refuse(f"{_SYMBOLS[op]} of floats", "integers", "cast to tl.int32 first")
        if kind.is_f64:
            refuse_f64(_SYMBOLS.get(op, op))
    elif op == "div":
        return float32
    return kind


def refuse_f64(what: str) -> None:
    """Raises KernelError for *what*, an op on float64."""
    refuse(
        f"{what} of tl.float64", "a type of 32 bits or less: the chip has no arithmetic on float64", "use tl.float32"
    )


def compute(op: str, x: Any, y: Any, kind: dtype) -> tensor:
    """Returns the function *op* of two tensors or numbers, computed in the type *kind*.

    Two numbers give a number, known integers give known integers, and all else becomes an op of the chip.
    """
    one, two = (x, y)
    if kind.is_float and kind.primitive_bitwidth < 32:
        one, two = (_rounded_operand(each, kind) for each in (one, two))
    elif kind is int1:
        op = _OF_BITS.get(op, op)
    a, one_shape = (one.value, one.shape) if type(one) is tensor else (rounded(one, kind), ())
    b, two_shape = (two.value, two.shape) if type(two) is tensor else (rounded(two, kind), ())
    if kind.is_float:
        a, b = (converted(each, kind) if type(each) is int else each for each in (a, b))
    shape = (
        one_shape if one_shape == two_shape else broadcast_shapes(one_shape, two_shape, _SYMBOLS.get(op, f"tl.{op}"))
    )
    out = int1 if op in COMPARISONS else kind
    if type(a) in NUMBERS and type(b) in NUMBERS:
        return tensor(_of_two_numbers(op, a, b, kind), shape, out)
    if not kind.is_float and is_known(a) and is_known(b):
        if op in _SIGNS_MATTER:
            is_wide = _is_beyond_int64(a) or _is_beyond_int64(b)
            a, b = _known_in_type(one, a, kind, is_wide), _known_in_type(two, b, kind, is_wide)
        return tensor(of_known(op, a, b, shape, kind), shape, out)
    if op == "add" and (type(a) is DotResult or type(b) is DotResult):
        summed = _added(one, two, shape, kind)
        if summed is not None:
            return tensor(summed, shape, kind)
    if op in _SIGNS_MATTER and not kind.is_float:
        is_wide = _is_beyond_int64(a) or _is_beyond_int64(b)
        a, b = _in_type(one, a, kind, is_wide), _in_type(two, b, kind, is_wide)
    if kind.is_float:
        op = "fmod" if op == "trem" else op
        a, b = (float(each) if type(each) in NUMBERS else each for each in (a, b))
    return tensor(machine().math(op, [as_argument(a), as_argument(b)], out.kb), shape, out)


def _rounded_operand(x: Any, kind: dtype) -> Any:
    """Returns *x* as *kind*, a float of 16 bits or less. A tensor of another type is rounded before the op."""
    return provided("cast")(x, kind) if type(x) is tensor and x.dtype != kind else x


def _added(one: Any, two: Any, shape: tuple[int, ...], kind: dtype) -> Any:
    """Returns a product that adds to the other term; None where the term has another shape or type."""
    for product, term in ((two, one), (one, two)):
        if type(product) is not tensor or type(product.value) is not DotResult or product.shape != shape:
            continue
        if type(term) is not tensor or term.dtype != product.dtype or term.shape != shape:
            if _is_zero(term) and kind == product.dtype:
                return product.value
            continue
        acc = term.value
        if type(acc) in NUMBERS and acc == 0:
            return product.value
        acc = acc.issued() if type(acc) is DotResult else acc
        if isinstance(acc, Handle) and acc.shape == shape:
            return product.value.added_to(acc)
    return None


def _is_zero(term: Any) -> bool:
    """Whether *term* is the number 0, or a scalar that the kernel knows to be 0."""
    number = term.value if type(term) is tensor and not term.shape else term
    return type(number) in NUMBERS and number == 0


def _of_two_numbers(op: str, a: Any, b: Any, kind: dtype) -> Any:
    if not kind.is_float:
        return of_numbers(op, a, b, kind)
    with np.errstate(all="ignore"):
        found = _FLOATS[op](np.float32(a), np.float32(b))
    return bool(found) if op in COMPARISONS else rounded(float(found), kind)


def _is_beyond_int64(value: Any) -> bool:
    """Whether *value* is a number that an operand of uint64 alone makes the chip take as unsigned."""
    return type(value) is int and value >= 1 << 63


def _known_in_type(x: Any, value: Any, kind: dtype, is_wide: bool) -> Any:
    """Returns the known integers *value* of *x*, cast to *kind* where `_is_cast` says so."""
    return cast_known(value, x.dtype, kind) if _is_cast(x, value, kind, is_wide) else value


def _in_type(x: Any, value: Any, kind: dtype, is_wide: bool) -> Any:
    """Returns *value* of *x*, cast to *kind* on the chip where `_is_cast` says so."""
    if type(value) in NUMBERS or not _is_cast(x, value, kind, is_wide):
        return value
    return machine().math("copy", [as_argument(value)], kind.kb)


def _is_cast(x: Any, value: Any, kind: dtype, is_wide: bool) -> bool:
    """Whether an op in *kind*, in which signs matter, needs *value* of *x* in this type.

    It does where one of its own type and *kind* is signed alone, and, if *is_wide*, beside a number beyond int64.
    """
    if type(x) is not tensor:
        return False
    return x.dtype.family not in (kind.family, "bool") or (is_wide and type(value) not in NUMBERS and x.dtype != kind)


def negative(x: Any) -> tensor:
    """Returns `-x`. An integer of one bit is its own negative."""
    if x.dtype is int1:
        return x  # type: ignore[no-any-return]
    if type(x.value) in NUMBERS:
        return tensor(rounded(-x.value, x.dtype), x.shape, x.dtype)
    if is_known(x.value):
        return compute("sub", 0, x, x.dtype)
    return elementwise("neg", x)


def inverted(x: Any) -> tensor:
    """Returns `~x`. Raises KernelError for floats."""
    if x.dtype.is_float:
        refuse("~ of floats", "integers")
    if type(x.value) in NUMBERS:
        return tensor(not x.value if x.dtype is int1 else wrapped(~x.value, x.dtype), x.shape, x.dtype)
    if is_known(x.value):
        return tensor(inverted_known(x.value, x.dtype), x.shape, x.dtype)
    return elementwise("not" if x.dtype is int1 else "bit_not", x)


def elementwise(op: str, x: tensor, kind: dtype | None = None) -> tensor:
    """Returns the function *op* of each element, as elements of *kind*, by default the type of *x*."""
    if x.dtype.is_f64:
        refuse_f64(f"tl.{op}")
    out = kind or x.dtype
    return tensor(machine().math(op, [bytes_of(x)], out.kb), x.shape, out)


def bytes_of(x: tensor) -> Any:
    """Returns the value of *x* as an operand of math that is no number: a handle, or known integers."""
    value = x.value
    if type(value) in NUMBERS:
        return machine().full((1,), plain(value), x.dtype.kb)
    return as_argument(value)


provide(binary=binary, negative=negative, inverted=inverted)
