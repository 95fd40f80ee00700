"""The names that a kernel's code sees: its module's own, and Triton's meaning of Python's `range` and the like."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, Final

from kb_triton.language import tensor
from kb_triton.language.dtypes import int32
from kb_triton.language.promotion import type_of_number


def runtime_range(*bounds: Any) -> Iterator[tensor]:
    """As Python's `range`; the integers are scalars of the kernel."""
    first = next((each for each in bounds if isinstance(each, tensor) and each.dtype != int32), None)
    for number in range(*bounds):
        kind = first.dtype if first is not None else type_of_number(number)
        yield tensor(number, (), kind)


_REPLACED: Final = {"range": runtime_range}
_BUILTINS: Final = {**vars(builtins), **_REPLACED}


def runnable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A copy of *fn* that sees Triton's builtins. Its code, and so its lines, are those of *fn*."""
    if not isinstance(fn, FunctionType):
        return fn
    names = dict(fn.__globals__)
    names["__builtins__"] = _BUILTINS
    copy = FunctionType(fn.__code__, names, fn.__name__, fn.__defaults__, fn.__closure__)
    copy.__kwdefaults__ = fn.__kwdefaults__
    return copy
