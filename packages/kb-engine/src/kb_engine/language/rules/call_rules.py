"""Call rules: the shape and dtype of the result of a call, cached by the shapes and dtypes of the arguments.

Source of the type promotion: Triton (triton-lang.org, "Semantics"), and its source for division of narrow floats.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import reduce
from typing import Any, Final, NamedTuple

from kb_engine.language.rules.math_results import (
    Argument,
    is_wide,
    needs_floats,
    result_shape,
    rows_of_axis,
    sort_arguments,
)
from kb_engine.language.vector.recorded import BoundedCache, RecordedFunction, RecordedTensor, recorded_function
from kb_engine.program.values.affine import sides_of
from kb_engine.program.values.handles import Handle
from kb_engine.program.values.symbols import plain
from kb_engine.program.values.tensors import TensorRef
from kb_messages import MATH_FUNCTIONS, DType, KernelError, MathAttributes, VectorValue

_UNSIGNED = {DType.I8: DType.U8, DType.I16: DType.U16, DType.I32: DType.U32, DType.I64: DType.U64}
_ADDS = frozenset(("sum", "prod", "cumsum", "cumprod"))
_RULES: Final[BoundedCache[tuple[Hashable, ...], CallRule]] = BoundedCache()


class CallRule(NamedTuple):
    """The rule of a call: its function, and the `shape` of its result.

    With `in_f32`, integer arguments are converted to f32 first. With `may_be_known`, the result of integers is known if
    its arguments are. With `has_wide`, a number among integer arguments cannot be represented in f64.
    """

    function: RecordedFunction
    shape: tuple[int, ...]
    in_f32: bool
    may_be_known: bool
    has_wide: bool


def call_rule(
    op: str, arguments: Sequence[Argument], axis: int | None, dtype: DType | None, reverse: bool, line: str
) -> CallRule:
    """The rule of a call of *op*, whose result has *dtype*, or that of its arguments. Raises the KernelErrors of the
    call."""
    axis = None if axis is None else plain(axis)
    key: list[Hashable] = [op, axis, dtype, reverse]
    for each in arguments:
        if type(each) is RecordedTensor:
            key += (each.shape, each.op.function.value.dtype)
        elif isinstance(each, Handle):
            key += (each.shape, each.dtype)
        else:
            key.append(type(each).__qualname__)
            key.append(repr(each))  # unlike the numbers, the texts differ for -0.0 and 0.0, and are equal for NaN
    found = _RULES.get(tuple(key))
    if found is None:
        found = _RULES.keep(tuple(key), _computed(op, arguments, axis, dtype, reverse, line))
    return found


def _computed(
    op: str, arguments: Sequence[Any], axis: int | None, dtype: DType | None, reverse: bool, line: str
) -> CallRule:
    values, scalars, scalar_at = sort_arguments(op, arguments, f"tl.{op}", line)
    if any(isinstance(value, TensorRef) for value in values):
        raise KernelError(line, f"tl.{op} of a TensorRef", "a loaded tensor", "tl.load it, or use tl.composite")
    deciding = arguments[1:] if op == "where" else arguments
    dtypes = [each.dtype for each in deciding if isinstance(each, Handle)]
    numbers = [each for each in deciding if isinstance(each, (int, float))]
    result = dtype or result_dtype(op, dtypes, numbers)
    shape = result_shape(op, [each.shape for each in values], axis, line)
    rows = (None, None) if axis is None else rows_of_axis(values[0].shape, axis)
    math = MathAttributes(op=op, axis=rows[0], scalars=scalars, scalar_at=scalar_at, reverse=reverse, group=rows[1])
    return CallRule(
        recorded_function(math, VectorValue(*sides_of(shape), result)),
        shape,
        needs_floats(op, dtypes, numbers),
        not (result.is_float or any(each.dtype.is_float for each in values)),
        any(is_wide(each) for each in numbers) and not any(each.is_float for each in (result, *dtypes)),
    )


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
