"""The plan of a vector program: one FETCH, a MATH for each op, one STORE, on the whole values or on strips of them."""

from __future__ import annotations

from msgspec.structs import replace

from kb_messages import (
    MATH_FUNCTIONS,
    Axis,
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
)
from kb_plans.checks import check
from kb_plans.templates import fixed, in_buffer, in_memory, slot, stage
from kb_plans.vector_checks import check_program
from kb_plans.vector_registers import last_uses, lay_out_values

_Sides = tuple[Axis, Axis]


def generate_vector_plan(command: VectorCommand, pe: str, register_nbytes: int) -> PipelinePlan:
    """Plan the program of *command* for the PE *pe*, whose register file has *register_nbytes*.

    There is one tile if all values fit. Otherwise the tiles are strips of rows, as many as it takes for two to fit at
    once or, where that is never so, one. Values of one row are then the same for each strip. A program with an op along
    rows cannot be cut into strips of rows; its tiles are strips of columns. Registers are reused as soon as no later op
    reads their value.

    The function is pure: equal arguments give equal plans. Raises PlanError when the program means nothing, when no
    strip fits, and for a value of a wrong type.
    """
    check(command, VectorCommand, pe)
    program = command.program
    check_program(program)
    _check_matrices(command)
    sides, grid = _cut(program, register_nbytes)
    layout = lay_out_values(program, _slots(program, sides))
    return PipelinePlan(
        kind="vector",
        grid=grid,
        stages=tuple(_stages(command, pe, sides, layout.offsets)),
        buffers=BufferNeeds(register_nbytes=layout.nbytes),
    )


def _stages(command: VectorCommand, pe: str, sides: list[_Sides], offsets: tuple[int, ...]) -> list[StageTemplate]:
    program = command.program
    values, last = program.values, last_uses(program)

    def held(value: int, role: Role, release: bool = False) -> OperandTemplate:
        return in_buffer(role, Place.REGISTERS, offsets[value], *sides[value], values[value].dtype, release=release)

    stages: list[StageTemplate] = []
    if command.inputs:
        moves: list[OperandTemplate] = []
        for value, matrix in enumerate(command.inputs):
            moves += [in_memory(Role.SRC, matrix, *sides[value]), held(value, Role.DST)]
        stages.append(_line(stage(StageType.FETCH, pe, moves), program.ops[0].line))
    for number, op in enumerate(program.ops):
        used = [
            held(value, Role.IN, last[value] == number and value not in op.arguments[at + 1 :])
            for at, value in enumerate(op.arguments)
        ]
        result = held(len(program.inputs) + number, Role.OUT)
        stages.append(_line(stage(StageType.MATH, pe, [*used, result], math=op.math), op.line))
    stored: list[OperandTemplate] = []
    for value, matrix in zip(program.outputs, command.outputs, strict=True):
        stored += [held(value, Role.SRC, release=True), in_memory(Role.DST, matrix, *sides[value])]
    stages.append(_line(stage(StageType.STORE, pe, stored), program.ops[-1].line))
    return stages


def _line(template: StageTemplate, line: str) -> StageTemplate:
    return replace(template, line=line) if line else template


def _cut(program: VectorProgram, register_nbytes: int) -> tuple[list[_Sides], tuple[int, int, int]]:
    """The sides of each value, and the grid."""
    whole = [(fixed(each.rows), fixed(each.cols)) for each in program.values]
    if _nbytes(program, whole) <= register_nbytes:
        return whole, (1, 1, 1)
    for dimension in (0, 1):
        size = _size(program, dimension)
        if size is None:
            continue
        for tiles_at_once in (2, 1):
            piece = _largest(program, dimension, size, register_nbytes // tiles_at_once)
            if piece:
                count = -(-size // piece)
                return _strips(program, dimension, size, piece), (count, 1, 1) if dimension == 0 else (1, count, 1)
    raise _too_large(program, _nbytes(program, whole), register_nbytes)


def _size(program: VectorProgram, dimension: int) -> int | None:
    """The length that strips cut along *dimension*; None if the program cannot be cut there."""
    lengths = {_length(each, dimension) for each in program.values} - {1}
    if len(lengths) != 1:
        return None
    if any(op.math.axis == dimension or _counts(op, dimension) for op in program.ops):
        return None
    return lengths.pop()


def _length(value: VectorValue, dimension: int) -> int:
    return value.cols if dimension else value.rows


def _counts(op: VectorOp, dimension: int) -> bool:
    """Whether *op* makes numbers that grow along *dimension*: a strip does not know its place."""
    return op.math.op == "index" and float(op.math.scalars[1 + dimension]) != 0


def _largest(program: VectorProgram, dimension: int, size: int, room: int) -> int:
    """The largest piece of *size* whose values fit *room* bytes; 0 if none does."""
    low, high = 0, size
    while low < high:
        piece = (low + high + 1) // 2
        fits = _nbytes(program, _strips(program, dimension, size, piece)) <= room
        low, high = (piece, high) if fits else (low, piece - 1)
    return low


def _strips(program: VectorProgram, dimension: int, size: int, piece: int) -> list[_Sides]:
    side = Axis(dimension=dimension, total=size, tile=piece)
    return [
        (
            side if dimension == 0 and each.rows == size else fixed(each.rows),
            side if dimension == 1 and each.cols == size else fixed(each.cols),
        )
        for each in program.values
    ]


def _slots(program: VectorProgram, sides: list[_Sides]) -> list[int]:
    return [slot(*side, value.dtype) for side, value in zip(sides, program.values, strict=True)]


def _nbytes(program: VectorProgram, sides: list[_Sides]) -> int:
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
