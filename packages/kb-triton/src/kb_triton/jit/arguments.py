"""Parameters of a kernel, the values that a kernel sees for arguments, and errors of arguments that do not fit."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from kb_messages import KernelError
from kb_topology import did_you_mean
from kb_triton.host import TensorDescriptor
from kb_triton.language import Pointer, constexpr, make_tensor_descriptor, pointer_of, tensor
from kb_triton.language.tensors.annotations import short_name, stated_type
from kb_triton.language.tensors.arithmetic import rounded
from kb_triton.language.tensors.dtypes import (
    bfloat16,
    dtype,
    float16,
    float32,
    int1,
    int32,
    int64,
    uint64,
    wrapped,
)


class KernelParameter:
    """Parameter number *num* of a kernel. Libraries with decorators of their own read these attributes."""

    def __init__(self, num: int, parameter: inspect.Parameter, not_specialized: bool) -> None:
        self.num = num
        self.name = parameter.name
        self.annotation = parameter.annotation
        self.default = parameter.default
        self.has_default = parameter.default is not parameter.empty
        self.is_constexpr = is_constexpr(parameter.annotation)
        self.is_const = False
        self.do_not_specialize = self.do_not_specialize_on_alignment = not_specialized

    @property
    def annotation_type(self) -> str:
        """The type of a number that the annotation states, by its name in a signature; empty where it states none."""
        return short_name(self.stated)

    @cached_property
    def stated(self) -> dtype | None:
        """The type of a number that the annotation states, such as `tl.int64` or `"u32"`; None where it states none."""
        return stated_type(self.annotation)

    @property
    def text(self) -> str:
        """The parameter as its author writes it, such as `BLOCK: tl.constexpr = 64`."""
        default = f"{' = ' if self.is_constexpr else '='}{self.default!r}" if self.has_default else ""
        return f"{self.name}{': tl.constexpr' if self.is_constexpr else ''}{default}"

    def __repr__(self) -> str:
        return f"KernelParameter({self.num}, {self.name!r})"


def is_constexpr(annotation: Any) -> bool:
    """Whether an *annotation*, or its text, is `tl.constexpr`."""
    if annotation is constexpr:
        return True
    return isinstance(annotation, str) and annotation.replace(" ", "").rpartition(".")[2] == "constexpr"


class UnknownArgumentError(KernelError):
    """A launch has arguments, *names*, that the kernel has no parameters for."""

    names: tuple[str, ...] = ()


def misfit(
    kernel: str,
    params: Sequence[KernelParameter],
    n_given: int,
    named: Collection[str],
    options: Collection[str],
    why: str,
) -> KernelError:
    """Returns the error of a launch whose arguments do not fit *kernel* and its *params*.

    *n_given* is the number of positional arguments, *named* has the names of the others, and *options* the names that a
    launch takes for itself. *why* is Python's message, which speaks of a missing argument also where a name is
    misspelt.
    """
    where, needs = f"launch of {kernel}", f"those of {kernel}({', '.join(each.text for each in params)})"
    known = {each.name for each in params}
    unknown = tuple(name for name in named if name not in known)
    if not unknown:
        return KernelError(where, f"arguments that do not fit ({why})", needs)
    free = [each.name for each in params[n_given:] if each.name not in named]
    fixes = (did_you_mean(each, names) for each in unknown for names in (free, known, options if len(each) > 2 else ()))
    got = f"{'the unknown argument' if len(unknown) == 1 else 'the unknown arguments'} {', '.join(unknown)}"
    error = UnknownArgumentError(where, got, needs, next(filter(None, fixes), ""))
    error.names = unknown
    return error


def check_integers(arguments: Iterable[tuple[str, Any]]) -> None:
    """Raises KernelError, which names the argument, for an integer beyond 64 bits among *arguments*."""
    for name, value in arguments:
        if isinstance(value, int):
            if not -(1 << 63) <= value < 1 << 64:
                raise KernelError(
                    f"argument {name}", _described(value), "an integer of 64 bits, from -2^63 to 2^64 - 1"
                )
        elif isinstance(value, (tuple, list)):
            check_integers((f"{name}[{number}]", each) for number, each in enumerate(value))


def check_numpy_numbers(arguments: Iterable[tuple[str, Any]]) -> None:
    """Raises KernelError, which names the argument, for a number of numpy among *arguments*.

    Triton's launcher refuses all of them but `np.float64`, which is a float of Python.
    """
    for name, value in arguments:
        if isinstance(value, np.generic) and not isinstance(value, float):
            kind = type(value).__name__
            raise KernelError(
                f"argument {name}", f"a numpy.{kind} (Triton: failed to specialize argument of type: {kind})",
                "a number of Python", "pass its item(), or an array",
            )  # fmt: skip
        if type(value) in (tuple, list):
            check_numpy_numbers((f"{name}[{number}]", each) for number, each in enumerate(value))


def _described(value: int) -> str:
    """Describes *value* in words. Python refuses to print an integer of more than 4,300 digits."""
    return f"the integer {value}" if value.bit_length() <= 128 else f"an integer of {value.bit_length()} bits"


def as_argument(value: Any, parameter: KernelParameter) -> Any:
    """Returns the object that a kernel gets for the argument *value* of *parameter*.

    A constant stays as it is, also a constant of the host within a tuple. A pointer or a number becomes a tensor, a
    tuple is taken element by element, and a descriptor of the host becomes a descriptor of the kernel. The annotation
    of the parameter states the type of a number. Without one, an integer has the first of int32, int64 and uint64 that
    holds it, and the integer 1 is a constant, unless the parameter is not specialized. A bool is int1, a float fp32.
    Source: `specialize.cc` of Triton 3.9. Raises KernelError for a value that is no number of the stated type.
    """
    if parameter.is_constexpr or value is None:
        return pointer_of(value) if isinstance(value, Pointer) else constexpr(value)
    if parameter.stated is not None and (isinstance(value, Pointer) or not isinstance(value, (tuple, list))):
        return _of_stated_type(value, parameter.name, parameter.stated)
    return _specialized(value, not parameter.do_not_specialize)


def _specialized(value: Any, is_constant_of_one: bool) -> Any:
    """Returns the object that a kernel gets for *value* by the value alone."""
    if isinstance(value, Pointer):
        return pointer_of(value)
    if value is None or isinstance(value, constexpr):
        return constexpr(value)
    if isinstance(value, bool):
        return tensor(value, (), int1)
    if isinstance(value, int):
        number = int(value)
        return constexpr(1) if number == 1 and is_constant_of_one else tensor(number, (), _type_of_argument(number))
    if isinstance(value, float):
        return tensor(rounded(value, float32), (), float32)
    if isinstance(value, TensorDescriptor):
        base = _specialized(value.base, False)
        return make_tensor_descriptor(base, value.shape, value.strides, value.block_shape, value.padding)
    if isinstance(value, (tuple, list)):
        items = [_specialized(each, True) for each in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value


def _type_of_argument(number: int) -> dtype:
    if -(1 << 31) <= number < 1 << 31:
        return int32
    return int64 if number < 1 << 63 else uint64


def _of_stated_type(value: Any, name: str, kind: dtype) -> tensor:
    """Returns *value*, the argument *name*, as a scalar of *kind*.

    An integer wraps and a float is rounded, as Triton's launcher does; a float in bf16 is cut.
    """
    where, needs = f"argument {name}, which is annotated as {kind}", "a number of that type"
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Pointer) or not isinstance(value, (int, float)):
        raise KernelError(where, "a tensor" if isinstance(value, Pointer) else f"a {type(value).__name__}", needs)
    if kind.is_float:
        return tensor(_rounded_once(float(value), kind), (), kind)
    if isinstance(value, float):
        raise KernelError(where, f"the float {value!r}", needs)
    if value < 0 and kind.is_int_unsigned():
        raise KernelError(where, f"the negative integer {value}", needs)
    if kind is int1:
        return tensor(bool(value & 1), (), int1)
    return tensor(wrapped(int(value), kind), (), kind)


def _rounded_once(value: float, kind: dtype) -> float:
    """Returns *value* in *kind* with one rounding: toward zero in bf16, to nearest in other types."""
    with np.errstate(over="ignore"):
        if kind is float16:
            return float(np.float16(value))
        if kind is bfloat16:
            return float((np.float32(value).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32))
        return float(np.float32(value)) if kind is float32 else value
