"""The types that Triton gives to the arguments of a launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, Final, Protocol

import numpy as np

from kb_engine import Tensor
from kb_messages import KernelError
from kb_triton.checking.values import UNKNOWN, Constant, Descriptor, Group, Typed, Value, type_of_constant, wrapped
from kb_triton.host import TensorDescriptor, is_array, is_view, type_of
from kb_triton.language import Pointer, constexpr, tensor
from kb_triton.language.tensors.annotations import stated_type
from kb_triton.language.tensors.dtypes import OF_KB, dtype, float32, int1, pointer_type

_KINDS: Final = {each.name: each for each in OF_KB.values()}


class Parameter(Protocol):
    """A parameter of a kernel, under the names that Triton gives to its parts."""

    name: str
    annotation: Any
    is_constexpr: bool
    do_not_specialize: bool


def is_of_constants(parameter: Parameter) -> bool:
    """Whether *parameter* is annotated as a pointer to constants."""
    annotation = parameter.annotation
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return text.rpartition(".")[2] == "const" or text.startswith("*k")


def values_of(parameters: list[Any], arguments: Mapping[str, Any]) -> list[Value]:
    """Returns what the compiler knows of *arguments*, the bound arguments by name, in the order of *parameters*."""
    return [value_of(each, arguments.get(each.name)) for each in parameters]


def value_of(parameter: Parameter, value: Any) -> Value:
    """Returns what Triton's compiler knows of *value*, the argument for *parameter*."""
    if parameter.is_constexpr:
        return wrapped(value)
    return _of(parameter, value)


def _of(parameter: Parameter, value: Any) -> Value:
    number = _of_number(parameter, value)
    if number is not None:
        return number
    if is_array(value) or is_view(value):
        return _pointer(parameter, lambda: type_of(value))
    if isinstance(value, Tensor):
        return _pointer(parameter, lambda: OF_KB[value.dtype])
    if isinstance(value, TensorDescriptor):
        base = _pointer(parameter, lambda: type_of(value.base))
        return UNKNOWN if base is UNKNOWN else Descriptor(_element(base), tuple(value.block_shape))
    if isinstance(value, (tuple, list)):
        return Group(tuple(_of(parameter, each) for each in value), getattr(value, "_fields", None))
    if isinstance(value, (constexpr, dtype)) or value is None or hasattr(value, "arg_names"):
        return Constant(value)
    return UNKNOWN


def _element(pointer: Value) -> Any:
    assert isinstance(pointer, Typed)
    return pointer.dtype.element_ty


def _of_number(parameter: Parameter, value: Any) -> Value | None:
    """Returns a number as Triton sees it: 1 is a constant, unless the parameter says otherwise. None for no number."""
    if isinstance(value, (constexpr, tensor)) or not isinstance(value, (int, float, np.generic)):
        return None
    annotated = stated_type(parameter.annotation)
    if annotated is not None:
        return Typed(annotated, ())
    if isinstance(value, (bool, np.bool_)):
        return Typed(int1, ())
    if isinstance(value, int):
        if value == 1 and not parameter.do_not_specialize:
            return Constant(1)
        return _integer(value)
    return Typed(float32, ()) if isinstance(value, float) else UNKNOWN


def _integer(value: int) -> Value:
    """Returns the type of an integer argument: 32 bits if it fits, else 64, without a sign beyond 2^63."""
    if not -(1 << 63) <= value < 1 << 64:
        return UNKNOWN
    kind = type_of_constant(value)
    return Typed(_KINDS["int64"] if kind.name == "uint32" else kind, ())


def _pointer(parameter: Parameter, kind_of: Callable[[], dtype]) -> Value:
    try:
        kind = kind_of()
    except KernelError:
        return UNKNOWN  # the launch refuses the type in words of its own
    return Typed(pointer_type(kind, const=is_of_constants(parameter)), ())


def key_of(parameter: Parameter, value: Any) -> Any:
    """Returns an object that is equal for arguments of one type, and for equal constants."""
    if parameter.is_constexpr or isinstance(value, constexpr):
        return _constant_key(value)
    if isinstance(value, bool) or value is None:
        return type(value)
    if isinstance(value, int):
        return (int, value == 1, -(1 << 31) <= value < 1 << 31, value < 1 << 63)
    if isinstance(value, np.ndarray):
        return value.dtype
    if is_array(value):
        return value.dtype
    if isinstance(value, Tensor):
        return value.dtype
    if isinstance(value, TensorDescriptor):
        return (key_of(parameter, value.base), tuple(value.block_shape))
    if isinstance(value, Pointer):
        return id(value)
    if isinstance(value, (tuple, list)):
        return (type(value), *(key_of(parameter, each) for each in value))
    return (type(value), str(getattr(value, "dtype", "")))


def _constant_key(value: Any) -> Any:
    if isinstance(value, (int, float, str)) or value is None:
        return type(value), value
    if isinstance(value, (tuple, list)):
        return (type(value), *map(_constant_key, value))
    return value if isinstance(value, (FunctionType, dtype)) else (type(value), id(value))
