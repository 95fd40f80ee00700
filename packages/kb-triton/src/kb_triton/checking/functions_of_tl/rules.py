"""The table of rules, and what rules ask of the arguments of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from kb_triton.checking.host_functions import OUTSIDE
from kb_triton.checking.refusals import Refusal
from kb_triton.checking.values import (
    CLASSES,
    SOME_TENSOR,
    Constant,
    Group,
    Plain,
    Typed,
    Value,
    as_tensor,
    class_name,
    python_of,
)
from kb_triton.language.tensors.dtypes import void

Function = TypeVar("Function", bound=Callable[..., Any])


class Rule(NamedTuple):
    """A rule: *find* returns the value of a call. *default* is the value where an argument is unknown.

    A rule that *is_jitted* stands for a function of Triton that is a kernel's function itself. One that *needs_check*
    takes the check of the kernel as `check`.
    """

    find: Callable[..., Any]
    default: Value
    is_jitted: bool
    needs_check: bool


RULES: Final[dict[str, Rule]] = {}
"""The rule of each function of `tl`, by its name there."""
METHODS: Final[set[str]] = set()
"""The names of functions that tensors have as methods."""
NONE: Final = Constant(None)
ZERO: Final = Constant(0)
ONE: Final = Constant(1)


def rule(
    *names: str, default: Value = SOME_TENSOR, method: bool = False, jitted: bool = False, needs_check: bool = False
) -> Callable[[Function], Function]:
    """Decorates the rule of the functions *names* of `tl`. With *method*, tensors have methods of the names."""

    def register(function: Function) -> Function:
        function.__qualname__ = names[0]
        for name in names:
            RULES[name] = Rule(function, default, jitted, needs_check)
        if method:
            METHODS.update(names)
        return function

    return register


def is_none(value: Value) -> bool:
    """Whether *value* is None."""
    return isinstance(value, (Constant, Plain)) and value.value is None


def tensor_of(value: Value) -> Typed:
    """Returns *value* as a tensor. Refuses an object that is no number."""
    found = as_tensor(value)
    assert isinstance(found, Typed)
    return found


def given_tensor(value: Value, attribute: str = "shape") -> Typed:
    """Returns *value*, which has to be a tensor already. The refusal names the *attribute* that Triton asks for."""
    if isinstance(value, Typed):
        return value
    raise Refusal(f"'{_class(value)}' object has no attribute '{attribute}'")


def _class(value: Value) -> str:
    return "constexpr" if isinstance(value, Constant) else class_name(value)


def integers_of(value: Value | tuple[Value, ...]) -> list[Any]:
    """Returns the elements of a shape: integers of Python, and any other value as it is."""
    parts = value.values if isinstance(value, Group) else value if isinstance(value, tuple) else (value,)
    return [python_of(each) for each in parts]


def varied(values: tuple[Value, ...]) -> list[Any]:
    """Returns the integers of `f(x, 2, 3)` and of `f(x, (2, 3))`."""
    if len(values) == 1 and isinstance(values[0], Group):
        return integers_of(values[0])
    return integers_of(values)


def flag(value: Value) -> bool:
    """Whether a constant is true."""
    return bool(python_of(value))


def axis_in(axis: Any, rank: int) -> int:
    """Returns *axis*, counted from the front. Refuses an axis that a tensor of *rank* axes does not have."""
    if not isinstance(axis, int):
        words = f"'<=' not supported between instances of 'int' and '{type(axis).__name__}'"
        raise Refusal(OUTSIDE if isinstance(axis, Typed) else words)
    if not -rank <= axis < rank:
        raise Refusal(f"invalid axis {axis}. Expected {-rank} <= axis < {rank}")
    return axis if axis >= 0 else axis + rank


def nothing() -> Typed:
    """Returns the value of a call for its effect."""
    return Typed(void, ())


def class_text(value: Any) -> str:
    """Returns the text of the class of *value*, as Triton prints it."""
    return f"<class '{CLASSES[type(value)]}'>" if type(value) in CLASSES else str(type(value))
