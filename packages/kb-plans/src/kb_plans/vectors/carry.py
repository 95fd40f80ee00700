"""Vector programs in pieces of rows: reductions and scans carry an intermediate result from one piece to the next.

The pieces of a row are the tiles along K. The carried values lie in an accumulator, like the sum of a product.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from kb_messages import (
    MATH_FUNCTIONS,
    Axis,
    DType,
    MathFunction,
    VectorOp,
    VectorProgram,
    VectorValue,
)
from kb_plans.templates import fixed, slot
from kb_plans.vectors.registers import lay_out_values

COMBINED: Final = {
    "sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "argmax": "maximum", "argmin": "minimum",
    "max_number": "maximum_number", "min_number": "minimum_number", "argmax_number": "maximum_number",
    "argmin_number": "minimum_number", "cummax_number": "maximum_number", "cummin_number": "minimum_number",
    "reduce_and": "bit_and", "reduce_or": "bit_or", "reduce_xor": "bit_xor",
    "cumsum": "add", "cumprod": "mul", "cummax": "maximum", "cummin": "minimum",
}  # fmt: skip
"""The function that combines the result of a piece with the result of the pieces before, by the reduction or scan."""
REDUCED: Final = {
    "argmax": "max", "argmin": "min", "cumsum": "sum", "cumprod": "prod", "cummax": "max", "cummin": "min",
    "argmax_number": "max_number", "argmin_number": "min_number", "cummax_number": "max_number",
    "cummin_number": "min_number",
}  # fmt: skip
"""The reduction whose result a search or a scan carries."""


class PieceKind(Enum):
    """The form of a value in a tile.

    A tile has a piece of the value's columns, or all of a short value, or the numbers of a piece's columns, which are
    carried on, or, in the last tile, a value that depends on all pieces.
    """

    PIECE = 0
    SHORT = 1
    COUNT = 2
    TOTAL = 3


class Carried(NamedTuple):
    """A program in pieces of `piece` of its `cols` columns, and in strips of `rows` of all rows.

    `kinds` has the kind of each value. Values in registers lie at `offsets`. `scratch` has the place of the temporary
    value of a reduction or scan, by the number of its result. `accumulators` has the places of values in the
    accumulator, and `carried` the place of the other carried value that belongs to the value with that number.
    """

    cols: int
    piece: int
    total_rows: int
    rows: int
    kinds: tuple[PieceKind, ...]
    offsets: tuple[int, ...]
    register_nbytes: int
    scratch: dict[int, int]
    accumulators: dict[int, int]
    carried: dict[int, int]
    accumulator_nbytes: int

    @property
    def grid(self) -> tuple[int, int, int]:
        """Returns (strips of rows, 1, pieces of a row)."""
        return -(-self.total_rows // self.rows), 1, -(-self.cols // self.piece)

    def sides(self, number: int, value: VectorValue) -> tuple[Axis, Axis]:
        """The sides of value *number* when an op reads it as *value*."""
        rows = fixed(value.rows)
        if self.rows < self.total_rows == value.rows:
            rows = Axis(dimension=0, total=value.rows, tile=self.rows)
        if self.kinds[number] in (PieceKind.PIECE, PieceKind.COUNT):
            return rows, Axis(dimension=2, total=self.cols, tile=self.piece)
        return rows, fixed(value.cols)


def sum_dtype(op: VectorOp) -> DType:
    """The type in which the results of pieces are added up: f32 for narrow floats, else the type of the result."""
    function = COMBINED[op.math.op]
    return DType.F32 if op.result.dtype.is_float and function in ("add", "mul") else op.result.dtype


def short_nbytes(op: VectorOp, argument: VectorValue, rows: Axis) -> int:
    """The bytes of the temporary value of *rows* that *op*, which goes along *argument*, needs beside its own."""
    wide = max(op.result.dtype.nbytes, argument.dtype.nbytes) > DType.F32.nbytes
    return slot(rows, fixed(1), DType.I64 if wide else DType.F32)


def in_pieces(program: VectorProgram, register_nbytes: int) -> Carried | None:
    """The largest pieces of rows of *program* that fit. None if an op needs more than a piece and carried values."""
    cols = max(each.cols for each in program.values)
    rows = max(each.rows for each in program.values)
    kinds = _kinds(program, cols)
    if kinds is None:
        return None
    # Low tiles are enough unless an op looks across rows: then a piece has all of them.
    height = rows if _needs_all_rows(program, rows) else 1
    # Two tiles at once overlap their fetches and their ops; one is the last resort.
    for tiles_at_once in (2, 1):
        low, high = 0, cols - 1
        while low < high:
            piece = (low + high + 1) // 2
            found = _laid_out(program, kinds, (cols, piece), (rows, height))
            fits = tiles_at_once * found.register_nbytes + found.accumulator_nbytes <= register_nbytes
            low, high = (piece, high) if fits else (low, piece - 1)
        if low:
            return _laid_out(program, kinds, (cols, low), (rows, height))
    return None


def _kinds(program: VectorProgram, cols: int) -> tuple[PieceKind, ...] | None:
    """The kind of each value; None if an op combines a piece with a value that depends on all pieces."""
    if cols == 1 or any(each.cols not in (1, cols) for each in program.inputs):
        return None
    kinds = [PieceKind.PIECE if each.cols == cols else PieceKind.SHORT for each in program.inputs]
    values = program.values
    for op in program.ops:
        read = list(zip(op.arguments, op.read(values), strict=True))
        kind = _kind(op, MATH_FUNCTIONS[op.math.op], {kinds[at] for at, _ in read}, cols)
        has_piece = any(kinds[at] in (PieceKind.PIECE, PieceKind.COUNT) for at, _ in read)
        if kind is None or (has_piece and not all(_lies_along(kinds[at], one, values[at]) for at, one in read)):
            return None
        if kind in (PieceKind.PIECE, PieceKind.COUNT) and op.result.cols != cols:
            return None
        kinds.append(kind)
    return tuple(kinds)


def _lies_along(kind: PieceKind, read: VectorValue, value: VectorValue) -> bool:
    """Whether a value, read as *read*, can stand beside a piece: it is a piece itself, or has one column."""
    return read == value if kind in (PieceKind.PIECE, PieceKind.COUNT) else read.cols == 1


def _kind(op: VectorOp, function: MathFunction, read: set[PieceKind], cols: int) -> PieceKind | None:
    has_piece = bool(read & {PieceKind.PIECE, PieceKind.COUNT})
    if function.generates:
        if op.result.cols == 1:
            return PieceKind.SHORT
        counts = op.math.op == "index" and float(op.math.scalars[2]) != 0
        return None if op.result.cols != cols else PieceKind.COUNT if counts else PieceKind.PIECE
    if PieceKind.TOTAL in read:
        return None if has_piece else PieceKind.TOTAL
    if not has_piece:
        return PieceKind.SHORT
    if function.lays_out or function.picks:
        return None
    if function.has_axis and op.math.axis == 1:
        # A reversed scan would need the last piece first.
        if op.math.op not in COMBINED or op.math.reverse:
            return None
        return PieceKind.TOTAL if function.reduces else PieceKind.PIECE
    return PieceKind.PIECE


def _needs_all_rows(program: VectorProgram, rows: int) -> bool:
    """Whether an op goes over rows, counts them, moves elements between them, or reads them as another shape."""
    for op in program.ops:
        function = MATH_FUNCTIONS[op.math.op]
        if op.shapes or function.spreads or function.lays_out or op.math.axis == 0:
            return True
        if op.math.op == "index" and float(op.math.scalars[1]) != 0:
            return True
    return any(each.rows not in (1, rows) for each in program.values)


def is_carried(op: VectorOp, kinds: tuple[PieceKind, ...]) -> bool:
    """Whether *op* goes along the pieces of rows."""
    return op.math.axis == 1 and kinds[op.arguments[0]] in (PieceKind.PIECE, PieceKind.COUNT)


def _laid_out(
    program: VectorProgram, kinds: tuple[PieceKind, ...], cols: tuple[int, int], rows: tuple[int, int]
) -> Carried:
    bare = Carried(*cols, *rows, kinds, (), 0, {}, {}, {}, 0)
    slots = [slot(*bare.sides(number, each), each.dtype) for number, each in enumerate(program.values)]
    apart = frozenset(number for number, kind in enumerate(kinds) if kind in (PieceKind.COUNT, PieceKind.TOTAL))
    layout = lay_out_values(program, slots, apart)
    registers, accumulator = layout.nbytes, 0
    scratch, accumulators, carried = dict[int, int](), dict[int, int](), dict[int, int]()
    for number, nbytes in enumerate(slots):
        if number in apart:
            accumulators[number] = accumulator
            accumulator += nbytes
        op = program.ops[number - len(program.inputs)] if number >= len(program.inputs) else None
        if op is None or not is_carried(op, kinds):
            continue
        argument = program.values[op.arguments[0]]
        row, _ = bare.sides(op.arguments[0], argument)
        short = short_nbytes(op, argument, row)
        scratch[number] = registers
        registers += short * (4 if MATH_FUNCTIONS[op.math.op].finds else 1)
        carried[number] = accumulator
        accumulator += short * (2 if MATH_FUNCTIONS[op.math.op].finds else 1)
    return Carried(*cols, *rows, kinds, layout.offsets, registers, scratch, accumulators, carried, accumulator)
