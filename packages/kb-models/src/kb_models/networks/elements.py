"""Operators of ONNX that are functions of elements, as expressions of several steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from kb_models.networks.graph import Node
from kb_models.ops.expression import Number, Step


class Expression(NamedTuple):
    """A function of the values *names*: the operands of `steps`, by their numbers."""

    names: tuple[str, ...]
    steps: tuple[Step, ...]


Argument: TypeAlias = "Expression | float | None"
Arguments: TypeAlias = Callable[[Node, int], Argument]
"""Gives an input of a node: an expression, a number, or None where it is left out."""


def applied(function: str, *arguments: Argument) -> Expression:
    """*function* of *arguments*, in which equal values are one operand."""
    names: list[str] = []
    steps: list[Step] = []
    for each in arguments:
        if isinstance(each, Expression):
            for name in each.names:
                if name not in names:
                    names.append(name)
            numbers = [names.index(name) for name in each.names]
            steps.extend(numbers[step] if isinstance(step, int) else step for step in each.steps)
        elif each is not None:
            steps.append(Number(float(each)))
    return Expression(tuple(names), (*steps, function))


def _plain(function: str, n: int = 1) -> Callable[[Node, Arguments], Expression | None]:
    def make(node: Node, argument: Arguments) -> Expression | None:
        found = argument(node, 0)
        for number in range(1, max(n, len(node.inputs))):
            found = applied(function, found, argument(node, number))
        return found if n > 1 and isinstance(found, Expression) else applied(function, found)

    return make


def _clip(node: Node, argument: Arguments) -> Expression | None:
    found = argument(node, 0)
    bounds = (
        [argument(node, 1), argument(node, 2)]
        if len(node.inputs) > 1
        else [node.get("min", None), node.get("max", None)]
    )
    for function, bound in zip(("max", "min"), bounds, strict=True):
        if bound is not None:
            found = applied(function, found, bound)
    return found if isinstance(found, Expression) else None


def _power(node: Node, argument: Arguments) -> Expression | None:
    x, exponent = argument(node, 0), argument(node, 1)
    if exponent == 0.5:
        return applied("sqrt", x)
    if exponent not in (2.0, 3.0):
        return None
    square = applied("mul", x, x)
    return applied("mul", square, x) if exponent == 3.0 else square


def _gelu(node: Node, argument: Arguments) -> Expression | None:
    x = argument(node, 0)
    if node.get("approximate", "none") == "tanh":
        cube = applied("mul", applied("mul", x, x), x)
        inner = applied("mul", applied("add", x, applied("mul", cube, 0.044715)), 0.7978845608028654)
        slope = applied("add", applied("tanh", inner), 1.0)
    else:
        slope = applied("add", applied("erf", applied("mul", x, 2**-0.5)), 1.0)
    return applied("mul", applied("mul", x, 0.5), slope)


def _swish(node: Node, argument: Arguments) -> Expression | None:
    x = argument(node, 0)
    alpha = node.get("alpha", 1.0)
    return applied("mul", x, applied("sigmoid", x if alpha == 1.0 else applied("mul", x, alpha)))


def _hard_sigmoid(x: Argument, alpha: float, beta: float) -> Expression:
    line = applied("add", applied("mul", x, alpha), beta)
    return applied("min", applied("max", line, 0.0), 1.0)


def _leaky(node: Node, argument: Arguments) -> Expression | None:
    x = argument(node, 0)
    return applied("max", x, applied("mul", x, node.get("alpha", 0.01))) if node.get("alpha", 0.01) <= 1 else None


ELEMENTS: Final[Mapping[str, Callable[[Node, Arguments], Expression | None]]] = {
    "Add": _plain("add", 2),
    "Sub": _plain("sub", 2),
    "Mul": _plain("mul", 2),
    "Div": _plain("div", 2),
    "Max": _plain("max", 2),
    "Min": _plain("min", 2),
    "Sum": _plain("add", 2),
    "Pow": _power,
    "Neg": _plain("neg"),
    "Abs": _plain("abs"),
    "Sqrt": _plain("sqrt"),
    "Exp": _plain("exp"),
    "Tanh": _plain("tanh"),
    "Sigmoid": _plain("sigmoid"),
    "Erf": _plain("erf"),
    "Reciprocal": lambda node, argument: applied("div", 1.0, argument(node, 0)),
    "Relu": lambda node, argument: applied("max", argument(node, 0), 0.0),
    "Clip": _clip,
    "LeakyRelu": _leaky,
    "Gelu": _gelu,
    "Swish": _swish,
    "HardSigmoid": lambda node, argument: _hard_sigmoid(
        argument(node, 0), node.get("alpha", 0.2), node.get("beta", 0.5)
    ),
    "HardSwish": lambda node, argument: applied("mul", argument(node, 0), _hard_sigmoid(argument(node, 0), 1 / 6, 0.5)),
}
"""The expression of each operator. None of an expression says that its form of the operator is not known."""


def activation_of(node: Node, constants: Mapping[str, Any]) -> str | None:
    """The activation that *node* is, by the name that ops take; None for any other operator."""
    if node.op == "Clip":
        names = [*node.inputs[1:3], "", ""][:2]
        given = [constants.get(name) for name in names]
        bounds = [None if each is None or each.size != 1 else float(each.reshape(-1)[0]) for each in given]
        if len(node.inputs) == 1:
            bounds = [node.get("min", None), node.get("max", None)]
        return "relu6" if bounds == [0.0, 6.0] else "relu" if bounds == [0.0, None] and not names[1] else None
    if node.op == "Gelu":
        return "gelu_tanh" if node.get("approximate", "none") == "tanh" else "gelu"
    is_silu = node.op == "Swish" and node.get("alpha", 1.0) == 1.0
    return "silu" if is_silu else {"Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh"}.get(node.op)
