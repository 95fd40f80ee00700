"""Calls of functions of Python in a kernel: Triton calls them with constants while it compiles."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from types import BuiltinFunctionType, ModuleType
from typing import Any, Final

from kb_messages import KernelError
from kb_triton.checking.refusals import Refusal
from kb_triton.checking.values import UNKNOWN, Constant, Group, Plain, Typed, Value, python_of, wrapped
from kb_triton.language import tensor
from kb_triton.language.tensors.dtypes import dtype

_ERRORS: Final = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, KernelError)
"""Errors of functions for arguments that they do not take."""
OUTSIDE: Final = "Did you forget to add @triton.jit ? (`_semantic` argument must be provided outside of JIT functions.)"
"""What Triton says of an operator of tensors in a function of Python."""
_PURE: Final = (math, operator)
"""Modules whose functions change nothing."""


def called_host_function(function: Any, arguments: Sequence[Value], named: Mapping[str, Value]) -> Value:
    """Returns the result of *function*, an object of Python, in a kernel; unknown for one that may change something."""
    if function in (int, float, len) and len(arguments) == 1 and not named:
        return _converted(function, arguments[0])
    if function is isinstance and len(arguments) == 2:
        return _is_instance(arguments[0], arguments[1])
    if function is range:
        return _range_of(arguments)
    if not _is_pure(function):
        return UNKNOWN
    if any(isinstance(each, Typed) for each in (*arguments, *named.values())) and _is_of_constants(function):
        raise Refusal(OUTSIDE)
    values = [_plain(each) for each in arguments]
    by_name = {name: _plain(value) for name, value in named.items()}
    if any(each is UNKNOWN for each in (*values, *by_name.values())):
        return UNKNOWN
    try:
        return wrapped(function(*values, **by_name))
    except _ERRORS:
        return UNKNOWN


def _range_of(arguments: Sequence[Value]) -> Value:
    bounds = [_plain(each) for each in arguments]
    return Plain(range(*bounds)) if 0 < len(bounds) < 4 and all(isinstance(each, int) for each in bounds) else UNKNOWN


def _converted(function: Callable[[Any], Any], value: Value) -> Value:
    if isinstance(value, Typed):
        wants = {int: "a string, a bytes-like object or a real number", float: "a string or a real number"}
        if function in wants:
            raise Refusal(f"{function.__name__}() argument must be {wants[function]}, not 'tensor'", TypeError)
        raise Refusal("object of type 'tensor' has no len()", TypeError)
    if isinstance(value, Group):
        return Constant(len(value.values)) if function is len else UNKNOWN
    if not isinstance(value, (Constant, Plain)):
        return UNKNOWN
    try:
        return Constant(function(value.value))
    except (TypeError, ValueError, ArithmeticError) as error:
        raise Refusal(str(error), type(error)) from None


def _is_instance(value: Value, kind: Value) -> Value:
    if python_of(kind) is tensor and isinstance(value, (Typed, Constant, Group)):
        return Constant(isinstance(value, Typed))
    return UNKNOWN


def _plain(value: Value) -> Any:
    """Returns *value* as an object of Python; UNKNOWN where it is none."""
    if isinstance(value, (Constant, Plain)):
        return value.value
    if isinstance(value, Group):
        found = [_plain(each) for each in value.values]
        return UNKNOWN if any(each is UNKNOWN for each in found) else tuple(found)
    return UNKNOWN


def _is_of_constants(function: Any) -> bool:
    """Whether Triton gives *function* the constants of a kernel, and no tensors that it could compute with."""
    return getattr(function, "__module__", "") == "kb_triton.shims.module_names"


def _is_pure(function: Any) -> bool:
    """Whether a call of *function* with constants only computes."""
    if getattr(function, "__is_constexpr_function__", False):
        return True
    owner = getattr(function, "__self__", None)
    if isinstance(owner, (dtype, str, tuple)) or (isinstance(owner, ModuleType) and owner in _PURE):
        return True
    if getattr(function, "__module__", "") == "kb_triton.shims.module_names":
        return getattr(function, "__name__", "") in ("cdiv", "next_power_of_2")
    if getattr(function, "__module__", "") == "kb_triton.language.tensors.dtypes":
        return True
    return isinstance(function, BuiltinFunctionType) and function in (builtins.min, builtins.max)
