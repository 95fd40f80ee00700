"""Calls of functions of `tl` in a kernel: which rule a function has, and the binding of arguments to the rule."""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Final

from kb_triton import language
from kb_triton.checking.functions_of_tl import (
    dots,
    elementwise,
    hints,
    memory,
    random,
    reductions,
    shapes,
)
from kb_triton.checking.functions_of_tl.rules import METHODS, RULES, Rule
from kb_triton.checking.host_functions import called_host_function
from kb_triton.checking.refusals import Refusal
from kb_triton.checking.values import SOME_TENSOR, UNKNOWN, Value, is_unknown
from kb_triton.checking.whole_check import WholeCheck

_MODULES: Final = (dots, elementwise, hints, memory, random, reductions, shapes)
"""The modules whose import fills the table of rules."""
_OF_PYTHON: Final = {
    id(builtins.min): "builtin_min",
    id(builtins.max): "builtin_max",
    id(builtins.print): "device_print",
}
_LIBDEVICE: Final = "kb_triton.language.libdevice"


@lru_cache(maxsize=1)
def _names() -> dict[int, str]:
    """Returns the names of the functions of `tl`, by the ids of the functions."""
    found = {id(getattr(language, name)): name for name in language.__all__ if callable(getattr(language, name))}
    return found | _OF_PYTHON


def name_of(function: Any) -> str | None:
    """Returns the name of the rule of a function of `tl`, or of a builtin of Python; None for any other object."""
    return _names().get(id(function))


def is_method(name: str) -> bool:
    """Whether tensors have the method *name*."""
    return name in METHODS


def call_of_tl(name: str, arguments: Sequence[Value], named: Mapping[str, Value], check: WholeCheck) -> Value:
    """Returns the value of `tl.NAME(...)`; unknown for a function without a rule."""
    rule = RULES.get(name)
    if rule is None:
        return UNKNOWN
    more: dict[str, Any] = {"check": check} if rule.needs_check else {}
    _check_names(rule, arguments, {**named, **more})
    if any(map(is_unknown, arguments)) or any(map(is_unknown, named.values())):
        return rule.default
    try:
        found: Value = rule.find(*arguments, **named, **more)
    except Refusal as refusal:
        raise refusal.within_call() from None
    return found


def call_of_object(function: Any, arguments: Sequence[Value], named: Mapping[str, Value], check: WholeCheck) -> Value:
    """Returns the value of a call of *function*, an object of Python that is no function of a kernel."""
    name = name_of(function)
    if name in RULES:
        assert name is not None
        return call_of_tl(name, arguments, named, check)
    if getattr(function, "__module__", None) == _LIBDEVICE:
        return SOME_TENSOR
    return called_host_function(function, arguments, named)


def _check_names(rule: Rule, arguments: Sequence[Value], named: Mapping[str, Value]) -> None:
    """Refuses arguments that a function does not take, in the words of Python."""
    try:
        _signature(rule.find).bind(*arguments, **named)
    except TypeError as error:
        if rule.is_jitted:
            raise Refusal(str(error), TypeError) from None
        raise Refusal(_words_of_call(rule.find, arguments, named)) from None


@cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def _words_of_call(function: Callable[..., Any], arguments: Sequence[Value], named: Mapping[str, Value]) -> str:
    """Returns the words of Python for a call of *function* with arguments that it does not take."""
    try:
        function(*arguments, **named)
    except TypeError as error:
        return str(error)
    raise AssertionError(f"{function.__qualname__} takes the arguments")
