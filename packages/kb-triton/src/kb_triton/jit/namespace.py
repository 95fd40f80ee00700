"""The names that a kernel's code sees: its module's own, and Triton's meaning of Python's `range` and the like."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final

from kb_triton.jit.boolean_operators import OPERATORS, elementwise_code
from kb_triton.language import device_print, maximum, minimum, tensor
from kb_triton.language.control import runtime_range


def _smallest(*values: Any, **named: Any) -> Any:
    """As Python's `min`, also of scalars of the kernel."""
    if len(values) == 2 and any(isinstance(each, tensor) for each in values):
        return minimum(*values)
    return builtins.min(*values, **named)


def _largest(*values: Any, **named: Any) -> Any:
    """As Python's `max`, also of scalars of the kernel."""
    if len(values) == 2 and any(isinstance(each, tensor) for each in values):
        return maximum(*values)
    return builtins.max(*values, **named)


_REPLACED: Final = {"range": runtime_range, "min": _smallest, "max": _largest, "print": device_print}
_BUILTINS: Final = {**vars(builtins), **_REPLACED, **OPERATORS}


def runnable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A copy of *fn* that sees Triton's builtins, and whose `and`, `or` and `not` take blocks. Its lines are those of
    *fn*.
    """
    if not isinstance(fn, FunctionType):
        return fn
    names = dict(fn.__globals__)
    names["__builtins__"] = _BUILTINS
    code, cells = elementwise_code(fn), dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    copy = FunctionType(code, names, fn.__name__, fn.__defaults__, tuple(cells[name] for name in code.co_freevars))
    copy.__kwdefaults__ = fn.__kwdefaults__
    return copy
