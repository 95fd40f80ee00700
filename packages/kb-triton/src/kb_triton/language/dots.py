"""Matrix products."""

from __future__ import annotations

from typing import Any

from kb_engine.program import Handle
from kb_triton.language.arithmetic import as_tensor, refuse_f64
from kb_triton.language.casts import cast
from kb_triton.language.dtypes import dtype, float32, int32
from kb_triton.language.program import machine, refuse
from kb_triton.language.shapes import full_handle
from kb_triton.language.tensor import describe, tensor
from kb_triton.language.values import NUMBERS, Data, DotResult, Turned


def dot(
    input: Any,  # noqa: A002
    other: Any,
    acc: Any = None,
    input_precision: Any = None,
    allow_tf32: Any = None,
    max_num_imprecise_acc: Any = None,
    out_dtype: Any = float32,
) -> tensor:
    """The matrix product of two blocks, plus *acc*. Sums are exact f32, whatever *input_precision* allows."""
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
            refuse(f"tl.dot with acc of {describe(acc)}", f"{' x '.join(map(str, shape))}, as the product has")
        out = acc.dtype
    factors = _factor(a), _factor(b)
    if acc is None:
        product = tensor(DotResult(factors, shape), shape, summed)
    else:
        product = tensor(machine().dot(*factors, acc=accumulator(cast(acc, summed))), shape, summed)
    return product if out == summed else cast(product, out)


def accumulator(x: tensor) -> Any:
    """The value of *x* as what a product adds to."""
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
