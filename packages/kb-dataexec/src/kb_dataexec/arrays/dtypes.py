"""The element types as numpy dtypes, and casts between them.

bf16 and fp8 come from `ml_dtypes`. The module is imported when one of them is used for the first time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from kb_dataexec.arrays import parallel
from kb_messages import DType, Overflow

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_NATIVE: Final[dict[DType, str]] = {
    DType.F32: "<f4",
    DType.F16: "<f2",
    DType.I8: "<i1",
    DType.I16: "<i2",
    DType.I32: "<i4",
    DType.I64: "<i8",
    DType.U8: "<u1",
    DType.U16: "<u2",
    DType.U32: "<u4",
    DType.U64: "<u8",
    DType.BOOL: "?",
}
_EXTENSION: Final[dict[DType, str]] = {
    DType.BF16: "bfloat16",
    DType.F8E4M3: "float8_e4m3fn",
    DType.F8E5M2: "float8_e5m2",
}
_WORTH_THREADS: Final = 1 << 20
"""Elements from which threads are used. Source: measured. A 4096 x 4096 cast of f16 to f32 takes 35 ms on one thread
and 18 ms on two."""

_found: dict[DType, np.dtype[Any]] = {dtype: np.dtype(text) for dtype, text in _NATIVE.items()}


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """Returns the numpy dtype (little-endian) of elements of *dtype*."""
    found = _found.get(dtype)
    if found is None:
        import ml_dtypes

        found = _found[dtype] = np.dtype(getattr(ml_dtypes, _EXTENSION[dtype]))
    return found


def cast(array: Array, dtype: DType) -> Array:
    """Returns *array* cast to *dtype*, of the same shape; *array* itself if it already has that type.

    Floats and integers round once, to nearest even. Finite values out of range follow
    `DType.info.overflow`: f16 and bf16 become infinite, fp8 saturates. fp8 also saturates infinities, as the saturating
    mode of the OCP 8-bit floating point specification 1.0 does. NaN stays NaN. A cast of a float to an integer drops
    the fraction, as in C, and wraps modulo 2^bits; NaN and infinities become 0. A cast to bool is True for a
    value that is not 0.
    """
    target = numpy_dtype(dtype)
    if array.dtype == target:
        return array
    if dtype is DType.BOOL:
        return np.not_equal(array, 0)
    with np.errstate(all="ignore"):
        if dtype.is_float:
            return _to_float(array, dtype, target)
        if array.dtype.kind in "iub":
            return array.astype(target)
        return _wrap(array).astype(target)


def cast_into(out: Array, array: Array, dtype: DType) -> None:
    """Sets `out[...] = cast(array, dtype)`, without a copy in between if numpy's own cast is right."""
    plain = array.dtype.kind == "f" and dtype in _NATIVE and dtype.is_float
    value = convert(array, out.dtype, lambda *_: out) if plain else cast(array, dtype)
    if value is not out:
        out[...] = value


def convert(array: Array, target: np.dtype[Any], empty: Callable[..., Array] = np.empty) -> Array:
    """Returns `array.astype(target, copy=False)`, on several threads for a large array: numpy casts f16 on one thread.

    `empty(shape, dtype)` provides the memory for a large array.
    """
    if array.dtype == target:
        return array
    if array.size < _WORTH_THREADS or array.shape[0] < parallel.WORKERS:
        return array.astype(target)
    out = empty(array.shape, target)

    def fill(part: slice) -> None:
        out[part] = array[part]

    parallel.in_parallel(fill, parallel.parts(len(array)))
    return out


def _to_float(array: Array, dtype: DType, target: np.dtype[Any]) -> Array:
    if array.dtype.kind in "iub" and dtype is not DType.F32:
        array = _integers_as_f64(array)
    if dtype in _EXTENSION and array.dtype == np.float64:
        array = _round_to_odd(array)
    if dtype.info.overflow is Overflow.SATURATE:
        limit = _largest(dtype)
        array = np.clip(array.astype(np.float32), -limit, limit)
    return convert(array, target)


def _integers_as_f64(array: Array) -> Array:
    """Integers or booleans as f64. An integer of more than 52 bits keeps its upper 52 or 53, of which the last is set
    where a bit below is. A rounding of the result to 24 bits or less is then the only one."""
    if array.dtype.itemsize < 8:
        return array.astype(np.float64)
    high, rest = array >> 11, array & 2047
    shortened = (high | (rest != 0)).astype(np.float64) * 2048.0
    is_long = high >= 1 << 42 if array.dtype.kind == "u" else (high >= 1 << 42) | (high < -(1 << 42))
    return np.where(is_long, shortened, array.astype(np.float64))


def _round_to_odd(array: Array) -> Array:
    """f64 as f32, truncated, with the last bit set where that is inexact. A second rounding is then the only one."""
    nearest = array.astype(np.float32)
    bits = nearest.view(np.int32).copy()
    finite = np.isfinite(array)
    bits -= (np.abs(nearest.astype(np.float64)) > np.abs(array)) & finite
    bits |= (nearest.astype(np.float64) != array) & finite
    return bits.view(np.float32)


def _largest(dtype: DType) -> np.float32:
    # Source: OCP 8-bit floating point specification 1.0, table 1.
    return np.float32({DType.F8E4M3: 448.0, DType.F8E5M2: 57344.0}[dtype])


def _wrap(array: Array) -> Array:
    """Whole parts modulo 2^64, as i64."""
    values = np.fmod(np.trunc(array.astype(np.float64)), 2.0**64)
    values = np.where(values >= 2.0**63, values - 2.0**64, values)
    values = np.where(values < -(2.0**63), values + 2.0**64, values)
    return np.where(np.isfinite(values), values, 0.0).astype(np.int64)
