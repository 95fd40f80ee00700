"""Expressions: functions of elements, as steps that a kernel takes in f32 and a reference in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import erf
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from kb_models.layout.value import Array


class Number(NamedTuple):
    """A number in an expression."""

    value: float


Step: TypeAlias = int | Number | str
"""An int takes the operand of this number, and a name applies the function to the last results."""
_U: Final = 2.0**-24
"""The unit roundoff of f32."""


class Function(NamedTuple):
    """A function of `n` values: in a kernel, and in float64 with the error that a kernel's result has at most.

    `bound` takes the values and their errors, and returns the error of the result before its own rounding. `ulps` are
    the roundings of f32 of the function itself.
    """

    n: int
    kernel: Callable[..., Any]
    exact: Callable[..., Array]
    bound: Callable[..., Array]
    ulps: int = 1


def _one(kernel: str, exact: Callable[[Array], Array], slope: Callable[[Array], Any], ulps: int) -> Function:
    return Function(1, lambda tl, x: getattr(tl, kernel)(x), exact, lambda x, e: e * slope(x), ulps)


_TRANSCENDENTAL_ULPS = 4
"""Roundings of a transcendental function in f32. Source: assumed; the data pass computes them by numpy, whose functions
are within 4 units in the last place."""

FUNCTIONS: Final[dict[str, Function]] = {
    "add": Function(2, lambda tl, a, b: a + b, lambda a, b: a + b, lambda a, b, d, e: d + e),
    "sub": Function(2, lambda tl, a, b: a - b, lambda a, b: a - b, lambda a, b, d, e: d + e),
    "mul": Function(2, lambda tl, a, b: a * b, lambda a, b: a * b, lambda a, b, d, e: abs(a) * e + abs(b) * d + d * e),
    "div": Function(
        2,
        lambda tl, a, b: a / b,
        lambda a, b: a / b,
        lambda a, b, d, e: (d + abs(a / b) * e) / np.maximum(abs(b) - e, 2.0**-100),
    ),
    "max": Function(2, lambda tl, a, b: tl.maximum(a, b), np.maximum, lambda a, b, d, e: np.maximum(d, e), 0),
    "min": Function(2, lambda tl, a, b: tl.minimum(a, b), np.minimum, lambda a, b, d, e: np.maximum(d, e), 0),
    "neg": Function(1, lambda tl, x: 0.0 - x, np.negative, lambda x, e: e, 0),
    "abs": Function(1, lambda tl, x: tl.abs(x), np.abs, lambda x, e: e, 0),
    "sqrt": _one("sqrt", np.sqrt, lambda x: 0.5 / np.sqrt(np.maximum(x, 2.0**-100)), 1),
    "exp": _one("exp", np.exp, np.exp, _TRANSCENDENTAL_ULPS),
    "tanh": _one("tanh", np.tanh, lambda x: 1.0, _TRANSCENDENTAL_ULPS),
    "sigmoid": _one("sigmoid", lambda x: 1 / (1 + np.exp(-x)), lambda x: 0.25, _TRANSCENDENTAL_ULPS),
    "erf": _one("erf", np.vectorize(erf, otypes=[np.float64]), lambda x: 1.13, _TRANSCENDENTAL_ULPS),
}
"""The functions by name."""


def computed(tl: Any, operands: Sequence[Any], steps: Sequence[Step]) -> Any:
    """The result of *steps* on *operands* in f32, in a kernel."""
    stack: list[Any] = []
    for step in steps:
        if isinstance(step, str):
            function = FUNCTIONS[step]
            arguments = [stack.pop() for _ in range(function.n)][::-1]
            stack.append(function.kernel(tl, *arguments))
        else:
            stack.append(operands[step] if isinstance(step, int) else step.value)
    return stack[0]


def bounded(operands: Sequence[Array], steps: Sequence[Step]) -> tuple[Array, Array]:
    """The result of *steps* in float64, and the error that a kernel's result has at most before it is rounded to the
    dtype of the result."""
    stack: list[tuple[Array, Array]] = []
    for step in steps:
        if isinstance(step, str):
            function = FUNCTIONS[step]
            arguments = [stack.pop() for _ in range(function.n)][::-1]
            values, errors = zip(*arguments, strict=True)
            found = function.exact(*values)
            stack.append((found, function.bound(*values, *errors) + function.ulps * _U * np.abs(found)))
        else:
            value = operands[step].astype(np.float64) if isinstance(step, int) else np.asarray(step.value, np.float64)
            stack.append((value, np.zeros_like(value)))
    return stack[0]


def n_operations(steps: Sequence[Step]) -> int:
    """The functions among *steps*."""
    return sum(isinstance(step, str) for step in steps)
