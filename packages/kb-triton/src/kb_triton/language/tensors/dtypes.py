"""Element types of Triton: their names, facts and chip types, and the table of result types of an operator.

Source of the table: triton-lang.org, "Semantics", and `python/triton/language/semantic.py` of Triton 3 for cases
that the page leaves out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import isfinite
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kb_engine.program import Symbol
from kb_messages import DType
from kb_triton.language.tensors.constexprs import Shape
from kb_triton.language.tensors.program import refuse


class dtype:
    """An element type of Triton, *bits* wide. *kind* is "float", "int", "uint", "bool" or "void".

    *kb* is the chip's type for the bytes; None for a type that the chip does not have.
    """

    def __init__(self, name: str, kind: str = "void", bits: int = 0, kb: DType | None = None) -> None:
        self.name = name
        self.kind = kind
        self.primitive_bitwidth = self.int_bitwidth = bits
        self._kb = kb

    @property
    def kb(self) -> DType:
        """The chip's type for the bytes. Raises KernelError for a type that the chip does not have."""
        if self._kb is None:
            refuse(f"elements of {self}", "a type that the chip has: tl.float8e4nv and tl.float8e5 of the fp8 types")
        return self._kb

    @property
    def is_of_chip(self) -> bool:
        """Whether the chip has the type."""
        return self._kb is not None

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.primitive_bitwidth // 8 or 1

    @property
    def scalar(self) -> dtype:
        """The type of one element: the type itself."""
        return self

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type."""
        return self.kind == "float"

    @property
    def is_f64(self) -> bool:
        """Whether it is float64, which the chip only stores and moves."""
        return self.name == "fp64"

    def is_floating(self) -> bool:
        """Whether it is a floating-point type."""
        return self.kind == "float"

    def is_fp8(self) -> bool:
        """Whether it is a float of 8 bits."""
        return self.kind == "float" and self.primitive_bitwidth == 8

    def is_fp16(self) -> bool:
        """Whether it is float16."""
        return self.name == "fp16"

    def is_bf16(self) -> bool:
        """Whether it is bfloat16."""
        return self.name == "bf16"

    def is_fp32(self) -> bool:
        """Whether it is float32."""
        return self.name == "fp32"

    def is_fp64(self) -> bool:
        """Whether it is float64."""
        return self.is_f64

    def is_standard_floating(self) -> bool:
        """Whether it is float16, bfloat16, float32 or float64."""
        return self.kind == "float" and self.primitive_bitwidth > 8

    def is_int(self) -> bool:
        """Whether it is an integer type; int1 is one."""
        return self.kind in ("int", "uint", "bool")

    def is_int_signed(self) -> bool:
        """Whether it is a signed integer type."""
        return self.kind == "int"

    def is_int_unsigned(self) -> bool:
        """Whether it is an unsigned integer type."""
        return self.kind in ("uint", "bool")

    def is_bool(self) -> bool:
        """Whether it is int1."""
        return self.kind == "bool"

    def __getattr__(self, name: str) -> Callable[[], bool]:
        """Returns `is_int64` and further tests for one type."""
        if name.startswith("is_") and name[3:] in _NAMED:
            return lambda: self.name == _NAMED[name[3:]]
        raise AttributeError(f"a dtype has no {name!r}", name=name)

    @property
    def value(self) -> dtype:
        """The type itself: a type among the constants of a kernel is asked for its `.value`."""
        return self

    def is_ptr(self) -> bool:
        """Whether it is a type of pointers."""
        return isinstance(self, pointer_type)

    def is_block(self) -> bool:
        """Whether it is a type of blocks."""
        return isinstance(self, block_type)

    def is_void(self) -> bool:
        """Whether it is no type of values."""
        return self.kind == "void"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, dtype) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"triton.language.{self.name}"


class pointer_type(dtype):
    """The type of pointers to elements of *element_ty*."""

    def __init__(self, element_ty: dtype, address_space: int = 1, const: bool = False) -> None:
        super().__init__(f"pointer<{element_ty.name}>", bits=64)
        self.element_ty = element_ty
        self.address_space = address_space
        self.const = const


class const:
    """The annotation of a pointer to elements that the kernel only reads."""


class block_type(dtype):
    """The type of blocks of *shape* of elements of *element_ty*."""

    def __init__(self, element_ty: dtype, shape: Any) -> None:
        self.element_ty = element_ty
        self.shape = Shape(shape)
        super().__init__(f"<{list(self.shape)}, {element_ty.name}>", element_ty.kind, element_ty.primitive_bitwidth)

    @property
    def scalar(self) -> dtype:
        """The type of one element."""
        return self.element_ty

    def get_block_shapes(self) -> tuple[int, ...]:
        """Returns the number of elements along each axis."""
        return self.shape


_NAMED: Final = {
    "int1": "int1", "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64", "uint8": "uint8",
    "uint16": "uint16", "uint32": "uint32", "uint64": "uint64", "fp8e4nv": "fp8e4nv", "fp8e4b8": "fp8e4b8",
    "fp8e4b15": "fp8e4b15", "fp8e5": "fp8e5", "fp8e5b16": "fp8e5b16",
}  # fmt: skip
"""The name of the type for each test such as `is_int64()`."""

void: Final = dtype("void")
int1: Final = dtype("int1", "bool", 1, DType.BOOL)
int8: Final = dtype("int8", "int", 8, DType.I8)
int16: Final = dtype("int16", "int", 16, DType.I16)
int32: Final = dtype("int32", "int", 32, DType.I32)
int64: Final = dtype("int64", "int", 64, DType.I64)
uint8: Final = dtype("uint8", "uint", 8, DType.U8)
uint16: Final = dtype("uint16", "uint", 16, DType.U16)
uint32: Final = dtype("uint32", "uint", 32, DType.U32)
uint64: Final = dtype("uint64", "uint", 64, DType.U64)
float8e5: Final = dtype("fp8e5", "float", 8, DType.F8E5M2)
float8e4nv: Final = dtype("fp8e4nv", "float", 8, DType.F8E4M3)
float8e5b16: Final = dtype("fp8e5b16", "float", 8)
float8e4b8: Final = dtype("fp8e4b8", "float", 8)
float8e4b15: Final = dtype("fp8e4b15", "float", 8)
float16: Final = dtype("fp16", "float", 16, DType.F16)
bfloat16: Final = dtype("bf16", "float", 16, DType.BF16)
float32: Final = dtype("fp32", "float", 32, DType.F32)
float64: Final = dtype("fp64", "float", 64, DType.U64)
pi32_t: Final = pointer_type(int32)

_ALL = (
    int1, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float8e5, float8e4nv, float16, bfloat16, float32,
)  # fmt: skip
OF_KB: Final = {each.kb: each for each in _ALL}
"""Triton's type for each type of the chip."""

_NUMPY: Final = {"i": (int8, int16, int32, int64), "u": (uint8, uint16, uint32, uint64)}
NUMPY: Final[dict[str, Any]] = {
    "int1": np.bool_, "int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64,
    "uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64,
}  # fmt: skip
"""numpy's type for each integer type, by name."""

_BOUNDS: Final = {
    each.name: (0, 1) if each is int1 else (int(np.iinfo(NUMPY[each.name]).min), int(np.iinfo(NUMPY[each.name]).max))
    for each in _ALL
    if each.is_int()
}


def bounds(kind: dtype) -> tuple[int, int]:
    """Returns the smallest and the largest integer of an integer type."""
    return _BOUNDS[kind.name]


def wrapped(value: Any, kind: dtype) -> Any:
    """Returns *value* wrapped to the range of the integer type *kind*."""
    low, high = _BOUNDS[kind.name]
    if (type(value) is Symbol and value.bound <= min(-low, high)) or low <= value <= high:
        return value
    if kind is int1:
        return value & 1
    return (value - low) % (high - low + 1) + low


def of_numpy(kind: npt.DTypeLike) -> dtype | None:
    """Returns Triton's type for the elements of a numpy array; None for a type that Triton does not have."""
    found = np.dtype(kind)
    names = {
        "bool": int1, "float16": float16, "float32": float32, "float64": float64, "bfloat16": bfloat16,
        "float8_e4m3fn": float8e4nv, "float8_e5m2": float8e5,
    }  # fmt: skip
    if found.name in names:
        return names[found.name]
    kinds = _NUMPY.get(found.kind)
    return None if kinds is None else kinds[found.itemsize.bit_length() - 1]


def get_int_dtype(bitwidth: int, signed: bool) -> dtype:
    """Returns the integer type of *bitwidth* bits, *signed* or not. Raises ValueError where there is none."""
    kinds = {1: int1} if bitwidth == 1 else {8 * each.itemsize: each for each in _NUMPY["i" if signed else "u"]}
    if bitwidth not in kinds:
        raise ValueError(f"no integer type of {bitwidth} bits")
    return kinds[bitwidth]


_KINDS: Final[dict[type, int]] = {bool: 0, int: 1, float: 2}


@lru_cache(maxsize=4096)
def promoted(one: dtype, two: dtype, divides: bool = False) -> dtype:
    """Returns the type that an op of *one* and *two* computes in. *divides* is true for `/` and `%`."""
    if one.is_float != two.is_float:
        return _of_float_and_integer(one if one.is_float else two, divides)
    if one.is_float:
        return _of_floats(one, two, divides)
    if one == two:
        return one
    if one.is_int_signed() == two.is_int_signed():
        return one if one.int_bitwidth > two.int_bitwidth else two
    unsigned, signed = (two, one) if one.is_int_signed() else (one, two)
    return unsigned if unsigned.int_bitwidth >= signed.int_bitwidth else signed


def _of_floats(one: dtype, two: dtype, divides: bool) -> dtype:
    if float64 in (one, two):
        return float64
    if float32 in (one, two):
        return float32
    if float16 in (one, two):
        return float32 if divides else float16
    if bfloat16 in (one, two):
        return bfloat16 if one == two and not divides else float32
    return float32 if divides else one if one == two else float16


def _of_float_and_integer(kind: dtype, divides: bool) -> dtype:
    """Returns the type of an op of *kind* and a narrower type. Only an op of two bf16 stays in bf16."""
    return float32 if kind == bfloat16 or (divides and kind == float16) else kind


def type_of_number(number: float) -> dtype:
    """Returns the type of a Python number that no tensor stands beside.

    A float that float32 does not hold as a normal number is a float64. Raises KernelError for an integer beyond 64
    bits.
    """
    if type(number) is bool:
        return int1
    if type(number) is float:
        return float32 if _is_float32(number) else float64
    for kind in (int32, uint32, int64, uint64):
        low, high = bounds(kind)
        if low <= number <= high:
            return kind
    refuse(f"the integer {number}", "an integer of 64 bits")


def _is_float32(number: float) -> bool:
    """Whether *number* is 0, infinite, no number, or in the range of the normal numbers of float32."""
    return number == 0 or not isfinite(number) or 2.0**-126 <= abs(number) <= (2 - 2.0**-23) * 2.0**127


def with_number(kind: dtype, number: float, divides: bool = False) -> dtype:
    """Returns the type that an op of a tensor of *kind* and a constant *number* computes in.

    *divides* is true for `/` and `%`.

    Raises KernelError for an integer that *kind*, an integer type, does not hold.
    """
    rank = 2 if kind.is_float else 0 if kind is int1 else 1
    if _KINDS[type(number)] <= rank:
        if kind.is_float:
            return float32 if divides and kind.primitive_bitwidth <= 16 else kind
        if kind is int1 or type(number) is bool:
            return kind
        low, high = bounds(kind)
        if not low <= number <= high:
            refuse(
                f"the constant {number} beside a tensor of {kind}",
                f"a constant from {low} to {high}",
                "cast the tensor first",
            )
        return kind
    return type_of_number(number)
