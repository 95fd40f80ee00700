"""Matrix products: `tl.dot`, and `tl.dot_scaled` of blocks in microscaling formats, which are widened first."""

from __future__ import annotations

from math import nan
from typing import Any, Final

from kb_engine.program import Handle
from kb_triton.language.elementary import maximum
from kb_triton.language.selection import where
from kb_triton.language.shapes import broadcast_to, expand_dims, full_handle, interleave, permute, reshape
from kb_triton.language.tensors.arithmetic import as_tensor, constant_number, refuse_f64
from kb_triton.language.tensors.casts import as_bits, cast
from kb_triton.language.tensors.dtypes import (
    bfloat16,
    dtype,
    float8e4nv,
    float8e5,
    float16,
    float32,
    int8,
    int32,
    uint8,
    uint16,
)
from kb_triton.language.tensors.program import machine, refuse
from kb_triton.language.tensors.tensor import describe, tensor
from kb_triton.language.tensors.values import NUMBERS, Data, DotResult, Turned


def dot(
    input: Any,  # noqa: A002
    other: Any,
    acc: Any = None,
    input_precision: Any = None,
    allow_tf32: Any = None,
    max_num_imprecise_acc: Any = None,
    out_dtype: Any = float32,
) -> tensor:
    """Returns the matrix product of two blocks, plus *acc*. Sums are f32 for every *input_precision*.

    Raises KernelError for blocks whose shapes or types do not fit.
    """
    a, b = as_tensor(input), as_tensor(other)
    if not 2 <= a.rank == b.rank <= 3 or a.shape[-1] != b.shape[-2] or a.shape[:-2] != b.shape[:-2]:
        refuse(f"tl.dot of {describe(a)} and {describe(b)}", "blocks of M x K and K x N")
    if a.dtype.is_f64 or b.dtype.is_f64:
        refuse_f64("tl.dot")
    if a.dtype != b.dtype and not (a.dtype.is_fp8() and b.dtype.is_fp8()):
        refuse(f"tl.dot of {a.dtype} and {b.dtype}", "blocks of one type", "cast one of them")
    summed = float32 if a.dtype.is_float else int32
    out: dtype = summed if not a.dtype.is_float else out_dtype
    shape = (*a.shape[:-1], b.shape[-1])
    if acc is not None:
        acc = as_tensor(acc)
        if acc.shape != shape:
            refuse(f"tl.dot with acc of {describe(acc)}", f"{' x '.join(map(str, shape))}, the shape of the product")
        out = acc.dtype
    factors = _factor(a), _factor(b)
    if acc is None:
        product = tensor(DotResult(factors, shape), shape, summed)
    else:
        product = tensor(machine().dot(*factors, acc=accumulator(cast(acc, summed))), shape, summed)
    return product if out == summed else cast(product, out)


def accumulator(x: tensor) -> Any:
    """Returns the value of *x* as the accumulator of a product: a handle, or 0."""
    if type(x.value) in NUMBERS and x.value == 0:
        return 0
    return full_handle(x)


def _factor(x: tensor) -> Any:
    value = x.value
    if type(value) is Turned:
        return value.factor
    if type(value) is Data or not isinstance(value, Handle) or value.shape != x.shape:
        return full_handle(x)
    return value


_FORMATS: Final = {"e4m3": float8e4nv, "e5m2": float8e5, "bf16": bfloat16, "fp16": float16}
_GROUPS: Final = (32, 16)
"""Elements of one scale. Source: OCP Microscaling Formats (MX) 1.0, section 5; NVFP4 has 16."""
_LARGEST_EXPONENT: Final = 255
"""The e8m0 scale that is NaN. Source: OCP Microscaling Formats (MX) 1.0, section 5.4.1."""


def dot_scaled(
    lhs: Any,
    lhs_scale: Any,
    lhs_format: Any,
    rhs: Any,
    rhs_scale: Any,
    rhs_format: Any,
    acc: Any = None,
    fast_math: Any = False,
    lhs_k_pack: Any = True,
    rhs_k_pack: Any = True,
    out_dtype: Any = float32,
) -> tensor:
    """Returns the matrix product of two blocks in formats of few bits with scales, plus *acc*.

    A format is `e2m1` (two elements a byte, the first in the lower bits), `e4m3`, `e5m2`, `bf16` or `fp16`. Scales are
    e8m0 in `uint8`, or `e4m3`: M x K / 32 for *lhs*, N x K / 32 for *rhs*, or a scale for each 16 elements. Elements
    are widened, scaled and rounded to bf16, or to fp16 where one format is fp16; sums are f32. Raises KernelError for
    formats, types and shapes that do not fit.
    """
    kind = float16 if "fp16" in (lhs_format, rhs_format) else bfloat16
    a = _widened(as_tensor(lhs), lhs_format, lhs_k_pack, "lhs")
    b = _turned(_widened(_turned(as_tensor(rhs)), rhs_format, rhs_k_pack, "rhs"))
    if not 2 <= a.rank == b.rank <= 3 or a.shape[-1] != b.shape[-2]:
        refuse(f"tl.dot_scaled of {describe(a)} and {describe(b)}", "blocks of M x K and K x N")
    a = cast(_scaled(a, lhs_scale, "lhs"), kind)
    b = cast(_turned(_scaled(_turned(b), rhs_scale, "rhs")), kind)
    return dot(a, b, acc, out_dtype=out_dtype)


def _turned(x: tensor) -> tensor:
    """Returns *x* with its last two axes exchanged."""
    return permute(x, (*range(x.rank - 2), x.rank - 1, x.rank - 2))


def _widened(x: tensor, name: Any, is_packed_along_k: Any, side: str) -> tensor:
    """Returns the elements of *x*, ... x K, of the format *name*: e2m1 as f32, other formats unchanged."""
    if name == "e2m1":
        if x.dtype not in (uint8, int8):
            refuse(f"{side} of {x.dtype} in the format e2m1", "tl.uint8, two elements in each")
        codes = cast(as_bits(x, uint8) if x.dtype == int8 else x, int32)
        if constant_number(is_packed_along_k):
            return _of_e2m1(interleave(codes & 15, codes >> 4))
        return _turned(_of_e2m1(interleave(_turned(codes & 15), _turned(codes >> 4))))
    if name not in _FORMATS:
        refuse(f"{side} in the format {name}", f"e2m1, {', '.join(_FORMATS)}")
    kind = _FORMATS[name]
    if x.dtype == kind:
        return x
    if x.dtype != (uint8 if kind.itemsize == 1 else uint16):
        refuse(f"{side} of {x.dtype} in the format {name}", f"{kind}, or its bits in unsigned integers")
    return as_bits(x, kind)


def _of_e2m1(codes: tensor) -> tensor:
    """Returns *codes*, i32 with 4 bits of e2m1, as f32.

    The sign, exponent and mantissa move to their places in an f32. The factor makes up for the difference of the
    exponents' biases, 127 - 1.
    """
    bits: Any = ((codes & 7) << 22) | ((codes & 8) << 28)
    return as_bits(bits, float32) * 2.0**126  # type: ignore[no-any-return]


def _scaled(x: tensor, scale: Any, side: str) -> tensor:
    """Returns *x*, ... x K, times its scales, as f32; *x* where there is no *scale*."""
    if scale is None:
        return x
    scales = as_tensor(scale)
    expected = [(*x.shape[:-1], x.shape[-1] // group) for group in _GROUPS if x.shape[-1] % group == 0]
    if scales.shape not in expected:
        sizes = " or ".join(" x ".join(map(str, each)) for each in expected) or "a K that 32 divides"
        refuse(f"{side}_scale of {describe(scales)}", sizes)
    group = x.shape[-1] // scales.shape[-1]
    factors = broadcast_to(expand_dims(_of_scales(scales, side), scales.rank), (*scales.shape, group))
    return cast(x, float32) * reshape(factors, x.shape)  # type: ignore[no-any-return]


def _of_scales(scales: tensor, side: str) -> tensor:
    """Returns the scales as f32. Scales of e8m0 are powers of 2, and the smallest is a subnormal f32."""
    kind: dtype = scales.dtype
    if kind == float8e4nv:
        return cast(scales, float32)
    if kind not in (uint8, int8):
        refuse(f"{side}_scale of {kind}", "tl.uint8, which is e8m0, or tl.float8e4nv")
    exponents = cast(as_bits(scales, uint8) if kind == int8 else scales, int32)
    powers = as_bits(maximum(exponents << 23, 1 << 22), float32)
    return where(exponents == _LARGEST_EXPONENT, nan, powers)
