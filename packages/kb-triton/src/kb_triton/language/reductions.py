"""Reductions, which drop their axis unless `keep_dims`, and scans."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from kb_engine.program import Handle
from kb_triton.language.shapes import expand_dims, full_handle, reshape
from kb_triton.language.tensors.arithmetic import as_tensor, constant_number, refuse_f64, rounded
from kb_triton.language.tensors.casts import cast
from kb_triton.language.tensors.dtypes import NUMPY, dtype, float32, int1, int32, uint32
from kb_triton.language.tensors.program import machine, refuse
from kb_triton.language.tensors.tensor import describe, provide, tensor
from kb_triton.language.tensors.values import NUMBERS, Data, array_of, is_known, waits_of

_KNOWN: Final[dict[str, Any]] = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum, "reduce_xor": np.bitwise_xor,
    "reduce_or": np.bitwise_or, "reduce_and": np.bitwise_and, "cumsum": np.add, "cumprod": np.multiply,
    "cummax": np.maximum, "cummin": np.minimum,
}  # fmt: skip


def axis_of(x: tensor, axis: Any, call: str) -> int:
    """Returns *axis* as a number from 0. Raises KernelError, with *call*, for an axis that *x* does not have."""
    number = constant_number(axis)
    if not isinstance(number, int) or not -x.rank <= number < x.rank:
        refuse(f"{call} of {describe(x)} over axis {axis}", f"an axis from 0 to {x.rank - 1}")
    return number % x.rank


def reduced(op: str, x: tensor, axis: Any, keep_dims: Any, out: dtype | None = None) -> tensor:
    """Returns the reduction *op* of *x* over *axis*, or over all elements with None, as elements of *out*."""
    kind, rank = out or x.dtype, x.rank
    if kind.is_f64:
        refuse_f64(f"tl.{op}")
    if rank == 0:
        refuse(f"tl.{op} of {describe(x)}", "a block")
    if axis is None:
        found = reduced(op, reshape(x, (x.numel,)), 0, False, out)
        for _ in range(rank if keep_dims else 0):
            found = expand_dims(found, 0)
        return found
    at = axis_of(x, axis, f"tl.{op}")
    shape = (*x.shape[:at], *x.shape[at + 1 :])
    found = tensor(_along(op, x, at, kind, shape), shape, kind)
    return expand_dims(found, at) if keep_dims else found


def _along(op: str, x: tensor, at: int, kind: dtype, shape: tuple[int, ...]) -> Any:
    value, n = x.value, x.shape[at]
    if type(value) in NUMBERS and op.removesuffix("_number") in ("sum", "max", "min", "argmax", "argmin"):
        return rounded(value * n if op == "sum" else 0 if op.startswith("arg") else value, kind)
    if is_known(value) and op in _KNOWN:
        array = np.broadcast_to(array_of(value, x.dtype), x.shape).astype(NUMPY[kind.name])
        with np.errstate(all="ignore"):
            found = _KNOWN[op].reduce(array, axis=at).astype(NUMPY[kind.name])
        make = partial(_reduced_bytes, op, x, at, kind, shape)
        return Data(np.asarray(found), kind.kb, make, None, waits_of(value))
    return _reduced_bytes(op, x, at, kind, shape)


def _reduced_bytes(op: str, x: tensor, at: int, kind: dtype, shape: tuple[int, ...]) -> Handle:
    return machine().math(op, [full_handle(x)], kind.kb, at).reshape(shape)


def scanned(op: str, x: tensor, axis: Any, reverse: Any, out: dtype | None = None) -> tensor:
    """Returns the scan *op* of *x* along *axis*, as elements of *out*."""
    kind = out or x.dtype
    if kind.is_f64:
        refuse_f64(f"tl.{op}")
    at = axis_of(x, axis, f"tl.{op}")
    if is_known(x.value) and type(x.value) is not bool and op in _KNOWN:
        array = np.broadcast_to(array_of(x.value, x.dtype), x.shape).astype(NUMPY[kind.name])
        turned = np.flip(array, at) if reverse else array
        with np.errstate(all="ignore"):
            found = _KNOWN[op].accumulate(turned, axis=at).astype(NUMPY[kind.name])
        found = np.flip(found, at) if reverse else found
        make = partial(_scanned_bytes, op, x, at, bool(reverse), kind)
        return tensor(Data(found, kind.kb, make, None, waits_of(x.value)), x.shape, kind)
    return tensor(_scanned_bytes(op, x, at, bool(reverse), kind), x.shape, kind)


def _scanned_bytes(op: str, x: tensor, at: int, reverse: bool, kind: dtype) -> Handle:
    return machine().math(op, [full_handle(x)], kind.kb, at, reverse)


def _sum_type(x: tensor, given: Any) -> dtype:
    if given is not None:
        return given  # type: ignore[no-any-return]
    if x.dtype.is_int() and x.dtype.primitive_bitwidth < 32:
        return int32 if x.dtype.is_int_signed() else uint32
    return x.dtype


def _wide(x: tensor) -> tensor:
    """Returns *x* in at least 32 bits, the width in which Triton computes extremes."""
    if x.dtype.primitive_bitwidth >= 32:
        return x
    return cast(x, float32 if x.dtype.is_float else int32)


def sum(input: Any, axis: Any = None, keep_dims: Any = False, dtype: Any = None) -> tensor:  # noqa: A001, A002
    """The sum over *axis*, of elements that are cast to *dtype* first. A sum of int1 as int1 is whether it is odd."""
    x = as_tensor(input)
    kind = _sum_type(x, dtype)
    if kind is int1:
        return reduced("reduce_xor", cast(x, kind), axis, keep_dims)
    is_narrower = kind.is_float and kind.primitive_bitwidth < x.dtype.primitive_bitwidth
    return reduced(
        "sum", cast(x, kind) if is_narrower or x.dtype.is_float != kind.is_float else x, axis, keep_dims, kind
    )


def max(  # noqa: A001 - Triton's name
    input: Any,  # noqa: A002
    axis: Any = None,
    return_indices: Any = False,
    return_indices_tie_break_left: Any = True,
    keep_dims: Any = False,
) -> Any:
    """The largest element over *axis*; with *return_indices* also its index."""
    return _extreme("max", as_tensor(input), axis, return_indices, keep_dims)


def min(  # noqa: A001 - Triton's name
    input: Any,  # noqa: A002
    axis: Any = None,
    return_indices: Any = False,
    return_indices_tie_break_left: Any = True,
    keep_dims: Any = False,
) -> Any:
    """The smallest element over *axis*; with *return_indices* also its index."""
    return _extreme("min", as_tensor(input), axis, return_indices, keep_dims)


def _extreme(op: str, x: tensor, axis: Any, return_indices: Any, keep_dims: Any) -> Any:
    wide = _wide(x)
    found = reduced(_among_numbers(op, wide), wide, axis, keep_dims)
    return (found, _searched(op, wide, axis, keep_dims)) if return_indices else found


def _among_numbers(op: str, x: tensor) -> str:
    """Returns the name of the reduction *op* for *x* that ignores NaN, which Triton's extremes ignore."""
    return f"{op}_number" if x.dtype.is_float else op


def _searched(op: str, x: tensor, axis: Any, keep_dims: Any) -> tensor:
    return reduced(_among_numbers(f"arg{op}", x), x, axis, keep_dims, int32)


def argmax(input: Any, axis: Any, tie_break_left: Any = True, keep_dims: Any = False) -> tensor:  # noqa: A002
    """The index of the largest element over *axis* that is not NaN; the lowest index of equal elements."""
    return _searched("max", as_tensor(input), axis, keep_dims)


def argmin(input: Any, axis: Any, tie_break_left: Any = True, keep_dims: Any = False) -> tensor:  # noqa: A002
    """The index of the smallest element over *axis* that is not NaN; the lowest index of equal elements."""
    return _searched("min", as_tensor(input), axis, keep_dims)


def xor_sum(input: Any, axis: Any = None, keep_dims: Any = False) -> tensor:  # noqa: A002
    """The bitwise `xor` of all integers over *axis*."""
    return reduced("reduce_xor", _integers(input, "xor_sum"), axis, keep_dims)


def reduce_or(input: Any, axis: Any, keep_dims: Any = False) -> tensor:  # noqa: A002
    """The bitwise `or` of all integers over *axis*."""
    return reduced("reduce_or", _integers(input, "reduce_or"), axis, keep_dims)


def _integers(x: Any, call: str) -> tensor:
    given = as_tensor(x)
    if given.dtype.is_float:
        refuse(f"tl.{call} of {describe(given)}", "integers")
    return given


def cumsum(input: Any, axis: Any = 0, reverse: Any = False, dtype: Any = None) -> tensor:  # noqa: A002
    """The sums of all elements up to each one along *axis*; with *reverse*, from each one to the last."""
    x = as_tensor(input)
    kind = _sum_type(x, dtype)
    if kind is int1:
        return cast(scanned("cumsum", cast(cast(x, kind), int32), axis, reverse) & 1, kind)
    return scanned("cumsum", cast(x, kind), axis, reverse, kind)


def cumprod(input: Any, axis: Any = 0, reverse: Any = False, dtype: Any = None) -> tensor:  # noqa: A002
    """The products of all elements up to each one along *axis*; with *reverse*, from each one to the last."""
    x = as_tensor(input)
    kind = _sum_type(x, dtype)
    return scanned("cumprod", cast(x, kind), axis, reverse, kind)


provide(
    reduced=reduced, sum=sum, max=max, min=min, argmax=argmax, argmin=argmin, xor_sum=xor_sum, cumsum=cumsum,
    cumprod=cumprod, reduce_or=reduce_or,
)  # fmt: skip
