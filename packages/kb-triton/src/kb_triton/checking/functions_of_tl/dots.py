"""Rules for products of matrices."""

from __future__ import annotations

from typing import Any, Final

from kb_triton.checking.functions_of_tl.rules import NONE, given_tensor, is_none, rule
from kb_triton.checking.refusals import Refusal
from kb_triton.checking.values import SOME_TENSOR, Typed, Value, python_of, type_name
from kb_triton.language.tensors.dtypes import bfloat16, float16, float32, float64, int8, int32, uint8

_KINDS: Final = (int8, uint8, float16, bfloat16, float32, float64)
_PRECISIONS: Final = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
"""The precisions of the first operands. Source: Triton's backend for NVIDIA."""
_LEAST: Final = {8: (1, 1, 32), 16: (1, 1, 16), 32: (1, 1, 8), 64: (1, 1, 4)}
"""The least rows, columns and depth by the bits of an element. Source: Triton's backend for NVIDIA, `min_dot_size`."""


@rule("dot")
def dot(
    input: Value,
    other: Value,
    acc: Value = NONE,
    input_precision: Value = NONE,
    allow_tf32: Value = NONE,
    max_num_imprecise_acc: Value = NONE,
    out_dtype: Value = NONE,
) -> Value:
    """Returns the type of `tl.dot`."""
    if not is_none(input_precision) and not is_none(allow_tf32):
        raise Refusal("Only one of input_precision and allow_tf32 can be specified")
    one, two = given_tensor(input), given_tensor(other)
    added = None if is_none(acc) else given_tensor(acc)
    shape = _product_shape(one, two)
    if added is not None and added.shape != shape:
        raise Refusal("accumulator shape is incompatible")
    _check_kinds(one, two)
    _check_precision(python_of(input_precision))
    least = _least(one, two)
    sizes = (one.shape[-2], two.shape[-1], one.shape[-1])
    if any(size < bound for size, bound in zip(sizes, least, strict=True)):
        raise Refusal(f"Input shapes should have M >= {least[0]}, N >= {least[1]} and K >= {least[2]}")
    return _product(one, shape, added, python_of(out_dtype))


def _product_shape(one: Typed, two: Typed) -> tuple[int, ...]:
    if len(one.shape) != len(two.shape) or len(one.shape) < 2:
        raise Refusal("input and other must have equal ranks >= 2")
    if one.shape[:-2] != two.shape[:-2]:
        raise Refusal("input and other must have equal batch shapes")
    if one.shape[-1] != two.shape[-2]:
        raise Refusal("input and other must have equal reduction dimensions")
    return (*one.shape[:-1], two.shape[-1])


def _check_kinds(one: Typed, two: Typed) -> None:
    first, second = one.dtype, two.dtype
    if not one.is_pointer and not two.is_pointer and first.is_fp8() and second.is_fp8():
        return
    for kind, side in ((first, "lhs"), (second, "rhs")):
        if kind not in _KINDS:
            raise Refusal(f"Unsupported {side} dtype {type_name(kind)}")
    if first != second:
        raise Refusal(f"Both operands must be same dtype. Got {first} and {second}")


def _check_precision(precision: Any) -> None:
    if isinstance(precision, str) and precision.lower() not in _PRECISIONS:
        raise Refusal(f"input_precision must be one of {_PRECISIONS}. Got {precision}")


def _least(one: Typed, two: Typed) -> tuple[int, int, int]:
    return _LEAST[one.dtype.primitive_bitwidth]


def _product(one: Typed, shape: tuple[int, ...], added: Typed | None, stated: Any) -> Value:
    """Returns the type of a product. *stated* is the type that the author asks for, or None."""
    asked = stated if stated is not None else float32 if added is None else added.dtype
    if one.dtype.is_int():
        if one.dtype != int8:
            raise Refusal("only int8 supported!")
        found = int32
    elif asked == bfloat16:
        raise Refusal(
            "out_dtype=bfloat16 is unsupported. Please use out_dtype=float32/float16 and cast with `.to(tl.bfloat16)`"
        )
    else:
        found = float32 if one.dtype in (float32, bfloat16) else float64 if one.dtype == float64 else asked
    if added is not None and added.dtype != asked:
        raise Refusal(
            f"expected accumulator dtype {asked}, got {type_name(added.dtype)}; "
            f"pass out_dtype={type_name(added.dtype)} to use this accumulator dtype"
        )
    return Typed(found, shape)


@rule("dot_scaled")
def dot_scaled(
    lhs: Value,
    lhs_scale: Value,
    lhs_format: Value,
    rhs: Value,
    rhs_scale: Value,
    rhs_format: Value,
    acc: Value = NONE,
    fast_math: Value = NONE,
    lhs_k_pack: Value = NONE,
    rhs_k_pack: Value = NONE,
    out_dtype: Value = NONE,
) -> Value:
    """Returns the type of `tl.dot_scaled`, whose operands are not checked."""
    if isinstance(acc, Typed):
        return acc.of(acc.dtype)
    return SOME_TENSOR
