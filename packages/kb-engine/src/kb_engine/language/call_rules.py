"""Rules of calls of `tl`: the shape and dtype of a result, cached by the shapes and dtypes of the arguments, and the
value and wraps of known integers.

Source of the type promotion: Triton (triton-lang.org, "Semantics"), and its source for division of narrow floats.
Design: docs/design/kernel-language.md.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import reduce
from itertools import accumulate
from math import prod
from operator import mul
from typing import Any, Final, NamedTuple, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from kb_engine.language.vector.recorded import BoundedCache, RecordedFunction, RecordedTensor, recorded_function
from kb_engine.program.author.arguments import describe
from kb_engine.program.values.affine import sides_of
from kb_engine.program.values.handles import Handle
from kb_engine.program.values.host_values import HostValue
from kb_engine.program.values.symbols import plain
from kb_engine.program.values.tensors import TensorRef
from kb_engine.program.values.transposed import Transposed, refuse
from kb_messages import MATH_FUNCTIONS, DType, KernelError, MathAttributes, Scalar, VectorValue, scalar_of

Argument: TypeAlias = "TensorRef | Handle | HostValue | float"
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
    """The rule of a call of *op*, whose result has *dtype* or that of its arguments. Raises the call's KernelErrors."""
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


def sort_arguments(
    op: str, arguments: Sequence[Argument | Transposed[Any]], call: str, line: str
) -> tuple[list[TensorRef | Handle], tuple[Scalar, ...], tuple[int, ...]]:
    """The operands, the numbers, and the positions of the numbers unless all of them follow the operands.

    Raises KernelError for transposed tensors and other types, for numbers alone, and for the wrong number of arguments.
    """
    arguments = [each.item() if isinstance(each, np.generic) else each for each in arguments]  # type: ignore[redundant-expr]
    for argument in arguments:
        refuse(argument, f"{call} of", line)
        if not isinstance(argument, (TensorRef, Handle, int, float)):
            fix = "give it to the kernel as an argument and tl.load it; tl.load(x[...]) brings a part of a tensor"
            is_array = isinstance(argument, np.ndarray)
            raise KernelError(line, f"{call} of {describe(argument)}", "a tensor or a number", fix if is_array else "")
    values = [each for each in arguments if isinstance(each, (TensorRef, Handle))]
    if not values:
        raise KernelError(line, f"{call} of numbers alone", "a tensor among them")
    if len(arguments) != MATH_FUNCTIONS[op].arity:
        raise KernelError(line, f"{call} of {len(arguments)} arguments", str(MATH_FUNCTIONS[op].arity))
    at = tuple(number for number, each in enumerate(arguments) if isinstance(each, (int, float)))
    scalars = tuple(scalar_of(each) for each in arguments if isinstance(each, (int, float)))
    return values, scalars, () if at == tuple(range(len(values), len(arguments))) else at


def broadcast(shapes: Sequence[tuple[int, ...]], op: str, line: str) -> tuple[int, ...]:
    """The shape to which *shapes* broadcast, by numpy's rules. Raises KernelError when they do not broadcast."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = ", ".join(" x ".join(map(str, shape)) for shape in shapes)
        raise KernelError(line, f"{op} of {listed}", "shapes that broadcast") from None


def result_shape(op: str, shapes: Sequence[tuple[int, ...]], axis: int | None, line: str) -> tuple[int, ...]:
    """The shape of *op*'s result: 1 along *axis* of a reduction. Raises KernelError when *shapes* do not broadcast."""
    shape = broadcast(shapes, op, line)
    if not MATH_FUNCTIONS[op].reduces:
        return shape
    return tuple(1 if number == axis else size for number, size in enumerate(shape))


def rows_of_axis(shape: tuple[int, ...], axis: int) -> tuple[int, tuple[int, int] | None]:
    """The axis, 0 or 1, of the matrix in TCM of a value of *shape*, for *axis* of the value, and its groups of rows.

    The last axis is along a row. Any other axis has groups of rows (length, step), or None where all rows are one
    group.
    """
    if axis == len(shape) - 1:
        return 1, None
    step = prod(shape[axis + 1 : -1])
    return 0, None if prod(shape[:axis]) * step == 1 else (shape[axis], step)


def spreads(shape: tuple[int, ...], wanted: tuple[int, ...]) -> list[tuple[tuple[int, int], tuple[int, ...]]]:
    """The groups of `spread` that repeat a value of *shape* to the rows of a value of *wanted*, each with its new
    shape.

    There are none for a value of one row, which is combined with every row of another value.
    """
    padded = [1] * (len(wanted) - len(shape)) + list(shape)
    found: list[tuple[tuple[int, int], tuple[int, ...]]] = []
    if prod(padded[:-1]) == 1:
        return found
    axis = len(wanted) - 2
    while axis >= 0:
        first = axis
        while first >= 0 and padded[first] == 1 < wanted[first]:
            first -= 1
        n = prod(wanted[first + 1 : axis + 1])
        if n > 1:
            padded[first + 1 : axis + 1] = wanted[first + 1 : axis + 1]
            found.append(((n, prod(padded[axis + 1 : -1])), tuple(padded)))
        axis = min(first, axis - 1)
    return found


def needs_floats(op: str, dtypes: Sequence[DType], numbers: Sequence[float]) -> bool:
    """Whether *op* computes with floats although some of its tensors, of *dtypes*, are integers."""
    if not dtypes or MATH_FUNCTIONS[op].int_only or op == "copy":
        return False
    if any(each.is_float for each in dtypes):
        return MATH_FUNCTIONS[op].float_only and not all(each.is_float for each in dtypes)
    return op == "div" or any(isinstance(each, float) for each in numbers)


def is_wide(value: object) -> TypeGuard[int]:
    """Whether *value* is a whole number that a scalar of the log, an f64, cannot represent."""
    return type(value) is int and (not -(2**63) <= value < 2**63 or int(float(value)) != value)


def filled_integers(number: int, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """An i64 array of *number*, read-only."""
    found = np.full(shape, number, np.int64)
    found.flags.writeable = False
    return found


def steps_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The distance of neighbours along each axis of a value of *shape* that lies row by row."""
    return tuple(reversed(list(accumulate((1, *reversed(shape[1:])), mul))))


def known_value(
    math: MathAttributes, values: Sequence[TensorRef | Handle], shape: tuple[int, ...], dtype: DType
) -> npt.NDArray[Any] | None:
    """The value of a function of integers that are known; None for floats and for pending arguments."""
    if dtype.is_float or any(value.dtype.is_float for value in values):
        return None
    arrays = [value.known for value in values if isinstance(value, Handle) and value.known is not None]
    if len(arrays) < len(values):
        return None
    from kb_dataexec.execute import evaluate_integers

    inputs = [each.reshape(sides_of(each.shape)) for each in arrays]
    found = evaluate_integers(math, inputs, [each.dtype for each in values], VectorValue(*sides_of(shape), dtype))
    found = found.reshape(shape)
    found.flags.writeable = False
    return found


_EXACT: Final[dict[str, Callable[..., Any]]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    "lshift": lambda x, n: x * 2.0**n,
    "copy": lambda x: x,
}
"""The functions whose results can wrap, computed in f64: its rounding is far smaller than the change by a wrap."""
_PASSES_ON: Final = (*_EXACT, "maximum", "minimum", "where")
"""Functions whose result counts as wrapped if an argument has wrapped. Remainders and comparisons do not belong
here."""


def wrapped_at(math: MathAttributes, values: Sequence[Handle], dtype: DType, line: str) -> str:
    """The line of the wrap on which the result of *math* of *values*, known integers, as *dtype*, depends.

    It is *line* where the function itself wraps, and "" if nothing wrapped.
    """
    if math.op not in _PASSES_ON:
        return ""
    before = next((each.wrapped_at for each in values if each.wrapped_at), "")
    return before or (line if _wraps(math, [each.known for each in values if each.known is not None], dtype) else "")


def _wraps(math: MathAttributes, arrays: Sequence[npt.NDArray[Any]], dtype: DType) -> bool:
    function = _EXACT.get(math.op)
    if function is None or dtype is DType.BOOL:
        return False
    with np.errstate(all="ignore"):
        exact = function(*(np.asarray(each, np.float64) for each in math.arguments(arrays)))
    signed = dtype.name.startswith("I")
    high = 2.0 ** (8 * dtype.nbytes - signed)
    return bool((exact < (-high if signed else 0)).any() or (exact >= high).any())
