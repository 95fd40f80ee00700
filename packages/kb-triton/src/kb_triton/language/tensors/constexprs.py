"""Constants of a kernel (`tl.constexpr`) and aggregates, an author's classes whose instances kernels make."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import get_annotations
from types import FunctionType
from typing import Any


class _ConstexprMeta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        """Whether *instance* has `.value`: code that asks `isinstance(x, tl.constexpr)` goes on to read it."""
        return isinstance(instance, constexpr_int | constexpr_float | constexpr_str)


def _both(one: Any, other: Any) -> Any:
    """Returns `one and other`."""
    return one and other


def _either(one: Any, other: Any) -> Any:
    """Returns `one or other`."""
    return one or other


class constexpr_int(int):
    """An integer with `.value`, which Triton's constexpr has."""

    __slots__ = ()
    logical_and = _both
    logical_or = _either

    @property
    def value(self) -> int:
        """The plain integer."""
        return int(self)


class constexpr_float(float):
    """A float with `.value`, which Triton's constexpr has."""

    __slots__ = ()
    logical_and = _both
    logical_or = _either

    @property
    def value(self) -> float:
        """The plain float."""
        return float(self)


class constexpr_str(str):
    """A text with `.value`, which Triton's constexpr has."""

    __slots__ = ()
    logical_and = _both
    logical_or = _either

    @property
    def value(self) -> str:
        """The plain text."""
        return str(self)


class constexpr(metaclass=_ConstexprMeta):
    """The annotation of a constant argument. `constexpr(v)` returns *v*, with `.value` for a number or a text."""

    def __new__(cls, value: Any) -> Any:
        """Returns *value* as a constant."""
        return constant_of(value)


class Shape(tuple[int, ...]):
    """The shape of a block as a kernel reads it: a tuple that equals a list of the same sizes, as in Triton."""

    __slots__ = ()

    def __new__(cls, sizes: Iterable[int]) -> Shape:
        """Returns *sizes* with `.value` for each."""
        return super().__new__(cls, map(constexpr_int, sizes))

    def __eq__(self, other: object) -> bool:
        return super().__eq__(tuple(other) if isinstance(other, list) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return Shape(found) if isinstance(key, slice) else found

    def __add__(self, other: Any) -> Any:
        return tuple(self) + tuple(other)

    def __radd__(self, other: Any) -> Any:
        return tuple(other) + tuple(self)


def constant_of(value: Any) -> Any:
    """Returns *value* as a constant of a kernel: an integer, float or text gets `.value`, others stay as they are."""
    kind = type(value)
    if kind is int:
        return constexpr_int(value)
    if kind is float:
        return constexpr_float(value)
    return constexpr_str(value) if kind is str else value


_FIELDS = "__aggregate_fields__"


def aggregate(cls: type) -> type:
    """Decorates a class: its annotated names become fields. Without an `__init__`, its arguments are the fields."""
    fields: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        fields |= dict.fromkeys(get_annotations(base))
    setattr(cls, _FIELDS, tuple(fields))
    for name, member in list(vars(cls).items()):
        if callable(member) and not isinstance(member, (FunctionType, staticmethod, type)):
            setattr(cls, name, _method(member))  # an object of @jit, which does not bind to an instance by itself
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
    """Returns a copy of *instance* with *changes* of its fields. Raises TypeError for no aggregate."""
    names = getattr(type(instance), _FIELDS, None)
    if names is None or set(changes) - set(names):
        needs = "an aggregate" if names is None else f"fields of {list(names)}"
        raise TypeError(f"tl.aggregate_replace: got {type(instance).__name__} and {sorted(changes)}, needs {needs}")
    return type(instance)(**{name: getattr(instance, name) for name in names} | changes)
