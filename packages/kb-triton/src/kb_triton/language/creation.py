"""Tensors that a kernel makes of nothing: program ids, ranges, and constant blocks."""

from __future__ import annotations

from typing import Any

from kb_engine.program import Affine, plain
from kb_triton.language.arithmetic import as_tensor, plain_number, refuse_f64, rounded
from kb_triton.language.casts import cast, element_type_of
from kb_triton.language.dtypes import int32
from kb_triton.language.program import machine, refuse
from kb_triton.language.shapes import broadcast_to, shape_of
from kb_triton.language.tensor import describe, tensor
from kb_triton.language.values import NUMBERS


def program_id(axis: Any) -> tensor:
    """This program's number along *axis* of the grid."""
    return tensor(machine().program_id(int(axis)), (), int32)


def num_programs(axis: Any) -> tensor:
    """The number of programs along *axis* of the grid."""
    return tensor(machine().num_programs(int(axis)), (), int32)


def arange(start: Any, end: Any) -> tensor:
    """The integers from *start* to *end* - 1. Their number is a power of two, as Triton has it."""
    first, last = plain_number(start), plain_number(end)
    if not isinstance(first, int) or not isinstance(last, int):
        refuse(
            f"tl.arange from {describe(start)} to {describe(end)}",
            "two integers of Python or of parameters that are tl.constexpr",
        )
    count = plain(last - first)
    if count < 1 or count & (count - 1):
        refuse(f"tl.arange from {first} to {last}", "a number of integers that is a power of two")
    return tensor(Affine((count,), first, (1,)) if count > 1 else first, (count,), int32)


def full(shape: Any, value: Any, dtype: Any) -> tensor:
    """A block whose elements are all *value*."""
    sizes, kind = shape_of((shape,)), element_type_of(dtype)
    if isinstance(value, tensor):
        given = cast(value, kind)
        if given.shape and given.numel > 1:
            refuse(f"tl.full of {describe(value)}", "a scalar")
        if type(given.value) in NUMBERS:
            return tensor(given.value, sizes, kind)
        return broadcast_to(given, sizes)
    number = plain_number(value)
    if number is None:
        refuse(f"tl.full of {describe(value)}", "a number or a scalar")
    if kind.is_f64:
        refuse_f64("tl.full")
    return tensor(rounded(number, kind), sizes, kind)


def zeros(shape: Any, dtype: Any) -> tensor:
    """A block of zeros."""
    return full(shape, 0, dtype)


def zeros_like(input: Any) -> tensor:  # noqa: A002
    """A block of zeros with the shape and type of *input*."""
    x = as_tensor(input)
    return tensor(rounded(0, x.dtype), x.shape, x.dtype)


def full_like(input: Any, value: Any) -> tensor:  # noqa: A002
    """A block with the shape and type of *input* whose elements are all *value*."""
    x = as_tensor(input)
    return full(x.shape, value, x.dtype)
