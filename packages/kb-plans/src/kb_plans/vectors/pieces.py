"""The stages of a vector program in pieces of rows: the work on each piece, and the values carried to the next."""

from __future__ import annotations

from msgspec.structs import replace

from kb_messages import (
    MATH_FUNCTIONS,
    Axis,
    DType,
    MathAttributes,
    OperandTemplate,
    Place,
    Role,
    Scalar,
    StageTemplate,
    StageType,
    VectorCommand,
    VectorOp,
    VectorValue,
    When,
)
from kb_plans.templates import fixed, in_buffer, in_memory, stage
from kb_plans.vectors.carry import COMBINED, REDUCED, Carried, PieceKind, is_carried, short_nbytes, sum_dtype
from kb_plans.vectors.registers import last_uses


class PieceStages:
    """The stages of *command* for the PE *pe*, cut by *carried*."""

    def __init__(self, command: VectorCommand, pe: str, carried: Carried) -> None:
        self._command, self._pe, self._cut = command, pe, carried
        self._program = command.program
        self._values, self._last = command.program.values, last_uses(command.program)
        self._line = ""
        self._stages: list[StageTemplate] = []

    def stages(self) -> tuple[StageTemplate, ...]:
        """FETCH of a piece, MATH of all ops, and STORE: of pieces with every tile, of totals with the last tile."""
        program, n_inputs = self._program, len(self._program.inputs)
        self._line = program.ops[0].line
        moves: list[OperandTemplate] = []
        for at, (value, matrix) in enumerate(zip(program.inputs, self._command.inputs, strict=True)):
            moves += [in_memory(Role.SRC, matrix, *self._cut.sides(at, value)), self._value(at, Role.DST, value)]
        if moves:
            self._add(stage(StageType.FETCH, self._pe, moves))
        for at, op in enumerate(program.ops):
            self._line, number = op.line, n_inputs + at
            kind = self._cut.kinds[number]
            if is_carried(op, self._cut.kinds):
                self._carried_op(number, op)
            elif kind is PieceKind.COUNT:
                self._counted(number, op)
            else:
                when = When.LAST_K if kind is PieceKind.TOTAL else When.EVERY_TILE
                self._math(op.math, [*self._read(at, op), self._value(number, Role.OUT, op.result)], when)
        self._store()
        return tuple(self._stages)

    def _counted(self, number: int, op: VectorOp) -> None:
        """Numbers of columns: made for the first piece, and then increased by the length of a piece."""
        made = self._value(number, Role.OUT, op.result)
        self._math(op.math, [made], When.FIRST_K)
        step: Scalar = float(op.math.scalars[2]) * self._cut.piece
        before = self._value(number, Role.IN, op.result)
        self._math(MathAttributes(op="add", scalars=(step,)), [before, made], When.LATER_K)

    def _carried_op(self, number: int, op: VectorOp) -> None:
        function = MATH_FUNCTIONS[op.math.op]
        if function.finds:
            self._search(number, op)
        elif function.scans:
            self._scan(number, op)
        else:
            self._reduce(number, op)

    def _reduce(self, number: int, op: VectorOp) -> None:
        """The reduction of a piece. The first piece begins the total, and each later piece is combined with it."""
        dtype = sum_dtype(op)
        alike = dtype is op.result.dtype
        at = self._cut.accumulators[number] if alike else self._cut.carried[number]
        part = _Short(Place.REGISTERS, self._cut.scratch[number], self._rows(op), dtype)
        total = _Short(Place.ACCUMULATOR, at, self._rows(op), dtype)
        self._math(op.math, [*self._read(self._number(number), op), part.operand(Role.OUT)])
        self._put(op, part, total)
        if not alike:
            # A narrow result is summed in f32, and rounded once when the last piece is in.
            copied = [total.operand(Role.IN, release=True), self._value(number, Role.OUT, op.result)]
            self._math(MathAttributes(op="copy"), copied, When.LAST_K)

    def _put(self, op: VectorOp, part: _Short, total: _Short) -> None:
        """Combines the result of a piece with *total*."""
        first = [part.operand(Role.IN, release=True), total.operand(Role.OUT)]
        self._math(MathAttributes(op="copy"), first, When.FIRST_K)
        later = [total.operand(Role.IN), part.operand(Role.IN, release=True), total.operand(Role.OUT)]
        self._math(MathAttributes(op=COMBINED[op.math.op]), later, When.LATER_K)

    def _scan(self, number: int, op: VectorOp) -> None:
        """The scan of a piece, combined with the total of the pieces before. Then the total takes in this piece."""
        dtype = sum_dtype(op)
        part = _Short(Place.REGISTERS, self._cut.scratch[number], self._rows(op), dtype)
        total = _Short(Place.ACCUMULATOR, self._cut.carried[number], self._rows(op), dtype)
        argument = op.read(self._values)[0]
        made, again = (self._value(number, role, op.result) for role in (Role.OUT, Role.IN))
        # The piece is scanned alone. Later, the total of the pieces before is combined with each element.
        self._math(op.math, [self._value(op.arguments[0], Role.IN, argument), made])
        self._math(MathAttributes(op=COMBINED[op.math.op]), [again, total.operand(Role.IN), made], When.LATER_K)
        reduced = MathAttributes(op=REDUCED[op.math.op], axis=1)
        self._math(reduced, [*self._read(self._number(number), op), part.operand(Role.OUT)])
        self._put(op, part, total)

    def _search(self, number: int, op: VectorOp) -> None:
        """The first extreme of a piece, which replaces the extreme of the pieces before if it is beyond that.

        NaN is beyond all numbers. For a search among numbers alone, all numbers are beyond NaN.
        """
        cut, rows = self._cut, self._rows(op)
        argument = op.read(self._values)[0]
        dtype, short = argument.dtype, short_nbytes(op, argument, rows)
        extreme, index, test, other = (
            _Short(Place.REGISTERS, cut.scratch[number] + at * short, rows, kind)
            for at, kind in enumerate((dtype, DType.I32, DType.BOOL, DType.BOOL))
        )
        best = _Short(Place.ACCUMULATOR, cut.carried[number], rows, dtype)
        before = _Short(Place.ACCUMULATOR, cut.carried[number] + short, rows, DType.I32)
        found = _Short(Place.ACCUMULATOR, cut.accumulators[number], rows, DType.I32)
        # The piece's own extreme and its column, counted from the begin of the piece.
        piece = self._value(op.arguments[0], Role.IN, argument)
        self._math(MathAttributes(op=REDUCED[op.math.op], axis=1), [piece, extreme.operand(Role.OUT)])
        self._math(op.math, [*self._read(self._number(number), op), index.operand(Role.OUT)])
        self._math(MathAttributes(op="fill", scalars=(0.0,)), [before.operand(Role.OUT)], When.FIRST_K)
        self._move(index, found, When.FIRST_K)
        self._move(extreme, best, When.FIRST_K)
        later = When.LATER_K
        self._math(
            MathAttributes(op="add", scalars=(float(cut.piece),)),
            [before.operand(Role.IN), before.operand(Role.OUT)],
            later,
        )
        # `before` counts the columns of all pieces before: the column in the piece becomes the column in the row.
        self._apply("add", [index, before], index, later)
        beyond = COMBINED[op.math.op]
        # `test` keeps the earlier result. An equal extreme keeps it too, because the first of equals is found.
        self._apply("le" if beyond.startswith("maximum") else "ge", [extreme, best], test, later)
        if dtype.is_float:
            self._apply("isnan", [extreme if beyond.endswith("number") else best], other, later)
            self._apply("or", [test, other], test, later)
        self._apply("where", [test, found, index], found, later)
        self._apply(beyond, [best, extreme], best, later)

    def _apply(self, name: str, arguments: list[_Short], out: _Short, when: When) -> None:
        operands = [*(each.operand(Role.IN) for each in arguments), out.operand(Role.OUT)]
        self._math(MathAttributes(op=name), operands, when)

    def _move(self, source: _Short, target: _Short, when: When) -> None:
        self._apply("copy", [source], target, when)

    def _store(self) -> None:
        program, cut = self._program, self._cut
        totals = [cut.kinds[at] is PieceKind.TOTAL for at in program.outputs]
        when = When.LAST_K if all(totals) else When.EVERY_TILE
        moves: list[OperandTemplate] = []
        for at, matrix, is_total in zip(program.outputs, self._command.outputs, totals, strict=True):
            with_tile = When.LAST_K if is_total and when is When.EVERY_TILE else When.EVERY_TILE
            value = self._values[at]
            sides = cut.sides(at, value)
            release = cut.kinds[at] is not PieceKind.COUNT
            moves += [
                self._value(at, Role.SRC, value, release, with_tile),
                in_memory(Role.DST, matrix, *sides, with_tile),
            ]
        self._line = program.ops[-1].line
        self._add(stage(StageType.STORE, self._pe, moves, when))

    def _number(self, value: int) -> int:
        return value - len(self._program.inputs)

    def _rows(self, op: VectorOp) -> Axis:
        """The rows of a tile's total."""
        return self._cut.sides(op.arguments[0], op.read(self._values)[0])[0]

    def _read(self, at: int, op: VectorOp) -> list[OperandTemplate]:
        """The arguments of op number *at*. The last reader of a value releases its bytes.

        A value of kind COUNT keeps its bytes, because the next piece counts on from it.
        """
        return [
            self._value(
                value,
                Role.IN,
                read,
                self._last[value] == at
                and value not in op.arguments[n + 1 :]
                and self._cut.kinds[value] is not PieceKind.COUNT,
            )
            for n, (value, read) in enumerate(zip(op.arguments, op.read(self._values), strict=True))
        ]

    def _value(
        self, number: int, role: Role, value: VectorValue, release: bool = False, when: When = When.EVERY_TILE
    ) -> OperandTemplate:
        cut = self._cut
        held = number in cut.accumulators
        place, at = (Place.ACCUMULATOR, cut.accumulators[number]) if held else (Place.REGISTERS, cut.offsets[number])
        return in_buffer(role, place, at, *cut.sides(number, value), value.dtype, release=release, when=when)

    def _math(self, math: MathAttributes, operands: list[OperandTemplate], when: When = When.EVERY_TILE) -> None:
        self._add(stage(StageType.MATH, self._pe, operands, when, math))

    def _add(self, made: StageTemplate) -> None:
        self._stages.append(replace(made, line=self._line) if self._line else made)


class _Short:
    """A value of one column that is not among the values of the program."""

    def __init__(self, place: Place, at: int, rows: Axis, dtype: DType) -> None:
        self._where = place, at, rows, fixed(1), dtype

    def operand(self, role: Role, release: bool = False) -> OperandTemplate:
        place, at, rows, cols, dtype = self._where
        return in_buffer(role, place, at, rows, cols, dtype, release=release)
