"""Element types: the meaning of the bytes of a tensor. kb_dataexec maps them to numpy and computes with them."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import Final

from msgspec import Struct


class Overflow(StrEnum):
    """The result of a cast for a finite value outside the range of the target."""

    INF = "inf"
    SATURATE = "saturate"
    WRAP = "wrap"


class DType(StrEnum):
    """Element types, named as in kernels and on command lines."""

    __hash__ = str.__hash__  # that of Enum is a Python function, and plans look dtypes up all the time

    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    F8E4M3 = "f8e4m3"
    F8E5M2 = "f8e5m2"
    I8 = "i8"
    I16 = "i16"
    I32 = "i32"
    I64 = "i64"
    U8 = "u8"
    U16 = "u16"
    U32 = "u32"
    U64 = "u64"
    BOOL = "bool"

    @property
    def info(self) -> DTypeInfo:
        """The facts of the format: bits, range and code."""
        return _INFO[self]

    @cached_property
    def nbytes(self) -> int:
        """Bytes of one element."""
        return _INFO[self].nbytes

    @cached_property
    def is_float(self) -> bool:
        """Whether it is a floating-point format."""
        return _INFO[self].mantissa_bits is not None

    @cached_property
    def accumulator(self) -> DType:
        """The type of a sum of products: f32 for floats, i32 for integers."""
        return DType.F32 if self.is_float else DType.I32


class DTypeInfo(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The facts of the format of an element type.

    `mantissa_bits` includes the implicit bit and is None for integers. `code` is the number in op logs.
    """

    code: int
    nbytes: int
    mantissa_bits: int | None
    min_exponent: int | None
    overflow: Overflow

    @property
    def unit_roundoff(self) -> float:
        """The largest relative error of one rounding to nearest; 0.0 for integers."""
        return 0.0 if self.mantissa_bits is None else 2.0**-self.mantissa_bits

    @property
    def smallest_subnormal(self) -> float:
        """The distance of the numbers next to zero; 0.0 for integers."""
        if self.mantissa_bits is None or self.min_exponent is None:
            return 0.0
        return 2.0 ** (self.min_exponent - self.mantissa_bits + 1)


def _float(code: int, nbytes: int, mantissa_bits: int, min_exponent: int, overflow: Overflow) -> DTypeInfo:
    return DTypeInfo(
        code=code, nbytes=nbytes, mantissa_bits=mantissa_bits, min_exponent=min_exponent, overflow=overflow
    )


def _integer(code: int, nbytes: int) -> DTypeInfo:
    return DTypeInfo(code=code, nbytes=nbytes, mantissa_bits=None, min_exponent=None, overflow=Overflow.WRAP)


# Source: IEEE 754-2019 (f32, f16), bfloat16 as truncated binary32, OCP 8-bit floating point specification 1.0
# (E4M3 has no infinity, so it saturates; E5M2 is IEEE-like but saturates by the same document's default for casts).
_INFO: Final[dict[DType, DTypeInfo]] = {
    DType.F32: _float(0, 4, 24, -126, Overflow.INF),
    DType.F16: _float(1, 2, 11, -14, Overflow.INF),
    DType.BF16: _float(2, 2, 8, -126, Overflow.INF),
    DType.F8E4M3: _float(3, 1, 4, -6, Overflow.SATURATE),
    DType.F8E5M2: _float(4, 1, 3, -14, Overflow.SATURATE),
    DType.I8: _integer(5, 1),
    DType.I16: _integer(6, 2),
    DType.I32: _integer(7, 4),
    DType.I64: _integer(8, 8),
    DType.U8: _integer(9, 1),
    DType.U16: _integer(10, 2),
    DType.U32: _integer(11, 4),
    DType.U64: _integer(12, 8),
    DType.BOOL: _integer(13, 1),
}

DTYPE_BY_CODE: Final[dict[int, DType]] = {info.code: dtype for dtype, info in _INFO.items()}
