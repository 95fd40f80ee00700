"""The vector program that recorded ops make together."""

from __future__ import annotations

from typing import Final

from kb_engine.language.recorded import RecordedOp, RecordedView, VectorInput
from kb_messages import VectorOp, VectorProgram

_MOST_PROGRAMS: Final = 4096
_PROGRAMS: dict[tuple[VectorProgram, str], VectorProgram] = {}
"""Every program once: equal ones of a loop, and of all PEs, share their plan. The text tells -0.0 from 0.0."""


def program_of(ops: list[RecordedOp], outputs: set[int]) -> tuple[VectorProgram, list[VectorInput], list[RecordedOp]]:
    """The program of *ops*, its inputs, and those of the ops whose results leave it, which are in *outputs*."""
    inputs: dict[int, VectorInput] = {}
    for op in ops:
        for each in op.arguments:
            if each.stored is not None:
                inputs.setdefault(id(each.stored), each.stored)
    number = {key: at for at, key in enumerate(inputs)}
    number.update((id(op), len(inputs) + at) for at, op in enumerate(ops))
    leaving = [op for op in ops if id(op) in outputs]
    program = VectorProgram(
        inputs=tuple(each.value for each in inputs.values()),
        ops=tuple(
            VectorOp(
                math=op.function.math,
                arguments=tuple(number[id(each.stored or each.root)] for each in op.arguments),
                result=op.value,
                line=op.line,
                shapes=_shapes(op),
            )
            for op in ops
        ),
        outputs=tuple(number[id(op)] for op in leaving),
    )
    if len(_PROGRAMS) >= _MOST_PROGRAMS:
        _PROGRAMS.clear()
    numbers = repr([op.function.math.scalars for op in ops if op.function.math.scalars])
    return _PROGRAMS.setdefault((program, numbers), program), list(inputs.values()), leaving


def _shapes(op: RecordedOp) -> tuple[tuple[int, int] | None, ...]:
    """The shapes of those arguments of *op* that are read as values of another shape; none if no argument is."""
    found = tuple(
        (each.value.rows, each.value.cols) if isinstance(each, RecordedView) and each.stored is None else None
        for each in op.arguments
    )
    return found if any(found) else ()
