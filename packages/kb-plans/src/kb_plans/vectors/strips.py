"""The cut of a vector program into strips: some values have a part in each strip, others are the same for each strip.

A strip of rows has a part of the elements of a value, which lie one after the other. So an op may read the value in
another shape: a part of a column is a part of a row with the same elements.
"""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

from kb_messages import MATH_FUNCTIONS, Axis, MathFunction, VectorOp, VectorProgram, VectorValue
from kb_plans.templates import fixed

Sides = tuple[Axis, Axis]
"""Rows and columns of a value, cut or whole."""


class Strips(NamedTuple):
    """A cut of a program along `dimension` of the grid. The values `parts` are cut into `size` parts at most.

    A strip has `piece` parts of each of these values.
    """

    dimension: int
    size: int
    parts: frozenset[int]

    def sides(self, number: int, value: VectorValue, piece: int) -> Sides:
        """The sides of value *number* when an op reads it as *value*, in strips of *piece*."""
        if number not in self.parts:
            return fixed(value.rows), fixed(value.cols)
        if self.dimension == 1:
            return fixed(value.rows), _part(value.cols, self, piece)
        if value.rows > 1:
            return _part(value.rows, self, piece), fixed(value.cols)
        return fixed(1), _part(value.cols, self, piece)


def _part(total: int, strips: Strips, piece: int) -> Axis:
    return Axis(dimension=strips.dimension, total=total, tile=piece * total // strips.size)


def strips_of_columns(program: VectorProgram) -> Strips | None:
    """The cut into strips of columns.

    None if an op goes along rows, counts columns, or reads a value that has columns in another shape.
    """
    lengths = {each.cols for each in program.values} - {1}
    if len(lengths) != 1:
        return None
    size = lengths.pop()
    values = program.values
    for op in program.ops:
        if op.math.axis == 1 or _counts(op, 1) or MATH_FUNCTIONS[op.math.op].lays_out:
            return None
        if any(size in (one.cols, values[at].cols) and one != values[at] for at, one in _read(op, values)):
            return None
    parts = frozenset(number for number, each in enumerate(values) if each.cols == size)
    return Strips(1, size, parts)


def strips_of_rows(program: VectorProgram) -> Strips | None:
    """The cut into strips of rows. With groups of rows, the parts are as small as groups allow.

    None if an op goes over all rows, counts them, or needs rows that its strip does not have.
    """
    size = _together(program)
    if size == 1:
        return None
    values, parts = program.values, set[int]()
    read_as: dict[int, list[VectorValue]] = {}
    for op in program.ops:
        for at, one in _read(op, values):
            read_as.setdefault(at, []).append(one)
    for number, each in enumerate(program.inputs):
        if any(one.rows > 1 and one.rows % size == 0 for one in (each, *read_as.get(number, ()))):
            parts.add(number)
    for number, op in enumerate(program.ops, start=len(program.inputs)):
        function = MATH_FUNCTIONS[op.math.op]
        if function.generates:
            is_part = op.result.rows > 1 and op.result.rows % size == 0
            if _counts(op, 0):
                return None
        else:
            found = _makes_part(op, function, _read(op, values), parts, size)
            if found is None:
                return None
            is_part = found
        if is_part:
            parts.add(number)
    strips = Strips(0, size, frozenset(parts))
    whole = [each for at, each in enumerate(values) if at in parts]
    whole += [one for op in program.ops for at, one in _read(op, values) if at in parts]
    return strips if parts and all(_splits(each, size) for each in whole) else None


def _read(op: VectorOp, values: tuple[VectorValue, ...]) -> list[tuple[int, VectorValue]]:
    """The arguments of *op*: their numbers, and the values in the shapes in which the op reads them."""
    return list(zip(op.arguments, op.read(values), strict=True))


def _together(program: VectorProgram) -> int:
    """The parts into which rows can be cut: the rows of a group, and the rows between them, stay together."""
    values = program.values
    size = max((each.rows for each in values), default=1)
    for op in program.ops:
        rows = [each.rows for each in (op.result, *op.read(values)) if each.rows > 1]
        if op.math.group is not None:
            n, step = op.math.group
            count = (op.result.rows // (n * step)) if MATH_FUNCTIONS[op.math.op].spreads else max(rows) // (n * step)
            rows = [count, *(each // step for each in rows)]
        for each in rows:
            size = gcd(size, each)
    return size


def _makes_part(
    op: VectorOp, function: MathFunction, read: list[tuple[int, VectorValue]], parts: set[int], size: int
) -> bool | None:
    """Whether strips have a part of the result of *op*; None if the strips' parts of its arguments are not enough."""
    cut = [one for at, one in read if at in parts]
    if not cut:
        return False
    # Elements may come from any place, also from another strip.
    if function.lays_out:
        return None
    if function.picks:
        return True if op.math.axis == 1 and len(cut) == len(read) and all(each.rows > 1 for each in cut) else None
    result = op.result
    by_rows = cut[0].rows > 1
    if function.has_axis or function.spreads:
        along_rows = function.has_axis and op.math.axis == 1
        if along_rows or op.math.group is not None:
            return True if by_rows else None
        # Over rows, a strip has only a part of the axis. A row that is cut along columns has the whole axis.
        return None if by_rows else True
    for at, one in read:
        if at in parts and (one.rows, one.cols)[not by_rows] != (result.rows, result.cols)[not by_rows]:
            return None
        if at not in parts and (one.rows, one.cols)[not by_rows] != 1:
            return None
    return True if by_rows or result.rows == 1 else None


def _splits(value: VectorValue, size: int) -> bool:
    return (value.rows if value.rows > 1 else value.cols) % size == 0


def _counts(op: VectorOp, dimension: int) -> bool:
    """Whether *op* makes numbers that grow along *dimension*.

    A strip does not know its place, so it cannot make them.
    """
    return op.math.op == "index" and float(op.math.scalars[1 + dimension]) != 0
