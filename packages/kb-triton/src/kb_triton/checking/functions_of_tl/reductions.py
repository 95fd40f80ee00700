"""Rules for reductions, scans, sorts and counts."""

from __future__ import annotations

from typing import Any

from kb_triton.checking.arithmetic import binary, converted
from kb_triton.checking.functions_of_tl.elementwise import check_types, fdiv
from kb_triton.checking.functions_of_tl.rules import (
    NONE,
    ZERO,
    axis_in,
    flag,
    given_tensor,
    is_none,
    rule,
    tensor_of,
)
from kb_triton.checking.refusals import Refusal
from kb_triton.checking.values import UNKNOWN, Constant, Group, Typed, Value, block, is_unknown, python_of, same_type
from kb_triton.checking.whole_check import WholeCheck
from kb_triton.language.compile_errors import CompileTimeAssertionFailure
from kb_triton.language.tensors.dtypes import dtype, float32, int1, int32, uint32


def _reduced(value: Typed, axis: Any, keep_dims: bool) -> Typed:
    """Returns the type of a reduction of *value* along *axis*, or along all axes for None."""
    rank = len(value.shape)
    if axis is None and not rank:
        raise Refusal("'dtype' object has no attribute 'numel'")
    if axis is None:
        return Typed(value.dtype, (1,) * rank if keep_dims else ())
    at = axis_in(axis, rank)
    return Typed(value.dtype, (*value.shape[:at], *((1,) if keep_dims else ()), *value.shape[at + 1 :]))


def _scanned(value: Typed, axis: Any) -> Typed:
    axis_in(axis, len(value.shape))
    return value.of(value.dtype)


def _combined(check: WholeCheck, function: Value, values: tuple[Typed, ...]) -> None:
    """Checks the function that joins two elements of each of *values*."""
    target = python_of(function)
    if not hasattr(target, "arg_names") or not hasattr(target, "fn"):
        return
    found = check.call(target, [Typed(each.dtype, ()) for each in (*values, *values)], {})
    results = found.values if isinstance(found, Group) else (found,)
    if any(map(is_unknown, results)):
        return
    wanted = [Typed(each.dtype, ()) for each in values]
    if len(results) != len(wanted) or not all(same_type(*each) for each in zip(results, wanted, strict=True)):
        raise Refusal("")


def _inputs(input: Value) -> tuple[Typed, ...] | None:
    parts = input.values if isinstance(input, Group) else (input,)
    found = tuple(each for each in parts if isinstance(each, Typed))
    return found if len(found) == len(parts) and found else None


@rule("reduce", default=UNKNOWN, method=True, needs_check=True)
def reduce(input: Value, axis: Value, combine_fn: Value, keep_dims: Value = NONE, *, check: WholeCheck) -> Value:
    """Returns the value of `tl.reduce`."""
    values = _inputs(input)
    if values is None:
        return UNKNOWN
    found = tuple(_reduced(each, python_of(axis), flag(keep_dims)) for each in values)
    if any(each.shape != values[0].shape for each in values):
        raise Refusal("all reduction inputs must have the same shape")
    _combined(check, combine_fn, values)
    return Group(found) if isinstance(input, Group) else found[0]


@rule("associative_scan", default=UNKNOWN, method=True, needs_check=True)
def associative_scan(
    input: Value, axis: Value, combine_fn: Value, reverse: Value = NONE, *, check: WholeCheck
) -> Value:
    """Returns the value of `tl.associative_scan`."""
    values = _inputs(input)
    if values is None:
        return UNKNOWN
    found = tuple(_scanned(each, python_of(axis)) for each in values)
    if any(each.shape != values[0].shape for each in values):
        raise Refusal("all scan inputs must have the same shape")
    _combined(check, combine_fn, values)
    return Group(found) if isinstance(input, Group) else found[0]


def _as_summed(value: Typed, kind: Any) -> Typed:
    """Returns *value* in the type of its sum."""
    if isinstance(kind, dtype):
        return converted(value, kind)
    if value.is_pointer or value.dtype.is_float or value.dtype.int_bitwidth >= 32:
        return value
    return converted(value, int32 if value.dtype.is_int_signed() else uint32)


@rule("sum", method=True, jitted=True)
def sum_of(input: Value, axis: Value = NONE, keep_dims: Value = NONE, dtype: Value = NONE) -> Value:
    """Returns the type of `tl.sum`."""
    return _reduced(_as_summed(given_tensor(input, "dtype"), python_of(dtype)), python_of(axis), flag(keep_dims))


def _extreme(input: Value, axis: Value, with_index: Value, keep_dims: Value) -> Value:
    value = given_tensor(input, "dtype")
    if flag(with_index):
        if is_none(axis):
            raise Refusal("")
        found = _reduced(value, python_of(axis), flag(keep_dims))
        return Group((found, found.of(int32)))
    if not value.is_pointer and value.dtype.primitive_bitwidth < 32:
        value = converted(value, float32 if value.dtype.is_float else int32)
    return _reduced(value, python_of(axis), flag(keep_dims))


@rule("max", default=UNKNOWN, method=True, jitted=True)
def max_of(
    input: Value,
    axis: Value = NONE,
    return_indices: Value = NONE,
    return_indices_tie_break_left: Value = NONE,
    keep_dims: Value = NONE,
) -> Value:
    """Returns the value of `tl.max`."""
    return _extreme(input, axis, return_indices, keep_dims)


@rule("min", default=UNKNOWN, method=True, jitted=True)
def min_of(
    input: Value,
    axis: Value = NONE,
    return_indices: Value = NONE,
    return_indices_tie_break_left: Value = NONE,
    keep_dims: Value = NONE,
) -> Value:
    """Returns the value of `tl.min`."""
    return _extreme(input, axis, return_indices, keep_dims)


@rule("argmax", method=True, jitted=True)
def argmax(input: Value, axis: Value, tie_break_left: Value = NONE, keep_dims: Value = NONE) -> Value:
    """Returns the type of `tl.argmax`."""
    return _place(input, axis, keep_dims)


@rule("argmin", method=True, jitted=True)
def argmin(input: Value, axis: Value, tie_break_left: Value = NONE, keep_dims: Value = NONE) -> Value:
    """Returns the type of `tl.argmin`."""
    return _place(input, axis, keep_dims)


def _place(input: Value, axis: Value, keep_dims: Value) -> Value:
    found = _extreme(input, axis, Constant(True), keep_dims)
    assert isinstance(found, Group)
    return found.values[1]


@rule("xor_sum", method=True, jitted=True)
def xor_sum(input: Value, axis: Value = NONE, keep_dims: Value = NONE) -> Value:
    """Returns the type of `tl.xor_sum`."""
    return _of_bits("xor_sum", input, axis, keep_dims)


@rule("reduce_or", method=True, jitted=True)
def reduce_or(input: Value, axis: Value, keep_dims: Value = NONE) -> Value:
    """Returns the type of `tl.reduce_or`."""
    return _of_bits("reduce_or", input, axis, keep_dims)


def _of_bits(name: str, input: Value, axis: Value, keep_dims: Value) -> Value:
    value = given_tensor(input, "type")
    if value.is_pointer or not value.dtype.is_int():
        raise Refusal(f"{name} only supported for integers", error=CompileTimeAssertionFailure)
    return _reduced(value, python_of(axis), flag(keep_dims))


@rule("cumsum", method=True, jitted=True)
def cumsum(input: Value, axis: Value = ZERO, reverse: Value = NONE, dtype: Value = NONE) -> Value:
    """Returns the type of `tl.cumsum`."""
    return _scanned(_as_summed(given_tensor(input, "dtype"), python_of(dtype)), python_of(axis))


@rule("cumprod", method=True, jitted=True)
def cumprod(input: Value, axis: Value = ZERO, reverse: Value = NONE, dtype: Value = NONE) -> Value:
    """Returns the type of `tl.cumprod`."""
    return _scanned(_as_summed(given_tensor(input, "dtype"), python_of(dtype)), python_of(axis))


@rule("softmax", method=True, jitted=True)
def softmax(x: Value, dim: Value = NONE, *, keep_dims: Value = NONE, ieee_rounding: Value = NONE) -> Value:
    """Returns the type of `tl.softmax`."""
    axis = ZERO if is_none(dim) else dim
    shifted = binary("-", x, _extreme(x, axis, NONE, Constant(True)))
    check_types(["fp32", "fp64"], shifted)
    total = sum_of(shifted, axis, Constant(True))
    return fdiv(shifted, total, ieee_rounding)


def _minor(value: Typed, dim: Value) -> int:
    """Returns the last axis, which alone is sorted."""
    last = len(value.shape) - 1
    if not is_none(dim) and python_of(dim) != last:
        raise Refusal("only minor dimension is currently supported", error=CompileTimeAssertionFailure)
    return last


@rule("sort", "bitonic_merge", method=True, jitted=True)
def sort(x: Value, dim: Value = NONE, descending: Value = NONE) -> Value:
    """Returns the type of `tl.sort`."""
    value = given_tensor(x)
    _minor(value, dim)
    return value.of(value.dtype) if len(value.shape) and value.shape[-1] > 1 else UNKNOWN


@rule("topk", jitted=True)
def topk(x: Value, k: Value, dim: Value = NONE, descending: Value = NONE) -> Value:
    """Returns the type of `tl.topk`."""
    value, count = given_tensor(x), python_of(k)
    last = _minor(value, dim)
    if not isinstance(count, int) or last < 0:
        return UNKNOWN
    if count <= 0:
        raise Refusal("topk: k must be greater than 0", error=CompileTimeAssertionFailure)
    if count & (count - 1):
        raise Refusal("topk: k must be a power of two", error=CompileTimeAssertionFailure)
    if count > value.shape[last]:
        raise Refusal("topk: k must not exceed the size of the selected dimension", error=CompileTimeAssertionFailure)
    return UNKNOWN if count == 1 else block(value.dtype, (*value.shape[:-1], count))


@rule("histogram", method=True)
def histogram(input: Value, num_bins: Value, mask: Value = NONE) -> Value:
    """Returns the type of `tl.histogram`."""
    value = given_tensor(input)
    if len(value.shape) != 1:
        raise Refusal("histogram only supports 1D input")
    if value.is_pointer or not value.dtype.is_int() or value.dtype.int_bitwidth != 32:
        raise Refusal(f"histogram only supports 32-bit integer input, but got {value.dtype}")
    if not is_none(mask) and tensor_of(mask).dtype != int1:
        raise Refusal("Mask must have boolean scalar type")
    return block(int32, (python_of(num_bins),))


@rule("gather", method=True)
def gather(src: Value, index: Value, axis: Value) -> Value:
    """Returns the type of `tl.gather`."""
    value, at, number = given_tensor(src, "type"), given_tensor(index, "dtype"), python_of(axis)
    if at.is_pointer or not at.dtype.is_int():
        raise Refusal("index must be an integer tensor")
    rank = len(value.shape)
    if len(at.shape) != rank:
        raise Refusal("source and index tensors must have the same rank")
    if not isinstance(number, int):
        return UNKNOWN
    if not -rank <= number < rank:
        raise Refusal(f"gather axis {number} must be < source rank ({rank})")
    number %= rank
    for each in range(rank):
        if each != number and at.shape[each] != value.shape[each]:
            raise Refusal(f"index dim {number} must match the corresponding source dim")
    return Typed(value.dtype, at.shape)
