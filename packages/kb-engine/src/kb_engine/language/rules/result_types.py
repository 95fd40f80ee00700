"""Type promotion: the dtype of a result, by Triton's table.

Source: Triton's type promotion (triton-lang.org, "Semantics"), and its source for division of narrow floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from kb_messages import MATH_FUNCTIONS, DType

_UNSIGNED = {DType.I8: DType.U8, DType.I16: DType.U16, DType.I32: DType.U32, DType.I64: DType.U64}
_ADDS = frozenset(("sum", "prod", "cumsum", "cumprod"))


def result_dtype(op: str, dtypes: Sequence[DType], numbers: Sequence[float] = ()) -> DType:
    """The dtype of *op* of tensors of *dtypes* and of *numbers*, which have no dtype. The condition of `where` does not
    count.

    A comparison gives bool, a search an index, i32, and a sum or product of integers i32 or u32 at least. A number of a
    higher kind than all tensors decides: a float makes f32 of integers, an integer i32 of booleans. Any other does not
    count.
    """
    function = MATH_FUNCTIONS[op]
    if function.is_test:
        return DType.BOOL
    if function.finds:
        return DType.I32
    telling = dtypes or [_of_numbers(numbers)]
    found = reduce(lambda one, two: promoted(one, two, divides=op == "div"), telling)
    if op == "div" and found.is_float and found.nbytes < DType.F32.nbytes:
        return DType.F32
    if op in _ADDS and not found.is_float and found.nbytes < DType.I32.nbytes:
        return DType.U32 if found in _UNSIGNED.values() else DType.I32
    if function.int_only or op == "copy":
        return found
    if not found.is_float and (op == "div" or any(isinstance(each, float) for each in numbers)):
        return DType.F32
    if found is DType.BOOL and any(type(each) is int for each in numbers):
        return DType.I32
    return found


def promoted(one: DType, two: DType, divides: bool = False) -> DType:
    """The dtype of a function of *one* and *two*: floats before integers, then the wider.

    f16 with bf16 or fp8 is f16, bf16 with another float f32, two kinds of fp8 f16. Of two integers of one width, the
    unsigned one. A division of narrow floats is f32.
    """
    if one.is_float != two.is_float:
        return one if one.is_float else two
    if one is two and not divides:
        return one
    if not one.is_float:
        wide, narrow = (one, two) if one.nbytes >= two.nbytes else (two, one)
        if DType.BOOL in (one, two):
            return narrow if wide is DType.BOOL else wide
        return wide if wide.nbytes > narrow.nbytes else _UNSIGNED.get(wide, wide) if one is not two else one
    if divides or DType.F32 in (one, two):
        return DType.F32
    if DType.F16 in (one, two):
        return DType.F16
    return DType.F32 if DType.BF16 in (one, two) else DType.F16


def _of_numbers(numbers: Sequence[float]) -> DType:
    if any(isinstance(each, float) for each in numbers):
        return DType.F32
    return DType.BOOL if numbers and all(isinstance(each, bool) for each in numbers) else DType.I32
