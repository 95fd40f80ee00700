"""Casts between element types, and between pointers and integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from kb_dataexec import numpy_dtype
from kb_engine.program import Handle
from kb_triton.language.tensors.arithmetic import as_tensor, converted, refuse_f64
from kb_triton.language.tensors.dtypes import dtype, int1, pointer_type
from kb_triton.language.tensors.dtypes import dtype as ElementType
from kb_triton.language.tensors.known_math import cast_known
from kb_triton.language.tensors.pointers import as_integers, as_pointers
from kb_triton.language.tensors.program import machine, refuse
from kb_triton.language.tensors.tensor import describe, provide, tensor
from kb_triton.language.tensors.values import NUMBERS, as_argument, is_known, value_of


def cast(input: Any, dtype: Any, fp_downcast_rounding: Any = None, bitcast: bool = False) -> tensor:  # noqa: A002
    """Returns *input* as elements of *dtype*. A float becomes an integer toward zero; *bitcast* keeps the bits.

    Raises KernelError for a type that the chip does not have, and for another rounding than to nearest.
    """
    x, kind = as_tensor(input), element_type_of(dtype)
    if fp_downcast_rounding not in (None, "rtne"):
        refuse(f"fp_downcast_rounding={fp_downcast_rounding!r}", "'rtne': the chip rounds to nearest, ties to even")
    if x.dtype == kind and not isinstance(kind, pointer_type):
        return x
    if bitcast:
        return as_bits(x, kind)
    if isinstance(x.dtype, pointer_type) or isinstance(kind, pointer_type):
        return _of_pointers(x, kind)
    return _converted(x, kind)


def element_type_of(given: Any) -> dtype:
    """Returns *given*, a type of elements or of a block, as a type of elements. Raises KernelError for no type."""
    if not isinstance(given, ElementType):
        refuse(f"{given!r} as a type", "a type such as tl.float32")
    return given.scalar


def _of_pointers(x: tensor, kind: dtype) -> tensor:
    if isinstance(kind, pointer_type):
        return as_pointers(x, kind)
    if not kind.is_int():
        refuse(f"{describe(x)} as {kind}", "an integer type")
    return cast(as_integers(x), kind)


def _converted(x: tensor, kind: dtype) -> tensor:
    if not kind.is_of_chip:
        refuse(
            f"a cast to {kind}", "tl.float8e5 or tl.float8e4nv of the fp8 types" if kind.is_float else "an element type"
        )
    if kind.is_f64 or x.dtype.is_f64:
        refuse_f64("a cast")
    value = x.value
    if type(value) in NUMBERS:
        return tensor(converted(value, kind), x.shape, kind)
    if not kind.is_float and not x.dtype.is_float and is_known(value):
        return tensor(cast_known(value, x.dtype, kind), x.shape, kind)
    argument = as_argument(value)
    if kind is int1:
        return tensor(machine().math("ne", [argument, 0], int1.kb), x.shape, int1)
    return tensor(machine().math("copy", [argument], kind.kb), x.shape, kind)


def as_bits(x: tensor, kind: dtype) -> tensor:
    """Returns the bits of *x* as elements of *kind*. Raises KernelError for a type of another width."""
    if isinstance(x.dtype, pointer_type) or isinstance(kind, pointer_type):
        return _of_pointers(x, kind)
    if x.dtype.primitive_bitwidth != kind.primitive_bitwidth:
        refuse(f"a bitcast of {x.dtype} to {kind}", "types of the same width")
    if not x.dtype.is_float and not kind.is_float and is_known(x.value):
        return tensor(cast_known(x.value, x.dtype, kind), x.shape, kind)
    if int1 in (x.dtype, kind) or not x.dtype.is_of_chip or not kind.is_of_chip:
        refuse(f"a bitcast of {x.dtype} to {kind}", "types of 8 bits at least that the chip has")
    running = machine()
    if type(x.value) in NUMBERS:
        return tensor(_bits_of(x.value, x.dtype, kind), x.shape, kind)
    argument = as_argument(x.value)
    if not isinstance(argument, Handle):
        argument = running.math("copy", [argument], x.dtype.kb)
    handle = running.bitcast(argument, kind.kb)
    return tensor(value_of(handle, kind), x.shape, kind)


def _bits_of(number: Any, source: dtype, target: dtype) -> Any:
    """Returns the bits of a number of type *source* as a number of type *target*."""
    bits = np.array(number).astype(numpy_dtype(source.kb)).reshape(1).view(numpy_dtype(target.kb))[0]
    return float(bits) if target.is_float else int(bits)


def to(self: tensor, dtype: Any, fp_downcast_rounding: Any = None, bitcast: bool = False) -> tensor:
    """Returns the tensor as elements of *dtype*: the method for `cast`."""
    return cast(self, dtype, fp_downcast_rounding, bitcast)


provide(to=to, cast=cast)
