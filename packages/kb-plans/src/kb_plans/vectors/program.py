"""The plan of a vector program: one FETCH, a MATH for each op, one STORE, on the whole values or on strips of them.

The program is checked first: the numbers of its values, and the types and shapes of each op.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from kb_messages import (
    MATH_FUNCTIONS,
    BufferNeeds,
    OperandTemplate,
    PipelinePlan,
    Place,
    PlanError,
    Role,
    StageTemplate,
    StageType,
    VectorCommand,
    VectorOp,
    VectorProgram,
    VectorValue,
    has_own_form,
    misfit,
)
from kb_plans.checks import check
from kb_plans.math import check_arguments, shape_of
from kb_plans.templates import fixed, in_buffer, in_memory, slot, stage
from kb_plans.vectors.carry import in_pieces
from kb_plans.vectors.pieces import PieceStages
from kb_plans.vectors.registers import RegisterLayout, last_uses, lay_out_values
from kb_plans.vectors.strips import Sides, Strips, strips_of_columns, strips_of_rows

_Shaped = Callable[[int, VectorValue], Sides]
"""A function that gives the sides of a value, from its number and from the value as which it is read."""
_Cut = tuple[_Shaped, tuple[int, int, int], RegisterLayout]
"""The sides of the values in a tile, the grid of tiles, and the places of the values in registers."""
_MOST_CUTS: Final = 512


def generate_vector_plan(command: VectorCommand, pe: str, register_nbytes: int) -> PipelinePlan:
    """Plans the program of *command* for the PE *pe*, whose register file has *register_nbytes*.

    There is one tile if all values fit. Otherwise the tiles are strips of rows, as many as it takes for two strips to
    fit at once or, where two never fit, one. Values of one row are then the same for each strip. A program with an op
    along rows cannot be cut into strips of rows, so its tiles are strips of columns. Registers are reused as soon as no
    later op reads their value. A value that is read in another shape takes no stage for that.

    Where neither kind of strip fits, the tiles are pieces of rows, in the order of the columns: reductions and scans
    along rows carry their intermediate result in the accumulator. No op may then combine a piece with a value that
    depends on all pieces.

    The function is pure: equal arguments give equal plans. Raises PlanError when the program has no meaning, when no
    strip fits, and for a value of a wrong type.
    """
    check(command, VectorCommand, pe)
    program = command.program
    cut = _checked_cut(program, register_nbytes)
    _check_matrices(command)
    if cut is None:
        return _plan_in_pieces(command, pe, register_nbytes)
    sides, grid, layout = cut
    return PipelinePlan(
        kind="vector",
        grid=grid,
        stages=tuple(_stages(command, pe, sides, layout.offsets)),
        buffers=BufferNeeds(register_nbytes=layout.nbytes),
    )


@lru_cache(maxsize=_MOST_CUTS)
def _checked_cut(program: VectorProgram, register_nbytes: int) -> _Cut | None:
    """The cut of *program*, which is the same on all PEs; None if whole rows and whole columns do not fit.

    Raises PlanError when *program* has no meaning.
    """
    check_program(program)
    cut = _cut(program, register_nbytes)
    return cut and (*cut, lay_out_values(program, _slots(program, cut[0])))


def _stages(command: VectorCommand, pe: str, sides: _Shaped, offsets: tuple[int, ...]) -> list[StageTemplate]:
    program = command.program
    values, last = program.values, last_uses(program)

    def held(number: int, role: Role, value: VectorValue, release: bool = False) -> OperandTemplate:
        where = Place.REGISTERS, offsets[number], *sides(number, value), value.dtype
        return in_buffer(role, *where, release=release)

    stages: list[StageTemplate] = []
    if command.inputs:
        moves: list[OperandTemplate] = []
        for at, (value, matrix) in enumerate(zip(program.inputs, command.inputs, strict=True)):
            moves += [in_memory(Role.SRC, matrix, *sides(at, value)), held(at, Role.DST, value)]
        stages.append(_line(stage(StageType.FETCH, pe, moves), program.ops[0].line))
    for number, op in enumerate(program.ops):
        used = [
            held(value, Role.IN, read, last[value] == number and value not in op.arguments[at + 1 :])
            for at, (value, read) in enumerate(zip(op.arguments, op.read(values), strict=True))
        ]
        result = held(len(program.inputs) + number, Role.OUT, op.result)
        stages.append(_line(stage(StageType.MATH, pe, [*used, result], math=op.math), op.line))
    stored: list[OperandTemplate] = []
    for at, matrix in zip(program.outputs, command.outputs, strict=True):
        stored += [held(at, Role.SRC, values[at], release=True), in_memory(Role.DST, matrix, *sides(at, values[at]))]
    stages.append(_line(stage(StageType.STORE, pe, stored), program.ops[-1].line))
    return stages


def _line(template: StageTemplate, line: str) -> StageTemplate:
    return replace(template, line=line) if line else template


def _plan_in_pieces(command: VectorCommand, pe: str, register_nbytes: int) -> PipelinePlan:
    """The plan in pieces of rows. Raises PlanError when the program has no such plan."""
    carried = in_pieces(command.program, register_nbytes)
    if carried is None:
        raise _too_large(command.program, _nbytes(command.program, _whole), register_nbytes)
    return PipelinePlan(
        kind="vector",
        grid=carried.grid,
        stages=PieceStages(command, pe, carried).stages(),
        buffers=BufferNeeds(register_nbytes=carried.register_nbytes, accumulator_nbytes=carried.accumulator_nbytes),
    )


def _cut(program: VectorProgram, register_nbytes: int) -> tuple[_Shaped, tuple[int, int, int]] | None:
    """The sides of each value in the shape in which it is read, and the grid.

    None if whole rows and whole columns do not fit.
    """
    if _nbytes(program, _whole) <= register_nbytes:
        return _whole, (1, 1, 1)
    for strips in (strips_of_rows(program), strips_of_columns(program)):
        if strips is None:
            continue
        for tiles_at_once in (2, 1):
            piece = _largest(program, strips, register_nbytes // tiles_at_once)
            if piece:
                count = -(-strips.size // piece)
                return _in_strips(strips, piece), (1, count, 1) if strips.dimension else (count, 1, 1)
    return None


def _whole(_: int, value: VectorValue) -> Sides:
    return fixed(value.rows), fixed(value.cols)


def _in_strips(strips: Strips, piece: int) -> _Shaped:
    return lambda number, value: strips.sides(number, value, piece)


def _largest(program: VectorProgram, strips: Strips, room: int) -> int:
    """The largest piece whose values fit *room* bytes; 0 if no piece fits."""
    low, high = 0, strips.size
    while low < high:
        piece = (low + high + 1) // 2
        fits = _nbytes(program, _in_strips(strips, piece)) <= room
        low, high = (piece, high) if fits else (low, piece - 1)
    return low


def _slots(program: VectorProgram, sides: _Shaped) -> list[int]:
    return [slot(*sides(number, value), value.dtype) for number, value in enumerate(program.values)]


def _nbytes(program: VectorProgram, sides: _Shaped) -> int:
    return lay_out_values(program, _slots(program, sides)).nbytes


def _too_large(program: VectorProgram, nbytes: int, register_nbytes: int) -> PlanError:
    along = {op.math.axis for op in program.ops if MATH_FUNCTIONS[op.math.op].has_axis}
    fix = "use smaller blocks"
    if along:
        fix += ", or split the axis that is reduced, and combine the parts"
    return PlanError(
        "vector program",
        f"values of {nbytes} bytes at a time, which no strip of rows or columns makes fit",
        f"at most the register file's {register_nbytes}",
        fix,
    )


def _check_matrices(command: VectorCommand) -> None:
    program = command.program
    values = program.values
    for name, matrices, expected in (
        ("input", command.inputs, program.inputs),
        ("output", command.outputs, [values[value] for value in program.outputs]),
    ):
        if len(matrices) != len(expected):
            raise PlanError("vector", f"{len(matrices)} {name}s", f"{len(expected)}, as the program has")
        for number, (matrix, value) in enumerate(zip(matrices, expected, strict=True)):
            if (matrix.rows, matrix.cols, matrix.dtype) != (value.rows, value.cols, value.dtype):
                got = f"{matrix.rows} x {matrix.cols} of {matrix.dtype}"
                raise PlanError(f"vector {name}s[{number}]", got, f"{value.rows} x {value.cols} of {value.dtype}")


def check_program(program: VectorProgram) -> None:
    """Raises PlanError unless all ops of *program* have earlier values as arguments, and results that fit them."""
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
            got = f"{whole.rows} x {whole.cols} read as {read.rows} x {read.cols}"
            raise PlanError(where, got, "the same number of elements")


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
