"""Rules for functions of each element."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan
from typing import Any, Final

from kb_triton.checking.arithmetic import (
    add,
    binary,
    broadcast,
    computation_type,
    converted,
    in_type,
    operands,
    subtract,
)
from kb_triton.checking.arithmetic import logical as joined
from kb_triton.checking.functions_of_tl.rules import NONE, flag, rule, tensor_of
from kb_triton.checking.refusals import Refusal, unverified
from kb_triton.checking.values import (
    SOME_TENSOR,
    Constant,
    Typed,
    Value,
    is_number,
    python_of,
    same_element,
    type_name,
    type_of_constant,
    type_repr,
)
from kb_triton.language.tensors.dtypes import dtype, float32, int1, pointer_type

_FLOATS: Final = ["fp32", "fp64"]
_INTEGERS: Final = ["int32", "int64", "uint32", "uint64"]


def check_types(known: list[str], *values: Value) -> None:
    """Refuses tensors of other types than *known*."""
    for each in values:
        if isinstance(each, Typed) and type_name(each.dtype) not in known:
            raise Refusal(f"Expected dtype {known} but got {type_name(each.dtype)}")


def _rule_of_floats(name: str, known: list[str]) -> None:
    """Adds the rule of `tl.NAME`, which takes elements of the types *known* and keeps their type."""

    @rule(name, method=True)
    def find(x: Value) -> Value:
        check_types(known, x)
        found = tensor_of(x)
        return found.of(found.dtype)


for _name in ("exp", "exp2", "log", "log2", "cos", "sin", "sqrt", "rsqrt", "erf", "floor", "ceil", "sqrt_rn"):
    _rule_of_floats(_name, ["fp32"] if _name == "sqrt_rn" else _FLOATS)


@rule("abs", method=True)
def absolute(x: Value) -> Value:
    """Returns the type of `tl.abs`."""
    found = tensor_of(x)
    if found.is_pointer:
        raise Refusal(f"Unexpected dtype {type_name(found.dtype)}")
    return found.of(found.dtype)


def _no_pointer(value: Typed) -> Typed:
    if value.is_pointer:
        raise Refusal(f"invalid operands of type {type_repr(value.dtype)} and {type_repr(value.dtype)}")
    return value


@rule("minimum")
def minimum(x: Value, y: Value, propagate_nan: Value = NONE) -> Value:
    """Returns the type of `tl.minimum`."""
    return _no_pointer(operands(x, y)[0])


@rule("maximum")
def maximum(x: Value, y: Value, propagate_nan: Value = NONE) -> Value:
    """Returns the type of `tl.maximum`."""
    return _no_pointer(operands(x, y)[0])


@rule("add")
def sum_of(x: Value, y: Value, sanitize_overflow: Value = NONE) -> Value:
    """Returns the type of `tl.add`."""
    return add(x, y)


@rule("sub")
def difference_of(x: Value, y: Value, sanitize_overflow: Value = NONE) -> Value:
    """Returns the type of `tl.sub`."""
    return subtract(x, y)


@rule("mul")
def product_of(x: Value, y: Value, sanitize_overflow: Value = NONE) -> Value:
    """Returns the type of `tl.mul`."""
    return _no_pointer(operands(x, y)[0])


def _extreme(name: str, choose: Callable[..., Any], values: tuple[Value, ...]) -> Value:
    if not any(isinstance(each, Typed) for each in values):
        numbers = [python_of(each) for each in values]
        if any(isinstance(each, float) and isnan(each) for each in numbers):
            raise Refusal(f"constexpr {name} does not support NaN values")
        return Constant(choose(*numbers)) if all(isinstance(each, (int, float)) for each in numbers) else SOME_TENSOR
    if len(values) < 2:
        raise Refusal("min requires at least 2 values")
    found = values[0]
    for each in values[1:]:
        found = _no_pointer(operands(found, each)[0])
    return found


@rule("builtin_min")
def builtin_min(*args: Value, propagate_nan: Value = NONE) -> Value:
    """Returns the value of Python's `min`."""
    return _extreme("min", min, args)


@rule("builtin_max")
def builtin_max(*args: Value, propagate_nan: Value = NONE) -> Value:
    """Returns the value of Python's `max`."""
    return _extreme("max", max, args)


def _of_three(one: Value, two: Value, three: Value) -> Typed:
    """Returns the common type of three operands. Numbers count after all tensors."""
    kinds: dict[bool, dtype | None] = {True: None, False: None}
    for each in (one, two, three):
        number = is_number(each)
        kind = type_of_constant(python_of(each)) if number else tensor_of(each).dtype
        if isinstance(kind, pointer_type):
            raise Refusal(f"unexpected type {type_name(kind)}")
        before = kinds[number]
        kinds[number] = kind if before is None else computation_type(before, number, kind, number, False)
    of_tensors, of_numbers = kinds[False], kinds[True]
    if of_tensors is None or of_numbers is None:
        kind = of_tensors or of_numbers
    else:
        kind = computation_type(of_tensors, False, of_numbers, True, False)
    assert kind is not None
    first, second, third = (in_type(each, kind) for each in (one, two, three))
    first, second = broadcast(first, second)
    first, third = broadcast(first, third)
    return broadcast(second, third)[0] if first.shape != third.shape else first


@rule("clamp")
def clamp(x: Value, min: Value, max: Value, propagate_nan: Value = NONE) -> Value:
    """Returns the type of `tl.clamp`."""
    return _of_three(x, min, max)


@rule("fma")
def fma(x: Value, y: Value, z: Value) -> Value:
    """Returns the type of `tl.fma`."""
    return _of_three(x, y, z)


@rule("umulhi")
def umulhi(x: Value, y: Value) -> Value:
    """Returns the type of `tl.umulhi`."""
    check_types(_INTEGERS, x, y)
    return operands(x, y)[0]


@rule("div_rn")
def div_rn(x: Value, y: Value) -> Value:
    """Returns the type of `tl.div_rn`."""
    check_types(["fp32"], x, y)
    return operands(x, y)[0]


@rule("fdiv")
def fdiv(x: Value, y: Value, ieee_rounding: Value = NONE, approx: Value = NONE) -> Value:
    """Returns the type of `tl.fdiv`."""
    if flag(ieee_rounding) and flag(approx):
        raise Refusal("approx and ieee_rounding cannot both be True")
    found = operands(x, y, divides=True)[0]
    if not found.dtype.is_float:
        raise Refusal("fdiv requires floating-point operands after type promotion")
    if flag(approx) and found.dtype != float32:
        raise Refusal("approx division requires float32 operands")
    return found


@rule("cdiv", method=True, jitted=True)
def cdiv(x: Value, div: Value) -> Value:
    """Returns the value of `tl.cdiv`."""
    less = binary("-", div, Constant(1))
    return binary("//", binary("+", x, less), div)


@rule("sigmoid", method=True, jitted=True)
def sigmoid(x: Value) -> Value:
    """Returns the type of `tl.sigmoid`."""
    check_types(_FLOATS, x)
    found = tensor_of(x)
    return found.of(found.dtype)


@rule("where")
def where(condition: Value, x: Value, y: Value) -> Value:
    """Returns the type of `tl.where`."""
    chosen = converted(tensor_of(condition), int1)
    one, two = operands(x, y, pointers=(True, True))
    if not same_element(one.dtype, two.dtype):
        raise unverified(f"tl.where of {type_name(one.dtype)} and {type_name(two.dtype)}")
    if chosen.is_block:
        _, one = broadcast(chosen, one)
        one, _ = broadcast(one, two)
    return one.of(one.dtype)


@rule("logical_and", "logical_or", method=True)
def logical(x: Value, y: Value) -> Value:
    """Returns the type of `x.logical_and(y)`."""
    return joined(x, tensor_of(y))
