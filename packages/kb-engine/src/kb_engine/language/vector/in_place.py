"""Results that lie where an input lay: what a vector program does in a full TCM."""

from __future__ import annotations

from sys import getrefcount
from typing import Final

from kb_engine.language.vector.recorded import RecordedOp, VectorInput
from kb_messages import MATH_FUNCTIONS, VectorOp, VectorProgram

_HELD_ONCE: Final = 2
"""What CPython counts for an object with one reference, because the question itself has another."""


def inputs_to_replace(program: VectorProgram, inputs: list[VectorInput], left: list[RecordedOp]) -> list[VectorInput]:
    """Those of *inputs* that neither the ops *left* nor the kernel need after *program*, whose results may lie there.

    A result takes the place of an input of the same rows, columns and dtype. The tiles of *program* are whole values or
    strips of them, and such a result is cut into the same strips as the input. So no tile stores to bytes that another
    tile has yet to fetch. A row is the same for all strips where other values have several rows, and so is a column
    beside rows: their places are not taken. Nor are any where an op moves elements, or reads a value in another shape.
    """
    if not all(map(_is_cut_alike, program.ops)):
        return []
    values, kept = program.values, {id(each.stored) for op in left for each in op.arguments}
    has_rows, has_cols = any(each.rows > 1 for each in values), any(each.cols > 1 for each in values)
    return [
        each
        for each in inputs
        if id(each) not in kept
        and (each.value.rows > 1 or not has_rows)
        and (each.value.cols > 1 or not has_cols)
        and _is_all_of_its_place(each)
        and getrefcount(each.holder) == _HELD_ONCE
    ]


def _is_cut_alike(op: VectorOp) -> bool:
    """Whether *op* takes from each strip of its arguments to the same strip of its result, or to a total."""
    function = MATH_FUNCTIONS[op.math.op]
    moves = function.spreads or function.picks or function.lays_out
    return not (moves or op.shapes or op.math.group is not None)


def _is_all_of_its_place(each: VectorInput) -> bool:
    return each.holder is not None and not each.holder.freed and each.holder.matrix == each.matrix
