"""Phases of a vector program whose rows do not fit the registers: each goes over all pieces of the rows once.

What follows from a reduction of whole rows is there when a phase has gone over all pieces. So an op that needs a piece
beside such a total is of the next phase. It computes the piece again, from the inputs of the program: that takes no
TCM, which long rows would fill.
"""

from __future__ import annotations

from kb_engine.language.vector.recorded import RecordedOp, RecordedView, VectorInput
from kb_messages import MATH_FUNCTIONS


def phases_of(ops: list[RecordedOp], outputs: set[int]) -> list[set[int]]:
    """For each phase of *ops*, the ids of the ops whose results are stored: *outputs*, and totals for later phases.

    One phase where no op needs a piece beside a total.
    """
    cols = max((op.value.cols for op in ops), default=1)
    phase: dict[int, int] = {}
    totals: set[int] = set()
    stored: dict[int, set[int]] = {}
    for op in ops:
        arguments = [each for each in op.arguments if not isinstance(each, VectorInput) and each.stored is None]
        is_total = [id(each.root) in totals for each in arguments]
        made = max((phase[id(each.root)] for each in arguments), default=0)
        pieces = [each for each in op.arguments if _cols(each) == cols > 1]
        beside = op.value.cols == cols > 1 or bool(pieces)
        for each, total in zip(arguments, is_total, strict=True):
            if total and beside:
                made = max(made, phase[id(each.root)] + 1)
        phase[id(op)] = made
        if (any(is_total) and not beside) or (
            MATH_FUNCTIONS[op.function.math.op].reduces and op.function.math.axis == 1 and pieces
        ):
            totals.add(id(op))
        for each in arguments:
            if id(each.root) in totals and phase[id(each.root)] < made:
                stored.setdefault(phase[id(each.root)], set()).add(id(each.root))
    for op in ops:
        if id(op) in outputs:
            stored.setdefault(phase[id(op)], set()).add(id(op))
    return [stored[number] for number in sorted(stored)]


def _cols(value: VectorInput | RecordedOp) -> int:
    return value.value.cols if not isinstance(value, RecordedView) else value.root.value.cols
