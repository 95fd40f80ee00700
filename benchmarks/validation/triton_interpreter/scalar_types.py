"""Types of Triton's scalars and blocks for the generator of kernels: what an operator makes of two values.

The generator needs the types to write kernels that Triton's compiler takes. What a kernel computes is read from the
compiler's own output (`ttir.py`), not from here.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, Final

BITS: Final = {
    "int1": 1, "int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64,
}  # fmt: skip
INTEGERS: Final = [each for each in BITS if each != "int1"]
FLOATS: Final = ["fp16", "bf16", "fp32"]
TL: Final = {"fp16": "tl.float16", "bf16": "tl.bfloat16", "fp32": "tl.float32"} | {each: f"tl.{each}" for each in BITS}
COMPARISONS: Final = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
OF_PYTHON: Final = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": operator.lshift,
    ">>": operator.rshift, **COMPARISONS,
}  # fmt: skip
BITWISE: Final = ("&", "|", "^", "<<", ">>")


@dataclass(frozen=True)
class Value:
    """An expression *text*. Its *kind* is a type of Triton, or empty for a constant, whose value is *number*."""

    text: str
    kind: str = ""
    is_block: bool = False
    number: Any = None

    @property
    def is_constant(self) -> bool:
        return not self.kind

    @property
    def is_float(self) -> bool:
        return self.scalar_kind in FLOATS

    @property
    def scalar_kind(self) -> str:
        """The type that Triton gives to the value once a name has it."""
        return self.kind or type_of(self.number)

    def named(self, name: str) -> Value:
        """The value of a *name* that it was assigned to."""
        return Value(name, self.scalar_kind, self.is_block)


def constant(number: Any) -> Value:
    text = repr(number)
    return Value(f"({text})" if text.startswith("-") else text, number=number)


def type_of(number: Any) -> str:
    if isinstance(number, bool):
        return "int1"
    if isinstance(number, float):
        return "fp32"
    return next(each for each in ("int32", "uint32", "int64", "uint64") if fits(number, each))


def bounds(kind: str) -> tuple[int, int]:
    bits = BITS[kind]
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind.startswith("int") and bits > 1 else (0, (1 << bits) - 1)


def fits(number: int, kind: str) -> bool:
    low, high = bounds(kind)
    return low <= number <= high


def is_signed(kind: str) -> bool:
    return kind.startswith("int") and kind != "int1"


def common(one: str, two: str, divides: bool) -> str | None:
    """The type of an operator of two tensors; None where Triton refuses them."""
    floats = [each for each in (one, two) if each in FLOATS]
    if floats:
        if divides or "fp32" in floats:
            return "fp32"
        if "fp16" in floats:
            return "fp16"
        return "bf16" if len(floats) == 2 else "fp32"
    if divides and is_signed(one) != is_signed(two):
        return None
    if is_signed(one) == is_signed(two):
        return one if BITS[one] > BITS[two] else two
    unsigned, signed = (two, one) if is_signed(one) else (one, two)
    return unsigned if BITS[unsigned] >= BITS[signed] else signed


def _rank(kind: str) -> int:
    return 2 if kind in FLOATS else 0 if kind == "int1" else 1


def _with_constant(kind: str, number: Any, divides: bool) -> str | None:
    """The type of an operator of a tensor of *kind* and the constant *number*."""
    own = type_of(number)
    if _rank(own) > _rank(kind):
        return common(own, kind, divides)
    if kind not in FLOATS and kind != "int1" and not fits(int(number), kind):
        return None
    return common(kind, kind, divides)


def type_of_operation(op: str, one: Value, two: Value) -> str | None:
    """The type in which *op* of two values, not both constants, is computed; None where Triton refuses it."""
    divides = op in ("/", "//", "%")
    if one.is_constant:
        kind = _with_constant(two.kind, one.number, divides)
    elif two.is_constant:
        kind = _with_constant(one.kind, two.number, divides)
    else:
        kind = common(one.kind, two.kind, divides)
    if kind in FLOATS and op in (*BITWISE, "//", "%"):
        return None
    if kind == "int1" and op in ("/", "//", "%", "<<", ">>"):
        return None
    return kind


def combined(op: str, one: Value, two: Value) -> Value | None:
    """The value of *op* of two values; None where Triton refuses it, leaves it open, or computes it in float64."""
    text = f"({one.text} {op} {two.text})"
    if one.is_constant and two.is_constant:
        return _of_constants(op, one.number, two.number, text)
    kind = type_of_operation(op, one, two)
    if kind is None:
        return None
    if op in COMPARISONS:
        kind = "int1"
    elif op == "/" and kind not in FLOATS:
        kind = "fp32"
    return Value(text, kind, one.is_block or two.is_block)


def _of_constants(op: str, one: Any, two: Any, text: str) -> Value | None:
    if op in BITWISE and (isinstance(one, float) or isinstance(two, float)):
        return None
    if (op in ("/", "//", "%") and two == 0) or (op in ("<<", ">>") and not 0 <= two < 8):
        return None
    found = OF_PYTHON[op](one, two)
    if isinstance(found, float) and found != 0 and not 1e-20 < abs(found) < 1e20:
        return None
    if isinstance(found, int) and abs(found) >= 1 << 40:
        return None
    return Value(text, number=found)
