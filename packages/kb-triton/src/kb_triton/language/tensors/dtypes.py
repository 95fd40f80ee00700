"""Element types of Triton: their names, facts and chip types, and the table of result types of an operator.

Source of the table: triton-lang.org, "Semantics", and `python/triton/language/semantic.py` of Triton 3 for cases
that the page leaves out.
"""

from __future__ import annotations

from functools import lru_cache
from math import isfinite, prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kb_engine.program import Symbol
from kb_triton.language.tensors.constexprs import Shape
from kb_triton.language.tensors.element_type import dtype as dtype
from kb_triton.language.tensors.program import refuse


class pointer_type(dtype):
    """The type of pointers to elements of *element_ty*, which *const* says are only read."""

    element_ty: dtype
    address_space: Any
    const: bool

    def __new__(cls, element_ty: dtype, address_space: Any = 1, const: bool = False) -> pointer_type:
        """Returns the type."""
        found: pointer_type = object.__new__(cls)
        found._set(f"{'const_' if const else ''}pointer<{element_ty.name}>", "void", 64)
        found.element_ty, found.address_space, found.const = element_ty, address_space, const
        return found

    def __reduce__(self) -> Any:
        return pointer_type, (self.element_ty, self.address_space, self.const)

    def is_ptr(self) -> bool:
        """True."""
        return True

    def is_const(self) -> bool:
        """Whether the elements are only read."""
        return self.const

    def mangle(self) -> str:
        """Returns the short name in names of specialized functions, such as `Pfp32`."""
        return f"P{self.element_ty.mangle()}"


class const:
    """The annotation of a pointer to elements that the kernel only reads."""


class block_type(dtype):
    """The type of blocks of *shape* of elements of *element_ty*."""

    element_ty: dtype
    shape: Shape

    def __new__(cls, element_ty: dtype, shape: Any) -> block_type:
        """Returns the type."""
        found: block_type = object.__new__(cls)
        found.element_ty, found.shape = element_ty, Shape(shape)
        name = f"<{list(found.shape)}, {element_ty.name}>"
        found._set(name, element_ty.family, element_ty.primitive_bitwidth)
        return found

    def __reduce__(self) -> Any:
        return block_type, (self.element_ty, tuple(self.shape))

    @property
    def scalar(self) -> dtype:
        """The type of one element."""
        return self.element_ty

    @property
    def numel(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of the elements."""
        return self.numel * (self.element_ty.primitive_bitwidth // 8)

    def is_block(self) -> bool:
        """True."""
        return True

    def with_element_ty(self, element_ty: dtype) -> block_type:
        """Returns the type of blocks of the same shape of *element_ty*."""
        return block_type(element_ty, self.shape)

    def mangle(self) -> str:
        """Returns the short name in names of specialized functions, such as `fp32S16_16S`."""
        return f"{self.element_ty.mangle()}S{'_'.join(map(str, self.shape))}S"

    def get_block_shapes(self) -> tuple[int, ...]:
        """Returns the number of elements along each axis."""
        return self.shape


void: Final = dtype("void")
int1: Final = dtype("int1")
int8: Final = dtype("int8")
int16: Final = dtype("int16")
int32: Final = dtype("int32")
int64: Final = dtype("int64")
uint8: Final = dtype("uint8")
uint16: Final = dtype("uint16")
uint32: Final = dtype("uint32")
uint64: Final = dtype("uint64")
float8e5: Final = dtype("fp8e5")
float8e4nv: Final = dtype("fp8e4nv")
float8e5b16: Final = dtype("fp8e5b16")
float8e4b8: Final = dtype("fp8e4b8")
float8e4b15: Final = dtype("fp8e4b15")
float16: Final = dtype("fp16")
bfloat16: Final = dtype("bf16")
float32: Final = dtype("fp32")
float64: Final = dtype("fp64")
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


_SHORT: Final = {
    **{each.mangle(): each for each in (*_ALL, float64, void)}, **{each.name: each for each in (*_ALL, float64)},
    **{each.codegen_name(): each for each in (*_ALL, float64)}, "bool": int1, "double": float64, "float": float32,
    "float8_e4m3fn": float8e4nv, "float8_e5m2": float8e5, "half": float16, "i1": int1, "int": int32,
}  # fmt: skip
"""The types by their names in signatures of compiled kernels, such as `i32`, and by their other names."""


SHORT_NAMES: Final = {name: kind.mangle() for name, kind in _SHORT.items()}
"""The short name of each type, such as `fp16`, by all its names."""


def str_to_ty(name: Any, c: Any = None) -> dtype:
    """Returns the type that a signature calls *name*, such as `*fp16` or `i32`. Raises KernelError for another text."""
    text = str(name)
    if text.startswith("*"):
        is_const = text.startswith("*k")
        return pointer_type(str_to_ty(text[2 if is_const else 1 :]), const=is_const)
    if text not in _SHORT:
        refuse(f"tl.str_to_ty({text!r})", f"one of {', '.join(_SHORT)}, or one of them after a *")
    return _SHORT[text]


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
