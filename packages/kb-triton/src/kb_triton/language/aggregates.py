"""Aggregates: classes of a kernel's author, whose instances kernels make, pass on and take apart."""

from __future__ import annotations

from collections.abc import Callable
from inspect import get_annotations
from types import FunctionType
from typing import Any

from kb_triton.language.constexprs import constant_of

_FIELDS = "__aggregate_fields__"


def aggregate(cls: type) -> type:
    """*cls* with its annotated names as fields. Without an `__init__`, the fields are its arguments."""
    fields: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        fields |= dict.fromkeys(get_annotations(base))
    setattr(cls, _FIELDS, tuple(fields))
    for name, member in list(vars(cls).items()):
        if callable(member) and not isinstance(member, (FunctionType, staticmethod, type)):
            setattr(cls, name, _method(member))  # a function that @jit made, which is no method by itself
    if "__init__" not in vars(cls):
        cls.__init__ = _initialize  # type: ignore[misc]
    return cls


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *arguments, **named: function(self, *arguments, **named)


def _initialize(self: Any, *arguments: Any, **named: Any) -> None:
    names: tuple[str, ...] = getattr(type(self), _FIELDS)
    given = dict(zip(names, arguments, strict=False)) | named
    missing = [each for each in names if each not in given and not hasattr(type(self), each)]
    if len(arguments) > len(names) or missing or set(given) - set(names):
        raise TypeError(f"{type(self).__name__}: got values of {sorted(given)}, needs one of each of {list(names)}")
    for name in names:
        setattr(self, name, constant_of(given[name] if name in given else getattr(type(self), name)))


def aggregate_replace(instance: Any, **changes: Any) -> Any:
    """A copy of *instance*, an aggregate, with *changes* of its fields. Raises TypeError for anything else."""
    names = getattr(type(instance), _FIELDS, None)
    if names is None or set(changes) - set(names):
        needs = "an aggregate" if names is None else f"fields of {list(names)}"
        raise TypeError(f"tl.aggregate_replace: got {type(instance).__name__} and {sorted(changes)}, needs {needs}")
    return type(instance)(**{name: getattr(instance, name) for name in names} | changes)
