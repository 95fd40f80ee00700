"""Whether a vector program means anything: its numbers of values, and the types and shapes of each op."""

from __future__ import annotations

from kb_messages import MATH_FUNCTIONS, PlanError, VectorOp, VectorProgram, VectorValue, has_own_form, misfit
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
        where = f"vector ops[{number}] {op.math.op}"
        _check_shapes(where, op, values)
        _check_op(where, op, op.read(values))
    first, end = len(program.inputs), len(values)
    if len(set(program.outputs)) < len(program.outputs) or not all(first <= each < end for each in program.outputs):
        raise PlanError("vector outputs", str(program.outputs), f"results of ops, from {first} to {end - 1}, once each")


def _check_shapes(where: str, op: VectorOp, values: tuple[VectorValue, ...]) -> None:
    if op.shapes and len(op.shapes) != len(op.arguments):
        raise PlanError(where, f"{len(op.shapes)} shapes", f"one for each of {len(op.arguments)} arguments, or none")
    for value, read in zip(op.arguments, op.read(values), strict=True):
        whole = values[value]
        if min(read.rows, read.cols) < 1 or read.nbytes != whole.nbytes:
            raise PlanError(where, f"{whole.rows} x {whole.cols} read as {read.rows} x {read.cols}", "as many elements")


def _check_op(where: str, op: VectorOp, arguments: list[VectorValue]) -> None:
    check_arguments(where, op.math, [each.dtype for each in arguments])
    if MATH_FUNCTIONS[op.math.op].generates:
        return
    if has_own_form(op.math.op):
        needs = misfit(op.math, arguments, op.result)
        if needs:
            raise PlanError(where, f"a result of {op.result.rows} x {op.result.cols}", needs)
        return
    rows, cols = shape_of(where, [(each.rows, each.cols) for each in arguments])
    expected = _result_shape(where, op, rows, cols)
    if (op.result.rows, op.result.cols) != expected:
        got = f"a result of {op.result.rows} x {op.result.cols}"
        raise PlanError(where, got, f"{expected[0]} x {expected[1]}")


def _result_shape(where: str, op: VectorOp, rows: int, cols: int) -> tuple[int, int]:
    """The shape of the result of *op*, whose arguments broadcast to *rows* x *cols*."""
    function, math = MATH_FUNCTIONS[op.math.op], op.math
    group, step = math.group or (rows, 1)
    if function.spreads:
        if rows % step:
            raise PlanError(where, f"{rows} rows", f"a multiple of {step}, the rows that are repeated together")
        return rows * group, cols
    if math.axis == 0 and rows % (group * step):
        raise PlanError(where, f"{rows} rows", f"a multiple of {group * step}, {group} rows {step} apart")
    if not function.reduces:
        return rows, cols
    return (rows // group, cols) if math.axis == 0 else (rows, 1)
