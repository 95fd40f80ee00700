"""The result types of operators, and the operands that Triton refuses. Numbers beside tensors are constants.

Source: the language reference of Triton, "Semantics", and the behaviour of the compiler of Triton 3.9.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

from kb_triton.checking.refusals import Refusal, unsupported
from kb_triton.checking.values import (
    SOME_TENSOR,
    UNKNOWN,
    Constant,
    Group,
    Plain,
    Typed,
    Unknown,
    Value,
    as_tensor,
    block,
    class_name,
    is_number,
    python_of,
    same_element,
    type_name,
    type_of_constant,
    type_repr,
    wrapped,
)
from kb_triton.language.tensors.dtypes import bfloat16, bounds, dtype, float16, float32, float64, int1, pointer_type

SYMBOLS: Final = {
    "Add": "+", "Sub": "-", "Mult": "*", "Div": "/", "FloorDiv": "//", "Mod": "%", "Pow": "**", "LShift": "<<",
    "RShift": ">>", "BitAnd": "&", "BitOr": "|", "BitXor": "^", "Eq": "==", "NotEq": "!=", "Lt": "<", "LtE": "<=",
    "Gt": ">", "GtE": ">=",
}  # fmt: skip
"""The operators that Triton has, by the names of Python's syntax tree."""
_PYTHONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "<<": operator.lshift, ">>": operator.rshift, "&": operator.and_,
    "|": operator.or_, "^": operator.xor, "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
COMPARISONS: Final = frozenset(("==", "!=", "<", "<=", ">", ">="))
_BITS: Final = frozenset(("&", "|", "^", "<<", ">>"))


def binary(symbol: str, one: Value, two: Value) -> Value:
    """Returns the result of the operator *symbol* of *one* and *two*."""
    if isinstance(one, Typed) or isinstance(two, Typed):
        if isinstance(one, Unknown) or isinstance(two, Unknown):
            return SOME_TENSOR
        if symbol == "**" or isinstance(one, Group):
            raise unsupported(_unsupported(symbol, one, two))
        return _of_tensors(symbol, one, two)
    if isinstance(one, (Constant, Plain)) and isinstance(two, (Constant, Plain)):
        return _of_constants(symbol, one, two)
    if isinstance(one, Group):
        return _of_groups(symbol, one, two)
    if Unknown in (type(one), type(two)) and SOME_TENSOR in (one, two):
        return SOME_TENSOR
    return UNKNOWN


def _unsupported(symbol: str, one: Value, two: Value) -> str:
    return f"unsupported operand type(s) for {symbol}: '{class_name(one)}' and '{class_name(two)}'"


def _of_constants(symbol: str, one: Constant | Plain, two: Constant | Plain) -> Value:
    first, second = one.value, two.value
    if symbol == "**" and all(isinstance(each, (int, float)) for each in (first, second)) and abs(second) > 4096:
        return UNKNOWN
    if symbol == "<<" and isinstance(second, int) and second > 4096:
        return UNKNOWN
    try:
        return wrapped(_PYTHONS[symbol](first, second))
    except (TypeError, ValueError, ArithmeticError) as error:
        if isinstance(one, Constant) and type(first) in (int, float, bool, type(None), str):
            raise Refusal(str(error)) from None
        return UNKNOWN


def _of_groups(symbol: str, one: Group, two: Value) -> Value:
    if symbol == "+" and isinstance(two, Group):
        return Group(one.values + two.values)
    if symbol == "*" and isinstance(two, Constant) and isinstance(two.value, int):
        return Group(one.values * min(two.value, 4096))
    if symbol in ("==", "!=") and isinstance(two, Group):
        values = [*one.values, *two.values]
        if all(isinstance(each, (Constant, Plain)) for each in values):
            equal = [python_of(each) for each in one.values] == [python_of(each) for each in two.values]
            return Constant(equal if symbol == "==" else not equal)
    return UNKNOWN


def _of_tensors(symbol: str, one: Value, two: Value) -> Value:
    if symbol == "+":
        return add(one, two)
    if symbol == "-":
        return subtract(one, two)
    if symbol in _BITS:
        return bitwise(one, two)
    if symbol in COMPARISONS:
        first, _ = operands(one, two)
        if isinstance(first.dtype, pointer_type):
            raise Refusal(f"unexpected type {type_name(first.dtype)}")
        return first.of(int1)
    divides = symbol in ("/", "//", "%")
    first, second = operands(one, two, divides=divides)
    if symbol == "/":
        return _quotient(first, second)
    if symbol == "//" and not (first.dtype.is_int() and second.dtype.is_int()):
        raise Refusal(f"unexpected type {first.dtype}")
    return first


def _quotient(one: Typed, two: Typed) -> Typed:
    """Returns the type of a true division of operands that have one type already."""
    if one.dtype.is_int() and two.dtype.is_int():
        return one.of(float32)
    return one.of(one.dtype if one.dtype.is_float else two.dtype)


def add(one: Value, two: Value) -> Typed:
    """Returns the type of a sum, which may have one pointer."""
    first, second = operands(one, two, pointers=(True, True))
    if first.is_pointer and second.is_pointer:
        raise Refusal("cannot add pointers together")
    return second if second.is_pointer else first


def subtract(one: Value, two: Value) -> Typed:
    """Returns the type of a difference, whose first operand may be a pointer."""
    first, second = operands(one, two, pointers=(True, False))
    if first.is_pointer and second.is_pointer:
        raise Refusal(f"wrong type argument to unary minus ({type_repr(second.dtype)})")
    return first


def bitwise(one: Value, two: Value) -> Typed:
    """Returns the type of an operator of bits, which takes integers alone."""
    first, second = operands(one, two)
    if not (_is_integer(first.dtype) and _is_integer(second.dtype)):
        raise _mismatch(first.dtype, second.dtype)
    return first


def _is_integer(kind: Any) -> bool:
    return not isinstance(kind, pointer_type) and bool(kind.is_int())


def operands(
    one: Value, two: Value, pointers: tuple[bool, bool] = (False, False), divides: bool = False, converts: bool = True
) -> tuple[Typed, Typed]:
    """Returns both operands in the type and shape that an operator computes in.

    *pointers* says which operand may be a pointer, and *divides* is true for `/`, `//` and `%`. Without *converts*,
    both keep their types.
    """
    kinds = [_element(one), _element(two)]
    for kind, other, allows in ((kinds[0], kinds[1], pointers[0]), (kinds[1], kinds[0], pointers[1])):
        _check_pointer(kind, other, allows)
    if converts and not any(isinstance(each, pointer_type) for each in kinds):
        found = computation_type(kinds[0], is_number(one), kinds[1], is_number(two), divides)
        return broadcast(in_type(one, found), in_type(two, found))
    return broadcast(_tensor(one), _tensor(two))


def _tensor(value: Value) -> Typed:
    found = as_tensor(value)
    assert isinstance(found, Typed)
    return found


def _element(value: Value) -> Any:
    if isinstance(value, Typed):
        return value.dtype
    if is_number(value):
        return type_of_constant(python_of(value))
    quoted = "dtype" if isinstance(value, Group) else "'dtype'"
    raise Refusal(f"'{class_name(value)}' object has no attribute {quoted}")


def _check_pointer(kind: Any, other: Any, allows: bool) -> None:
    if not isinstance(kind, pointer_type):
        return
    is_float = not isinstance(other, pointer_type) and other.is_float
    if not allows or is_float or (isinstance(other, pointer_type) and not same_element(kind, other)):
        raise _mismatch(kind, other)


def _mismatch(one: Any, two: Any) -> Refusal:
    return Refusal(f"invalid operands of type {type_repr(one)} and {type_repr(two)}")


def _rank(kind: dtype) -> int:
    return 2 if kind.is_float else 0 if kind.is_bool() else 1


def computation_type(one: dtype, is_one_number: bool, two: dtype, is_two_number: bool, divides: bool) -> dtype:
    """Returns the type that an operator computes in. A number of no higher kind than the tensor takes its type."""
    if is_one_number != is_two_number:
        number, other = (one, two) if is_one_number else (two, one)
        if _rank(number) <= _rank(other):
            one = two = other
    if one.is_float or two.is_float:
        return _of_floats(one, two, divides)
    if divides and one.is_int_signed() != two.is_int_signed():
        raise Refusal(
            f"Cannot use /, #, or % with {type_repr(one)} and {type_repr(two)} because they have different signedness;"
            "this is unlikely to result in a useful answer. Cast them to the same signedness."
        )
    return promoted_integer(one, two)


def _of_floats(one: dtype, two: dtype, divides: bool) -> dtype:
    if float64 in (one, two):
        return float64
    if divides or float32 in (one, two):
        return float32
    if float16 in (one, two):
        return float16
    if bfloat16 in (one, two):
        return bfloat16 if one == two else float32
    if one.is_fp8() and two.is_fp8():
        return one if one == two else float16
    raise Refusal(f"unexpected type {one} and {two}")


def promoted_integer(one: dtype, two: dtype) -> dtype:
    """Returns the integer type of an operator of two integers, by the rules of C."""
    if one.is_int_signed() == two.is_int_signed():
        return one if one.int_bitwidth > two.int_bitwidth else two
    unsigned, signed = (two, one) if one.is_int_signed() else (one, two)
    return unsigned if unsigned.int_bitwidth >= signed.int_bitwidth else signed


def in_type(value: Value, kind: dtype) -> Typed:
    """Returns *value* converted to *kind* for an operator. A number that *kind* does not hold is refused."""
    if isinstance(value, Typed):
        return converted(value, kind)
    number = python_of(value)
    if number < 0 and kind.is_int_unsigned():
        raise Refusal(
            "Cannot perform a binary operation between an unsigned tensor and a negative scalar. "
            "Perform a explicit cast on one of them."
        )
    if kind.is_int():
        low, high = bounds(kind)
        if not low <= number <= high:
            raise Refusal(f"Scalar {number} is out of range for type {kind}")
    return Typed(kind, ())


def converted(value: Typed, kind: Any) -> Typed:
    """Returns *value* cast to *kind*; *value* itself where it has the type. Casts that Triton lacks are refused."""
    source = value.dtype
    if same_element(source, kind):
        return value
    from_pointer, to_pointer = isinstance(source, pointer_type), isinstance(kind, pointer_type)
    if from_pointer and not to_pointer and not (kind.is_int() and kind.int_bitwidth in (1, 64)):
        raise Refusal(f"cannot cast {value} to {_target(value, kind)}")
    if to_pointer and not from_pointer and not source.is_int():
        raise Refusal(f"cannot cast {value} to {_target(value, kind)}")
    if not from_pointer and not to_pointer:
        _check_fp8(value, kind)
    return value.of(kind)


def _target(value: Typed, kind: Any) -> str:
    return f"<{[str(size) for size in value.shape]}, {type_name(kind)}>" if value.shape else type_name(kind)


def _check_fp8(value: Typed, kind: dtype) -> None:
    """Refuses a cast between fp8 and integers, which Triton does not have."""
    one, two = value.dtype, kind
    if (one.is_fp8() and two.is_int()) or (two.is_fp8() and one.is_int()):
        raise Refusal(f"cannot cast {value} to {_target(value, kind)}")


def bitcast(value: Typed, kind: Any) -> Typed:
    """Returns *value* with its bits taken for *kind*. Types of other widths are refused."""
    if same_element(value.dtype, kind):
        return value
    if isinstance(value.dtype, pointer_type) or isinstance(kind, pointer_type):
        return converted(value, kind)
    if value.dtype.primitive_bitwidth != kind.primitive_bitwidth:
        raise Refusal(
            f"Cannot bitcast data-type of size {value.dtype.primitive_bitwidth} to "
            f"data-type of size {kind.primitive_bitwidth}"
        )
    return value.of(kind)


def broadcast(one: Typed, two: Typed) -> tuple[Typed, Typed]:
    """Returns *one* and *two* in their common shape."""
    shape = common_shape(one.shape, two.shape)
    return _in_shape(one, shape), _in_shape(two, shape)


def _in_shape(value: Typed, shape: tuple[int, ...]) -> Typed:
    return value if value.shape == shape else block(value.dtype, shape)


def common_shape(one: Sequence[int], two: Sequence[int]) -> tuple[int, ...]:
    """Returns the shape that blocks of both shapes are broadcast to."""
    if not one or not two:
        return tuple(one or two)
    rank = max(len(one), len(two))
    first, second = ((1,) * (rank - len(each)) + tuple(each) for each in (one, two))
    found = []
    for at, (left, right) in enumerate(zip(first, second, strict=True)):
        if left != right and 1 not in (left, right):
            raise Refusal(f"Cannot make_shape_compatible: incompatible dimensions at index {at}: {left} and {right}")
        found.append(right if left == 1 else left)
    return tuple(found)


def negative(value: Typed) -> Typed:
    """Returns the type of `-value`."""
    if value.is_pointer:
        raise Refusal(f"wrong type argument to unary minus ({type_repr(value.dtype)})")
    return value.of(value.dtype)


def inverted(value: Typed) -> Typed:
    """Returns the type of `~value`."""
    if value.is_pointer or value.dtype.is_float:
        raise Refusal(f"wrong type argument to unary invert ({type_repr(value.dtype)})")
    return value.of(value.dtype)


def logical_not(value: Typed) -> Typed:
    """Returns the type of `not value`."""
    return inverted(bitcast(value, int1))


def logical(one: Value, two: Value) -> Value:
    """Returns the type of `one and two`, and of `one or two`, of two values of the program."""
    if isinstance(one, Unknown) or isinstance(two, Unknown):
        return SOME_TENSOR
    first, second = (bitcast(_tensor(each), int1) for each in (one, two))
    return bitwise(first, second)
