"""Rules for functions that make blocks, or give them another shape."""

from __future__ import annotations

from math import prod
from typing import Any

from kb_triton.checking.arithmetic import broadcast as broadcast_both
from kb_triton.checking.arithmetic import converted
from kb_triton.checking.functions_of_tl.rules import (
    NONE,
    ZERO,
    axis_in,
    flag,
    given_tensor,
    integers_of,
    is_none,
    rule,
    tensor_of,
    varied,
)
from kb_triton.checking.host_functions import OUTSIDE
from kb_triton.checking.refusals import Refusal, unverified
from kb_triton.checking.values import (
    UNKNOWN,
    Constant,
    Group,
    Typed,
    Value,
    block,
    check_sizes,
    python_of,
    same_element,
    type_name,
)
from kb_triton.language.compile_errors import CompileTimeAssertionFailure
from kb_triton.language.tensors.dtypes import dtype, int32, pointer_type


@rule("program_id")
def program_id(axis: Value) -> Value:
    """Returns the type of `tl.program_id`."""
    return _number_of_program("program_id", axis)


@rule("num_programs")
def num_programs(axis: Value) -> Value:
    """Returns the type of `tl.num_programs`."""
    return _number_of_program("num_programs", axis)


def _number_of_program(name: str, axis: Value) -> Value:
    number = python_of(axis)
    if isinstance(number, Typed):
        raise Refusal(OUTSIDE)
    if number not in (0, 1, 2):
        raise Refusal(f"{name} axis must be 0, 1, or 2 but got {number}")
    return Typed(int32, ())


@rule("arange")
def arange(start: Value, end: Value) -> Value:
    """Returns the type of `tl.arange`."""
    low, high = python_of(start), python_of(end)
    if not isinstance(low, int) or not isinstance(high, int):
        raise Refusal("arange's arguments must be of type tl.constexpr")
    if low >> 32 or high >> 32:
        raise Refusal("arange must fit in int32")
    if high <= low:
        raise Refusal("arange's end argument must be greater than the start argument")
    if (high - low) & (high - low - 1):
        raise Refusal("arange's range must be a power of 2")
    return block(int32, (high - low,))


def checked_shape(shape: Value) -> list[int]:
    """Returns the sizes of a *shape* that a block can have."""
    return _checked(integers_of(shape))


def _checked(sizes: list[Any]) -> list[int]:
    check_sizes(sizes)
    return sizes


@rule("full")
def full(shape: Value, value: Value, dtype: Value) -> Value:
    """Returns the type of `tl.full`."""
    return _filled(shape, value, dtype)


def _filled(shape: Value, value: Value, kind: Value) -> Value:
    if not isinstance(shape, Group):
        raise Refusal(f"'{type(python_of(shape)).__name__}' object is not iterable")
    sizes, element = checked_shape(shape), python_of(kind)
    if element is None:
        raise Refusal("dtype must be specified when value is not a tensor")
    if not isinstance(element, dtype):
        return UNKNOWN
    if isinstance(value, Typed):
        if value.numel != 1:
            raise Refusal("only accepts size-1 tensor")
        converted(value, element)
        if value.is_block:
            raise Refusal("Cannot splat a block tensor")
    else:
        _check_filling(python_of(value), element)
    return block(element, sizes)


def _check_filling(value: Any, kind: dtype) -> None:
    """Refuses a constant that the compiler cannot make a scalar of *kind* of."""
    name = type_name(kind)
    if isinstance(kind, pointer_type):
        raise Refusal(f"'builder' object has no attribute 'get_{name}'")
    if kind.is_float:
        fits = isinstance(value, (int, float))
    elif kind.is_bool() or (isinstance(value, (int, float)) and value == 0):
        return
    else:
        low, high = (-(1 << 63), 1 << 63) if kind.is_int_signed() else (0, 1 << 64)
        fits = isinstance(value, int) and low <= value < high
    if fits:
        return
    shown = type(value).__name__.removeprefix("constexpr_")
    takes = "float" if kind.is_float else "int"
    raise Refusal(
        f"get_{name}(): incompatible function arguments. The following argument types are supported:\n"
        f"    1. get_{name}(self, arg: {takes}, /) -> triton._C.libtriton.ir.value\n\n"
        f"Invoked with types: triton._C.libtriton.ir.builder, {shown}"
    )


@rule("zeros", jitted=True)
def zeros(shape: Value, dtype: Value) -> Value:
    """Returns the type of `tl.zeros`."""
    return _filled(shape, Constant(0), dtype)


@rule("zeros_like", jitted=True)
def zeros_like(input: Value) -> Value:
    """Returns the type of `tl.zeros_like`."""
    found = given_tensor(input)
    return found.of(found.dtype)


@rule("to_tensor")
def to_tensor(x: Value) -> Value:
    """Returns the type of `tl.to_tensor`."""
    return tensor_of(x)


@rule("broadcast", default=UNKNOWN)
def broadcast(input: Value, other: Value) -> Value:
    """Returns the types of `tl.broadcast`."""
    return Group(broadcast_both(given_tensor(input, "type"), given_tensor(other, "type")))


@rule("broadcast_to", method=True)
def broadcast_to(input: Value, *shape: Value) -> Value:
    """Returns the type of `tl.broadcast_to`."""
    sizes, found = _checked(varied(shape)), given_tensor(input, "type")
    if not found.is_block:
        return block(found.dtype, sizes)
    before = [str(size) for size in found.shape]
    if len(found.shape) != len(sizes):
        raise Refusal(f"Cannot broadcast, rank mismatch: {before}, {sizes}")
    for at, (old, new) in enumerate(zip(found.shape, sizes, strict=True)):
        if old not in (1, new):
            raise Refusal(
                f"Cannot broadcast, the expanded size of the tensor ({new}) must match the existing size ({old}) at "
                f"non-singleton dimension {at}: {before}, {sizes}"
            )
    return block(found.dtype, sizes)


@rule("trans", method=True)
def trans(input: Value, *dims: Value) -> Value:
    """Returns the type of `tl.trans`."""
    found = given_tensor(input)
    order = varied(dims)
    if not order:
        rank = len(found.shape)
        if rank < 2:
            raise Refusal("tl.trans invoked with a 0- or 1-dimensional tensor")
        order = [*range(rank - 2), rank - 1, rank - 2]
    return permuted(found, order, is_one_argument=len(dims) == 1)


@rule("permute", method=True)
def permute(input: Value, *dims: Value) -> Value:
    """Returns the type of `tl.permute`."""
    return permuted(given_tensor(input), varied(dims), is_one_argument=len(dims) == 1)


def permuted(value: Typed, order: list[Any], is_one_argument: bool = False) -> Typed:
    """Returns the type of *value* with its axes in *order*, which may be one argument of the author's call."""
    if len(value.shape) != len(order):
        raise Refusal(f"permute dims must have the same length as input shape, got {len(value.shape)} and {len(order)}")
    if not all(isinstance(each, int) for each in order) or sorted(order) != list(range(len(order))):
        shown = str([str(each) for each in order]) if is_one_argument else f"({', '.join(map(str, order))})"
        raise Refusal(f"permute dims must be a permutation of 0, 1, ..., n-1, but were {shown}")
    return Typed(value.dtype, tuple(value.shape[each] for each in order))


@rule("reshape", method=True)
def reshape(input: Value, *shape: Value, can_reorder: Value = NONE) -> Value:
    """Returns the type of `tl.reshape`."""
    return _reshaped(input, varied(shape))


@rule("view", method=True)
def view(input: Value, *shape: Value) -> Value:
    """Returns the type of `tl.view`."""
    return _reshaped(input, varied(shape))


def _reshaped(input: Value, shape: list[Any]) -> Typed:
    sizes, found = _checked(shape), given_tensor(input, "type")
    if not sizes:
        return item(found)
    if prod(sizes) != found.numel:
        raise Refusal("reshape() cannot change total number of elements in tensor")
    return Typed(found.dtype, tuple(sizes))


@rule("item", method=True)
def item(input: Value) -> Typed:
    """Returns the type of the only element of a block."""
    found = given_tensor(input)
    if found.numel != 1:
        raise Refusal("can only unsplat single-element tensors")
    return Typed(found.dtype, ())


@rule("ravel", method=True, jitted=True)
def ravel(x: Value, can_reorder: Value = NONE) -> Value:
    """Returns the type of `tl.ravel`."""
    return _reshaped(x, [given_tensor(x, "numel").numel])


@rule("expand_dims", method=True)
def expand_dims(input: Value, axis: Value) -> Value:
    """Returns the type of `tl.expand_dims`."""
    found = tensor_of(input)
    axes = integers_of(axis)
    rank = len(found.shape) + len(axes)
    places = [axis_in(each, rank) for each in axes]
    if len(set(places)) != len(places):
        raise Refusal(f"expand_dims received duplicate axes, normalized axes = {places}")
    shape = list(found.shape)
    for each in sorted(places):
        shape.insert(each, 1)
    return block(found.dtype, shape)


@rule("join")
def join(a: Value, b: Value) -> Value:
    """Returns the type of `tl.join`."""
    one, two = broadcast_both(given_tensor(a, "type"), given_tensor(b, "type"))
    _check_one_type("join", one, two)
    return block(one.dtype, (*one.shape, 2))


def _check_one_type(name: str, one: Typed, two: Typed) -> None:
    if not same_element(one.dtype, two.dtype):
        raise unverified(f"{name} of {type_name(one.dtype)} and {type_name(two.dtype)}")


@rule("split", default=UNKNOWN, method=True)
def split(a: Value) -> Value:
    """Returns the types of `tl.split`."""
    found = given_tensor(a)
    if not found.shape:
        raise Refusal("split requires a non-scalar tensor")
    if found.shape[-1] != 2:
        raise Refusal(f"expected last dimension to be 2 for split, got {found.shape[-1]}")
    return Group((Typed(found.dtype, found.shape[:-1]), Typed(found.dtype, found.shape[:-1])))


@rule("interleave", jitted=True)
def interleave(a: Value, b: Value) -> Value:
    """Returns the type of `tl.interleave`."""
    one, two = broadcast_both(given_tensor(a, "type"), given_tensor(b, "type"))
    _check_one_type("join", one, two)
    return block(one.dtype, (*one.shape[:-1], 2 * one.shape[-1]) if one.shape else (2,))


@rule("cat")
def cat(input: Value, other: Value, can_reorder: Value = NONE, dim: Value = ZERO) -> Value:
    """Returns the type of `tl.cat`."""
    one, two = given_tensor(input), given_tensor(other)
    if flag(can_reorder):
        if len(one.shape) != 1:
            raise Refusal(f"expected 1D input for cat, got {len(one.shape)}D")
        return block(one.dtype, (one.shape[0] + two.shape[0],)) if two.shape else UNKNOWN
    rank = len(one.shape)
    _check_one_type("cat", one, two)
    if rank != len(two.shape):
        raise Refusal(f"tensors must have the same rank, got {rank} and {len(two.shape)}")
    at = axis_in(python_of(dim), rank)
    if one.shape != two.shape:
        raise Refusal(f"tl.cat requires tensors of the same shape, got {list(one.shape)} and {list(two.shape)}")
    return block(one.dtype, (*one.shape[:at], 2 * one.shape[at], *one.shape[at + 1 :]))


@rule("squeeze", jitted=True)
def squeeze(x: Value, dim: Value) -> Value:
    """Returns the type of `tl.squeeze`."""
    found, at = given_tensor(x), python_of(dim)
    rank = len(found.shape)
    if not isinstance(at, int):
        return UNKNOWN
    if not -rank <= at < rank or found.shape[at] != 1:
        raise Refusal("", error=CompileTimeAssertionFailure)
    at %= rank
    return Typed(found.dtype, (*found.shape[:at], *found.shape[at + 1 :]))


@rule("unsqueeze", jitted=True)
def unsqueeze(x: Value, dim: Value) -> Value:
    """Returns the type of `tl.unsqueeze`."""
    found, at = given_tensor(x), python_of(dim)
    rank = len(found.shape) + 1
    if not isinstance(at, int):
        return UNKNOWN
    if not -rank <= at < rank:
        raise Refusal("", error=CompileTimeAssertionFailure)
    at %= rank
    return Typed(found.dtype, (*found.shape[:at], 1, *found.shape[at:]))


@rule("flip", method=True, jitted=True)
def flip(x: Value, dim: Value = NONE) -> Value:
    """Returns the type of `tl.flip`."""
    found = given_tensor(x)
    at = len(found.shape) - 1 if is_none(dim) else python_of(dim)
    if not isinstance(at, int):
        return UNKNOWN
    at += len(found.shape) if at < 0 else 0
    if not 0 <= at < len(found.shape):
        raise Refusal("flip: dim must be None or in [-rank, rank)", error=CompileTimeAssertionFailure)
    return found.of(found.dtype)
