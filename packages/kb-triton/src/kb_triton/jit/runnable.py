"""Runnable copies of a kernel's function, in which Triton's meaning of operators, numbers and builtins holds."""

from __future__ import annotations

import builtins
from functools import lru_cache
from itertools import repeat
from operator import is_
from types import CodeType, FunctionType
from typing import Any, Final

from kb_triton.jit.rewriting import tritons_code
from kb_triton.jit.scalars import OPERATORS
from kb_triton.language import device_print, maximum, minimum, tensor
from kb_triton.language.control import runtime_range


def _smallest(*values: Any, **named: Any) -> Any:
    """Python's `min`, which takes scalars of the kernel too."""
    if len(values) == 2 and any(isinstance(each, tensor) for each in values):
        return minimum(*values)
    return builtins.min(*values, **named)


def _largest(*values: Any, **named: Any) -> Any:
    """Python's `max`, which takes scalars of the kernel too."""
    if len(values) == 2 and any(isinstance(each, tensor) for each in values):
        return maximum(*values)
    return builtins.max(*values, **named)


_REPLACED: Final = {"range": runtime_range, "min": _smallest, "max": _largest, "print": device_print}
_NOTHING: Final = object()
_MOST_CODES: Final = 1 << 10
"""Of which the names are kept. Source: assumed; most have less than 1 kB of names."""
_BUILTINS: Final = {**vars(builtins), **_REPLACED, **OPERATORS}


class Runnable:
    """Makes runnable copies of *fn*, which see Triton's builtins, and whose operators and numbers are Triton's.

    A copy has the lines of *fn*. The same copy is used until a name that its code uses gets another value.
    """

    def __init__(self, fn: FunctionType) -> None:
        self.fn = fn
        self._copy: FunctionType | None = None
        self._values: list[Any] = []

    def function(self) -> FunctionType:
        """Returns the copy for the present values of the names that *fn* uses."""
        fn = self.fn
        names = _names_in(fn.__code__)
        values = [fn.__code__, *map(fn.__globals__.get, names, repeat(_NOTHING)), fn.__defaults__, fn.__kwdefaults__]
        if self._copy is None or not all(map(is_, self._values, values)):
            self._copy, self._values = _copied(fn), values
        return self._copy


@lru_cache(maxsize=_MOST_CODES)
def _names_in(code: CodeType) -> frozenset[str]:
    """Returns the names that *code*, and code nested in it, may look up."""
    return frozenset(code.co_names).union(*[_names_in(each) for each in code.co_consts if isinstance(each, CodeType)])


def _copied(fn: FunctionType) -> FunctionType:
    names = dict(fn.__globals__)
    names["__builtins__"] = _BUILTINS
    code, cells = tritons_code(fn), dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    copy = FunctionType(code, names, fn.__name__, fn.__defaults__, tuple(cells[name] for name in code.co_freevars))
    copy.__kwdefaults__ = fn.__kwdefaults__
    return copy
