"""Call rules: the shape and dtype of the result of a call, cached by the shapes and dtypes of the arguments."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final, NamedTuple

from kb_engine.language.rules.math_results import (
    Argument,
    is_wide,
    needs_floats,
    result_shape,
    rows_of_axis,
    sort_arguments,
)
from kb_engine.language.rules.result_types import result_dtype
from kb_engine.language.vector.recorded import BoundedCache, RecordedFunction, RecordedTensor, recorded_function
from kb_engine.program.values.affine import sides_of
from kb_engine.program.values.handles import Handle
from kb_engine.program.values.symbols import plain
from kb_engine.program.values.tensors import TensorRef
from kb_messages import DType, KernelError, MathAttributes, VectorValue

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
