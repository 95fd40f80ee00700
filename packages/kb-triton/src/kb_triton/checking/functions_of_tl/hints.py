"""Rules for hints to the compiler, prints, assertions, and functions of a kernel that work on each element."""

from __future__ import annotations

import string
from typing import Any

from kb_triton.checking.arithmetic import common_shape
from kb_triton.checking.functions_of_tl.rules import NONE, ONE, class_text, given_tensor, nothing, rule, tensor_of
from kb_triton.checking.host_functions import OUTSIDE
from kb_triton.checking.refusals import Refusal
from kb_triton.checking.values import UNKNOWN, Constant, Group, Typed, Value, as_tensor, python_of
from kb_triton.checking.whole_check import WholeCheck


def _hinted(name: str, input: Value, values: Value, least: int) -> Value:
    if isinstance(values, Typed):
        raise Refusal(OUTSIDE)
    parts = values.values if isinstance(values, Group) else (values,)
    for at, each in enumerate(parts):
        if not isinstance(each, Constant):
            raise Refusal(f"values element {at} must have type `constexpr`")
        if not isinstance(each.value, int):
            raise Refusal(
                f"values element {at} must have type `constexpr[int]`, got `constexpr[{class_text(each.value)}]"
            )
    found = given_tensor(input)
    if max(least, len(found.shape)) != len(parts):
        raise Refusal(f"Shape of input to {name} does not match the length of values")
    return found


@rule("multiple_of")
def multiple_of(input: Value, values: Value) -> Value:
    """Returns the value of `tl.multiple_of`."""
    return _hinted("multiple_of", input, values, 1)


@rule("max_contiguous")
def max_contiguous(input: Value, values: Value) -> Value:
    """Returns the value of `tl.max_contiguous`."""
    return _hinted("max_contiguous", input, values, 0)


@rule("max_constancy")
def max_constancy(input: Value, values: Value) -> Value:
    """Returns the value of `tl.max_constancy`."""
    return _hinted("max_constancy", input, values, 0)


@rule("assume")
def assume(cond: Value) -> Value:
    """Returns the value of `tl.assume`."""
    tensor_of(cond)
    return nothing()


@rule("debug_barrier")
def debug_barrier() -> Value:
    """Returns the value of `tl.debug_barrier`."""
    return nothing()


@rule("condition", default=UNKNOWN)
def condition(arg1: Value, disable_licm: Value = NONE) -> Value:
    """Returns the value of `tl.condition`."""
    return arg1


@rule("constexpr", default=UNKNOWN)
def constexpr(value: Value) -> Value:
    """Returns the value of `tl.constexpr`."""
    return Constant(python_of(value)) if not isinstance(value, (Typed, Group)) else value


@rule("device_print")
def device_print(prefix: Value, *args: Value, hex: Value = NONE) -> Value:
    """Returns the value of a print."""
    text: Any = python_of(prefix)
    if not isinstance(text, str):
        raise Refusal(f"{text} is not string")
    if any(each not in string.printable for each in text):
        raise Refusal(f"{text} is not an ascii string")
    for each in args:
        as_tensor(each)
    return nothing()


@rule("device_assert")
def device_assert(cond: Value, msg: Value = NONE, mask: Value = NONE) -> Value:
    """Returns the value of an assertion."""
    tensor_of(cond)
    return nothing()


@rule("expect_zero")
def expect_zero(x: Value, mask: Value) -> Value:
    """Returns the value of `tl.expect_zero`."""
    return x


@rule("map_elementwise", default=UNKNOWN, needs_check=True)
def map_elementwise(scalar_fn: Value, *args: Value, pack: Value = ONE, check: WholeCheck) -> Value:
    """Returns the value of `tl.map_elementwise`."""
    values = [each for each in args if isinstance(each, Typed)]
    target = python_of(scalar_fn)
    if len(values) != len(args) or python_of(pack) != 1 or not hasattr(target, "arg_names"):
        return UNKNOWN
    shape: tuple[int, ...] = ()
    for each in values:
        shape = common_shape(shape, each.shape)
    found = check.call(target, [Typed(each.dtype, ()) for each in values], {})
    if isinstance(found, Typed):
        return Typed(found.dtype, shape)
    if isinstance(found, Group) and all(isinstance(each, Typed) for each in found.values):
        return Group(tuple(Typed(each.dtype, shape) for each in found.values if isinstance(each, Typed)))
    return UNKNOWN
