"""Triton's table of result types.

Source: triton-lang.org, "Semantics", and `python/triton/language/semantic.py` of Triton 3 for what the page leaves out.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from kb_triton.language.dtypes import (
    bfloat16,
    bounds,
    dtype,
    float16,
    float32,
    float64,
    int1,
    int32,
    int64,
    uint32,
    uint64,
)
from kb_triton.language.program import refuse

_KINDS: Final[dict[type, int]] = {bool: 0, int: 1, float: 2}


@lru_cache(maxsize=4096)
def promoted(one: dtype, two: dtype, divides: bool = False) -> dtype:
    """The type that an op of *one* and *two* computes in; *divides* for `/` and `%`."""
    if one.is_float != two.is_float:
        return _of_float_and_integer(one if one.is_float else two, divides)
    if one.is_float:
        return _of_floats(one, two, divides)
    if one == two:
        return one
    if one.is_int_signed() == two.is_int_signed():
        return one if one.int_bitwidth > two.int_bitwidth else two
    unsigned, signed = (two, one) if one.is_int_signed() else (one, two)
    return unsigned if unsigned.int_bitwidth >= signed.int_bitwidth else signed


def _of_floats(one: dtype, two: dtype, divides: bool) -> dtype:
    if float64 in (one, two):
        return float64
    if float32 in (one, two):
        return float32
    if float16 in (one, two):
        return float32 if divides else float16
    if bfloat16 in (one, two):
        return bfloat16 if one == two and not divides else float32
    return float32 if divides else one if one == two else float16


def _of_float_and_integer(kind: dtype, divides: bool) -> dtype:
    """As of two floats of which one is narrower than *kind*: bf16 is kept by two bf16 alone."""
    return float32 if kind == bfloat16 or (divides and kind == float16) else kind


def type_of_number(number: float) -> dtype:
    """The type of a Python number as a value of its own."""
    if type(number) in (bool, float):
        return int1 if type(number) is bool else float32
    for kind in (int32, uint32, int64, uint64):
        low, high = bounds(kind)
        if low <= number <= high:
            return kind
    refuse(f"the integer {number}", "one of 64 bits")


def with_number(kind: dtype, number: float, divides: bool = False) -> dtype:
    """The type that an op of a tensor of *kind* and a constant *number* computes in."""
    rank = 2 if kind.is_float else 0 if kind is int1 else 1
    if _KINDS[type(number)] <= rank:
        if kind.is_float:
            return float32 if divides and kind.primitive_bitwidth <= 16 else kind
        if kind is int1 or type(number) is bool:
            return kind
        low, high = bounds(kind)
        if not low <= number <= high:
            refuse(f"the constant {number} beside a tensor of {kind}", f"{low} to {high}", "cast the tensor first")
        return kind
    return type_of_number(number)
