"""KernelCheck: the check of one kernel for the types of its arguments, with all functions that it calls."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kb_triton.checking.refusals import Refusal, unsupported
from kb_triton.checking.source import source_of
from kb_triton.checking.statements import FunctionCheck
from kb_triton.checking.values import (
    UNKNOWN,
    Constant,
    Group,
    Plain,
    Typed,
    Value,
    is_unknown,
    name_of_type,
    normalized,
    renewed,
)

_MOST_STEPS: Final = 200_000
"""The nodes of the source that one check visits, which takes half a second. Source: assumed; unrolled loops repeat."""


class EnoughSteps(Exception):
    """A check has visited more nodes than it may, and gives up without a refusal."""


class KernelCheck:
    """Checks a kernel and the functions that it calls. With *allows_globals*, they may read all globals."""

    def __init__(self, allows_globals: bool) -> None:
        self.allows_globals = allows_globals
        self._steps = 0
        self._results: dict[Any, Value] = {}
        self._open: set[Any] = set()

    def step(self) -> None:
        """Counts a visited node. Raises EnoughSteps for too many."""
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise EnoughSteps

    def refusal(self, function: Any, arguments: Sequence[Value]) -> Refusal | None:
        """Returns the refusal of the kernel *function*, a JITFunction, for *arguments*; None if Triton compiles it."""
        source = source_of(function.fn)
        if source is None:
            return None
        try:
            FunctionCheck(self, function.fn, source).run(arguments)
        except Refusal as refusal:
            return refusal
        except (EnoughSteps, RecursionError):
            return None
        except Exception as error:  # noqa: BLE001 -- a rule that fails must not stop a kernel that may be right
            said = f"kb-triton cannot check {function.__name__} ({error!r}), which runs unchecked; please report it"
            warnings.warn(said, RuntimeWarning, stacklevel=2)
        return None

    def call(self, function: Any, arguments: Sequence[Value], named: Mapping[str, Value]) -> Value:
        """Returns the value of a call of *function*, a JITFunction, in a kernel."""
        source = source_of(function.fn)
        try:
            bound = function.signature.bind(*arguments, **named)
        except TypeError as error:
            raise Refusal(str(error), TypeError) from None
        if source is None:
            return UNKNOWN
        bound.apply_defaults()
        values = [
            _argument(parameter, bound.arguments[parameter.name])
            for parameter in function.signature.parameters.values()
        ]
        _check_inlined(function, values)
        key = (function.fn, tuple(map(_key, values)))
        if key in self._open:
            raise Refusal(f"{function.__module__}.{function.__name__}__{'_'.join(map(name_of_type, values))}", KeyError)
        if key not in self._results:
            self._open.add(key)
            called = FunctionCheck(self, function.fn, source)
            called.run(values)
            self._open.discard(key)
            self._results[key] = called.result
        return renewed(self._results[key])


def _check_inlined(function: Any, values: Sequence[Value]) -> None:
    """Refuses blocks as arguments of a function that is not inlined."""
    if not getattr(function, "noinline", False):
        return
    for name, value in zip(function.arg_names, values, strict=True):
        if isinstance(value, Typed) and value.numel != 1:
            raise unsupported(
                f"Function {function.__name__} is marked noinline, but was called with non-scalar argument "
                f"{name}:{value}"
            )


def _argument(parameter: inspect.Parameter, value: Any) -> Value:
    if parameter.kind is parameter.VAR_POSITIONAL:
        return Group(tuple(map(normalized, value)))
    known = isinstance(value, (Typed, Constant, Plain, Group)) or type(value).__module__ == Constant.__module__
    return normalized(value if known else Constant(value))


def _key(value: Value) -> Any:
    """Returns an object that is equal for arguments of one type. An unknown argument equals itself alone."""
    if isinstance(value, Typed):
        return name_of_type(value)
    if isinstance(value, Group):
        return (value.fields, *map(_key, value.values))
    if isinstance(value, Constant):
        return type(value.value).__name__, repr(value.value)
    return value if is_unknown(value) else id(value)
