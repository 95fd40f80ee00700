"""Whether a vector program means anything: its numbers of values, and the types and shapes of each op."""

from __future__ import annotations

from kb_messages import MATH_FUNCTIONS, PlanError, VectorOp, VectorProgram, VectorValue
from kb_plans.math import check_arguments, shape_of


def check_program(program: VectorProgram) -> None:
    """Raises PlanError unless each op of *program* has earlier values as arguments, and a result that follows from
    them."""
    if not program.ops or not program.outputs:
        raise PlanError("vector program", "no op or no output", "one of each at least")
    values = program.values
    for number, op in enumerate(program.ops):
        made = len(program.inputs) + number
        if not all(0 <= value < made for value in op.arguments):
            raise PlanError(f"vector ops[{number}]", f"arguments {op.arguments}", f"values from 0 to {made - 1}")
        _check_op(f"vector ops[{number}] {op.math.op}", op, [values[value] for value in op.arguments])
    first, end = len(program.inputs), len(values)
    if len(set(program.outputs)) < len(program.outputs) or not all(first <= each < end for each in program.outputs):
        raise PlanError("vector outputs", str(program.outputs), f"results of ops, from {first} to {end - 1}, once each")


def _check_op(where: str, op: VectorOp, arguments: list[VectorValue]) -> None:
    check_arguments(where, op.math, [each.dtype for each in arguments])
    if MATH_FUNCTIONS[op.math.op].generates:
        return
    rows, cols = shape_of(where, [(each.rows, each.cols) for each in arguments])
    reduced = op.math.axis if MATH_FUNCTIONS[op.math.op].reduces else None
    expected = 1 if reduced == 0 else rows, 1 if reduced == 1 else cols
    if (op.result.rows, op.result.cols) != expected:
        got = f"a result of {op.result.rows} x {op.result.cols}"
        raise PlanError(where, got, f"{expected[0]} x {expected[1]}")
