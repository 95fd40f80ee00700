"""MATH ops: elementwise functions and reductions of rows or columns, in f32 for floats and i64 or u64 for integers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.arrays.dtypes import Array, cast, numpy_dtype
from kb_dataexec.arrays.functions import FUNCTIONS, Function
from kb_dataexec.arrays.row_groups import RowGroups
from kb_dataexec.backends import current
from kb_dataexec.files import UnreadableJsonError, json_decoder
from kb_dataexec.log.rows import Op, OperandRow
from kb_dataexec.memory.store import MemoryStore
from kb_dataexec.ops.params import flaw
from kb_messages import DType, MathAttributes, Role, VectorValue, has_own_form, misfit


class DecodedMath(NamedTuple):
    """The function and operands of a MATH op. They fit together. `working` is the type of the computation: f32, i64
    or u64."""

    attributes: MathAttributes
    function: Function
    inputs: list[OperandRow]
    out: OperandRow
    working: DType

    def evaluate(self, values: Sequence[Array]) -> Array:
        """Returns the result for the *values* of the inputs: a new array of the shape and type of OUT."""
        with np.errstate(all="ignore"):
            result = self.along(self.arguments(values))
            if not values:
                result = np.array(np.broadcast_to(result, self.out.shape))
            return cast(result, self.out.dtype)

    def along(self, arguments: Sequence[Array]) -> Array:
        """Returns the function of *arguments*, matrices, before the cast to the type of OUT."""
        if self.function.is_layout:
            target = numpy_dtype(self.out.dtype)
            return self.function.apply(*arguments, attributes=self.attributes, shape=self.out.shape, dtype=target)
        if self.function.generates:
            arguments = [*arguments, *np.ogrid[: self.out.rows, : self.out.shape[1]]]
        axis, groups = self.attributes.axis, self.groups
        if groups is None:
            return self._along(arguments, axis)
        if self.function.spreads:
            return groups.spread(arguments[0])
        *outer, rows, cols = arguments[0].shape
        found = self._along([groups.together(arguments[0])], axis)
        return groups.apart(found, (*outer, rows // groups.n if self.function.reduces else rows, cols))

    @property
    def groups(self) -> RowGroups | None:
        """The groups of rows; None if all rows are one group."""
        return None if self.attributes.group is None else RowGroups(*self.attributes.group)

    def _along(self, arguments: Sequence[Array], axis: int | None) -> Array:
        op = self.attributes.op
        if axis is None or not self.attributes.reverse:
            return current().apply(op, arguments, axis)
        return np.flip(current().apply(op, [np.flip(each, axis) for each in arguments], axis), axis)

    def arguments(self, values: Sequence[Array]) -> list[Array]:
        """Returns the arguments in order: *values* and scalars (1 x 1), cast to `working` unless taken as they are."""
        return [
            self._scalar(argument) if isinstance(argument, float) else self._value(at, argument)
            for at, argument in enumerate(self.attributes.arguments(values))
        ]

    def _scalar(self, scalar: float) -> Array:
        return cast(np.full((1, 1), scalar, np.float64), self.working)

    def _value(self, at: int, value: Array) -> Array:
        return np.ascontiguousarray(value if at < self.function.as_is else cast(value, self.working))


_DECODE: Final = json_decoder(MathAttributes)
_FIELDS: Final = ", ".join(MathAttributes.__struct_fields__)


@lru_cache(maxsize=256)
def attributes_of(params: str) -> MathAttributes | None:
    """Returns the attributes in the `params` of a MATH op; None if they are no JSON of MathAttributes."""
    try:
        return _DECODE(params)
    except UnreadableJsonError:
        return None


def decode(op: Op) -> DecodedMath:
    """Returns the function and the operands of *op*. Raises LogError if they do not fit together."""
    attributes = attributes_of(op.params)
    if attributes is None:
        raise op.error(
            f"params {op.params!r} ({flaw(_DECODE, op.params)})" if op.params else "no params",
            f'JSON such as {{"op": "add"}} with no fields but {_FIELDS}',
        )
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
    working = _working_type(attributes, function, inputs, outs[0])
    scalars = [float(scalar) for scalar in attributes.scalars]
    if not working.is_float and not all(each.is_integer() and -(2**63) <= each < 2**63 for each in scalars):
        found = ", ".join(map(str, attributes.scalars))
        raise op.error(f"scalars {found} in {attributes.op} of integers", "whole numbers of 64 bits")
    return DecodedMath(attributes, function, inputs, outs[0], working)


def _check_arguments(op: Op, attributes: MathAttributes, function: Function, inputs: list[OperandRow]) -> None:
    name, axis = attributes.op, attributes.axis
    if len(inputs) + len(attributes.scalars) != function.arity:
        found = f"{len(inputs)} IN operands and {len(attributes.scalars)} scalars"
        raise op.error(f"{name} of {found}", f"{function.arity} argument{'s' if function.arity != 1 else ''}")
    try:
        attributes.arguments(inputs)
    except ValueError as error:
        raise op.error(f"{name} with {error}", "a place among the arguments for each scalar, ascending") from None
    if function.has_axis and axis not in (0, 1):
        raise op.error(f"{name} over {'no axis' if axis is None else f'axis {axis}'}", "axis 0 or 1")
    if not function.has_axis and axis is not None:
        raise op.error(f"{name} over axis {axis}", "no axis, as it is no reduction and no scan")
    if attributes.reverse and not function.scans:
        raise op.error(f"{name} in reverse", "a scan")
    if function.spreads is (attributes.group is None) and axis != 0:
        raise op.error(f"{name} with group {attributes.group}", "rows of a group" if function.spreads else "none")
    if function.generates and inputs:
        raise op.error(f"{name} of {_listed(inputs)}", "scalars alone")
    if function.float_only and not all(row.dtype.is_float for row in inputs):
        raise op.error(f"{name} of {_listed(inputs)}", "floats")
    if function.int_only and any(row.dtype.is_float for row in inputs):
        raise op.error(f"{name} of {_listed(inputs)}", "integers")


def _check_shape(op: Op, attributes: MathAttributes, inputs: list[OperandRow], out: OperandRow) -> None:
    if not inputs:
        return
    if has_own_form(attributes.op):
        values = [VectorValue(*row.shape, row.dtype) for row in (*inputs, out)]
        needs = misfit(attributes, values[:-1], values[-1])
        if needs:
            raise op.error(f"{attributes.op} of {_listed(inputs)} into OUT {out}", needs)
        return
    try:
        shape = np.broadcast_shapes(*(row.shape for row in inputs))
    except ValueError:
        raise op.error(f"{attributes.op} of {_listed(inputs)}", "shapes that broadcast") from None
    shape = _result_shape(op, attributes, *shape)
    if shape != out.shape:
        came = f"{attributes.op} of {_listed(inputs)} into OUT {out}"
        raise op.error(came, f"an OUT of {shape[0]} x {shape[1]}")


def _result_shape(op: Op, attributes: MathAttributes, rows: int, cols: int) -> tuple[int, int]:
    """The shape of the result of operands that broadcast to *rows* x *cols*."""
    function = FUNCTIONS[attributes.op]
    n, step = attributes.group or (rows, 1)
    together = step if function.spreads else n * step if attributes.axis == 0 else 1
    if n < 1 or step < 1 or rows % together:
        raise op.error(f"{attributes.op} of {rows} rows in groups of {n}, {step} apart", f"a multiple of {together}")
    if function.spreads:
        return rows * n, cols
    if not function.reduces:
        return rows, cols
    return (rows // n, cols) if attributes.axis == 0 else (rows, 1)


def _working_type(attributes: MathAttributes, function: Function, inputs: list[OperandRow], out: OperandRow) -> DType:
    """f32 if a deciding argument is a float, else u64 if one is u64, else i64. Without any, the type of OUT decides.

    The arguments that are taken as they are, and scalars, do not decide.
    """
    arguments = attributes.arguments(inputs)
    telling = [row.dtype for row in arguments[function.as_is :] if isinstance(row, OperandRow)]
    if not function.int_only and (function.float_only or any(each.is_float for each in telling or [out.dtype])):
        return DType.F32
    return DType.U64 if DType.U64 in telling else DType.I64


def _listed(rows: list[OperandRow]) -> str:
    return ", ".join(map(str, rows))


def run(op: Op, store: MemoryStore) -> None:
    """Reads all inputs, releases inputs with `release`, and writes the result of the function."""
    math = decode(op)
    op.write(store, math.out, math.evaluate(op.read(store, math.inputs)))
