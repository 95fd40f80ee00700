"""MATH: elementwise functions and row or column reductions, in f32 for floats and i64 for integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec
import numpy as np

from kb_dataexec.dtypes import Array, cast, numpy_dtype
from kb_dataexec.ops.base import Op, OperandRow
from kb_dataexec.store import MemoryStore
from kb_messages.dtypes import DType
from kb_messages.oplog import MathAttributes, Role


class Function(NamedTuple):
    """A row of the table of ops. `apply` takes `arity` 2-D arrays of one type, and `axis` where it `reduces`.

    Its first `as_is` arguments keep their own types, and say nothing about the type the others are computed in.
    """

    arity: int
    apply: Callable[..., Array]
    float_only: bool = False
    reduces: bool = False
    as_is: int = 0


class Math(NamedTuple):
    """A MATH record's function and operands, found to fit together; computed in `working`, f32 or i64."""

    function: Function
    axis: int | None
    scalars: tuple[float, ...]
    inputs: list[OperandRow]
    out: OperandRow
    working: DType

    def evaluate(self, values: Sequence[Array]) -> Array:
        """The result for the inputs' *values*: a new array of OUT's shape and type."""
        with np.errstate(all="ignore"):
            as_is, working = self.function.as_is, self.working
            arguments = [
                np.ascontiguousarray(value if at < as_is else cast(value, working)) for at, value in enumerate(values)
            ]
            arguments += [np.full((1, 1), scalar, np.float64).astype(numpy_dtype(working)) for scalar in self.scalars]
            axis = {"axis": self.axis} if self.function.reduces else {}
            result = self.function.apply(*arguments, **axis)
            if not values:
                result = np.array(np.broadcast_to(result, self.out.shape))
            return cast(result, self.out.dtype)


def _sigmoid(x: Array) -> Array:
    out: Array = 1 / (1 + np.exp(-x))
    return out


def _gelu(x: Array) -> Array:
    """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).

    Source: Hendrycks and Gimpel, "Gaussian error linear units" (2016), section 2, the approximation by tanh.
    """
    scale = np.float32(0.7978845608028654)
    out: Array = np.float32(0.5) * x * (1 + np.tanh(scale * (x + np.float32(0.044715) * (x * x * x))))
    return out


def _relu(x: Array) -> Array:
    out: Array = np.maximum(x, x.dtype.type(0))
    return out


def _sum(x: Array, axis: int) -> Array:
    """With the reduced axis contiguous, along which numpy adds pairwise; across rows it would add one by one."""
    turned = np.ascontiguousarray(x.T if axis == 0 else x)
    return np.expand_dims(turned.sum(axis=1), axis)


def _where(condition: Array, a: Array, b: Array) -> Array:
    return np.where(condition != 0, a, b)


FUNCTIONS: Final[dict[str, Function]] = {
    "copy": Function(1, np.array, as_is=1),
    "neg": Function(1, np.negative),
    "abs": Function(1, np.abs),
    "exp": Function(1, np.exp, float_only=True),
    "log": Function(1, np.log, float_only=True),
    "sqrt": Function(1, np.sqrt, float_only=True),
    "rsqrt": Function(1, lambda x: 1 / np.sqrt(x), float_only=True),
    "sigmoid": Function(1, _sigmoid, float_only=True),
    "tanh": Function(1, np.tanh, float_only=True),
    "relu": Function(1, _relu),
    "gelu": Function(1, _gelu, float_only=True),
    "silu": Function(1, lambda x: x * _sigmoid(x), float_only=True),
    "not": Function(1, np.logical_not),
    "add": Function(2, np.add),
    "sub": Function(2, np.subtract),
    "mul": Function(2, np.multiply),
    "div": Function(2, np.divide, float_only=True),
    "maximum": Function(2, np.maximum),
    "minimum": Function(2, np.minimum),
    "pow": Function(2, np.power, float_only=True),
    "eq": Function(2, np.equal),
    "ne": Function(2, np.not_equal),
    "lt": Function(2, np.less),
    "le": Function(2, np.less_equal),
    "gt": Function(2, np.greater),
    "ge": Function(2, np.greater_equal),
    "and": Function(2, np.logical_and),
    "or": Function(2, np.logical_or),
    "where": Function(3, _where, as_is=1),
    "fma": Function(3, lambda a, b, c: a * b + c),
    "sum": Function(1, _sum, reduces=True),
    "max": Function(1, lambda x, axis: x.max(axis=axis, keepdims=True), reduces=True),
    "min": Function(1, lambda x, axis: x.min(axis=axis, keepdims=True), reduces=True),
}
"""What MATH records can ask for, by `MathAttributes.op`. README.md says what each one means."""


@lru_cache(maxsize=256)
def attributes_of(params: str) -> MathAttributes | None:
    """What a MATH record's `params` say, or None when it is no JSON of MathAttributes."""
    try:
        return msgspec.json.decode(params, type=MathAttributes)
    except msgspec.MsgspecError:
        return None


def decode(op: Op) -> Math:
    """The function and the operands by role. Raises LogError when they do not fit together."""
    attributes = attributes_of(op.params)
    if attributes is None:
        raise op.error(f"params {op.params!r}", "the JSON of MathAttributes")
    function = FUNCTIONS.get(attributes.op)
    if function is None:
        raise op.error(f"op {attributes.op!r}", f"one of {', '.join(FUNCTIONS)}")
    inputs = [row for row in op.operands if row.role == Role.IN]
    outs = [row for row in op.operands if row.role == Role.OUT]
    if len(outs) != 1 or len(inputs) + 1 != len(op.operands):
        found = ", ".join(Role(row.role).name for row in op.operands) or "none"
        raise op.error(f"operands {found}", "IN operands and one OUT")
    _check_arguments(op, attributes, function, inputs)
    _check_shape(op, attributes, inputs, outs[0])
    working = _working_type(function, inputs, outs[0])
    if working is DType.I64 and not all(scalar.is_integer() and abs(scalar) < 2**63 for scalar in attributes.scalars):
        found = ", ".join(map(str, attributes.scalars))
        raise op.error(f"scalars {found} in {attributes.op} of integers", "whole numbers of 64 bits")
    return Math(function, attributes.axis, attributes.scalars, inputs, outs[0], working)


def _check_arguments(op: Op, attributes: MathAttributes, function: Function, inputs: list[OperandRow]) -> None:
    name, axis = attributes.op, attributes.axis
    if len(inputs) + len(attributes.scalars) != function.arity:
        found = f"{len(inputs)} IN operands and {len(attributes.scalars)} scalars"
        raise op.error(f"{name} of {found}", f"{function.arity} arguments")
    if function.reduces and axis not in (0, 1):
        raise op.error(f"{name} over {'no axis' if axis is None else f'axis {axis}'}", "axis 0 or 1")
    if not function.reduces and axis is not None:
        raise op.error(f"{name} over axis {axis}", "no axis, as it is no reduction")
    if function.float_only and not all(row.dtype.is_float for row in inputs):
        raise op.error(f"{name} of {_listed(inputs)}", "floats")


def _check_shape(op: Op, attributes: MathAttributes, inputs: list[OperandRow], out: OperandRow) -> None:
    if not inputs:
        return
    try:
        shape = np.broadcast_shapes(*(row.shape for row in inputs))
    except ValueError:
        raise op.error(f"{attributes.op} of {_listed(inputs)}", "shapes that broadcast") from None
    if attributes.axis is not None:
        shape = (1, shape[1]) if attributes.axis == 0 else (shape[0], 1)
    if shape != out.shape:
        came = f"{attributes.op} of {_listed(inputs)} into OUT {out}"
        raise op.error(came, f"an OUT of {shape[0]} x {shape[1]}")


def _working_type(function: Function, inputs: list[OperandRow], out: OperandRow) -> DType:
    """f32 where an input that says so is a float, else i64; where none says anything, OUT's type does."""
    telling = inputs[function.as_is :] or [out]
    return DType.F32 if function.float_only or any(row.dtype.is_float for row in telling) else DType.I64


def _listed(rows: list[OperandRow]) -> str:
    return ", ".join(map(str, rows))


def run(op: Op, store: MemoryStore) -> None:
    """Read all inputs, release those that say so, write the function's result."""
    math = decode(op)
    op.write(store, math.out, math.evaluate(op.read(store, math.inputs)))
