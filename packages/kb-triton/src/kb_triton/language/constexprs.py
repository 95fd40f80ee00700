"""constexpr: values that a kernel knows when it is compiled. Here they are plain Python values."""

from __future__ import annotations

from typing import Any


class _ConstexprMeta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        """A constant is what has `.value`. Code that asks unwraps it; other values are as they would be then."""
        return isinstance(instance, constexpr_int | constexpr_float | constexpr_str)


class constexpr_int(int):
    """An integer with `.value`, as Triton's constexpr has it."""

    __slots__ = ()

    @property
    def value(self) -> int:
        """The plain integer."""
        return int(self)


class constexpr_float(float):
    """A float with `.value`, as Triton's constexpr has it."""

    __slots__ = ()

    @property
    def value(self) -> float:
        """The plain float."""
        return float(self)


class constexpr_str(str):
    """A text with `.value`, as Triton's constexpr has it."""

    __slots__ = ()

    @property
    def value(self) -> str:
        """The plain text."""
        return str(self)


class constexpr(metaclass=_ConstexprMeta):
    """Marks an argument as constant, as an annotation. `constexpr(v)` is *v*, with `.value` if *v* can have one."""

    def __new__(cls, value: Any) -> Any:
        """*value* as a constant."""
        return constant_of(value)


def constant_of(value: Any) -> Any:
    """*value* as a constant of a kernel."""
    kind = type(value)
    if kind is int:
        return constexpr_int(value)
    if kind is float:
        return constexpr_float(value)
    return constexpr_str(value) if kind is str else value
