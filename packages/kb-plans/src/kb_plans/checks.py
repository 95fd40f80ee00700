"""Checks of a command: every value has its declared type and is in bounds.

msgspec checks types where it decodes, and not where Python code constructs a struct. A wrong type would silently give a
wrong plan: an `EpilogueScope` is compared by identity, and a generator is empty the second time. Each planned command
passes `is_sound`, which costs a microsecond. Only where `is_sound` fails, `explain` looks for the wrong value.
"""

from __future__ import annotations

import math
from types import NoneType
from typing import Any, Final, get_args, get_origin, get_type_hints

from msgspec import Struct

from kb_messages import (
    ADDRESS_BITS,
    OFFSET_BITS,
    AtomicCommand,
    Command,
    DrainCommand,
    DType,
    EpilogueOp,
    EpilogueScope,
    Fill,
    GemmCommand,
    LoadCommand,
    LoopOrder,
    MathAttributes,
    MathCommand,
    MathInput,
    Matrix,
    NonFinite,
    Piece,
    PlanError,
    Scalar,
    SendCommand,
    StoreCommand,
    TileShape,
    VectorCommand,
    VectorOp,
    VectorProgram,
    VectorValue,
)

_ADDRESS_END: Final = 1 << ADDRESS_BITS
"""One past the last address. Source: the layout of physical addresses (`kb_messages.PhysAddr`)."""
_MOST: Final = 1 << OFFSET_BITS
"""Most rows, most columns: no memory holds a longer side."""
_NBYTES: Final = {dtype: dtype.nbytes for dtype in DType}


def check(command: object, kind: type[Command] | tuple[type[Command], ...], pe: object) -> None:
    """Raises PlanError unless *command* is one of the *kind*, all of its values have their types, and *pe* is a str."""
    if not (isinstance(command, kind) and type(pe) is str and is_sound(command)):
        explain(command, kind, pe)


def is_sound(command: object) -> bool:
    """Whether `explain` finds nothing wrong with *command*. The check is short beside the time of planning."""
    if type(command) is GemmCommand:
        return _is_gemm(command)
    if type(command) is MathCommand:
        return _is_math_command(command)
    if type(command) is LoadCommand:
        fits = command.fill is None or _is_fill(command.fill)
        fits = fits and (command.pieces == () or _are_pieces(command.pieces))
        fits = fits and (command.fills == () or _are_pieces(command.fills))
        return fits and _is_matrix(command.src) and _is_matrix(command.dst)
    if type(command) is AtomicCommand:
        return _is_atomic(command)
    if type(command) is SendCommand:
        whole = type(command.to) is type(command.number) is int and command.to >= 0 <= command.number
        fits = whole and type(command.channel_tag) is str and command.pieces == ()
        return fits and _is_matrix(command.src) and _is_matrix(command.dst)
    if type(command) is StoreCommand:
        fits = command.pieces == () or _are_pieces(command.pieces)
        return fits and _is_matrix(command.src) and _is_matrix(command.dst)
    if type(command) is VectorCommand:
        matrices = command.inputs, command.outputs
        fits = all(type(each) is tuple and False not in map(_is_matrix, each) for each in matrices)
        return fits and type(command.program) is VectorProgram and _is_program(command.program)
    return type(command) is DrainCommand and _is_matrix(command.src) and _is_matrix(command.dst)


def _is_gemm(command: Any) -> bool:
    return bool(
        _is_matrix(command.a)
        and _is_matrix(command.b)
        and _is_matrix(command.out)
        and (command.tile is None or _is_tile(command.tile))
        and type(command.a_pinned) is type(command.b_pinned) is type(command.out_pinned) is bool
        and type(command.transpose_a) is type(command.transpose_b) is type(command.b_stream) is bool
        and type(command.loop_order) is LoopOrder
        and (command.acc is None or _is_matrix(command.acc))
        and type(command.acc_held) is type(command.out_held) is bool
        and (command.epilogue == () or _is_epilogue(command.epilogue))
    )


def _is_atomic(command: Any) -> bool:
    return bool(
        _is_math(command.math)
        and _is_matrix(command.target)
        and type(command.operands) is tuple
        and False not in map(_is_matrix, command.operands)
        and (command.old is None or _is_matrix(command.old))
    )


def _is_math_command(command: Any) -> bool:
    return bool(
        _is_math(command.math)
        and type(command.inputs) is tuple
        and False not in map(_is_input, command.inputs)
        and _is_matrix(command.out)
        and (command.tile is None or _is_tile(command.tile))
        and type(command.out_pinned) is bool
    )


def _is_program(program: VectorProgram) -> bool:
    """Whether *program* is sound. The answer is kept, because a kernel submits the same program again and again."""
    if "_is_sound" not in program.__dict__:
        program.__dict__["_is_sound"] = _is_sound_program(program)
    return bool(program.__dict__["_is_sound"])


def _is_sound_program(program: VectorProgram) -> bool:
    parts: tuple[object, ...] = (program.inputs, program.ops, program.outputs)
    return (
        all(type(part) is tuple for part in parts)
        and all(map(_is_value, program.inputs))
        and all(map(_is_vector_op, program.ops))
        and _are_places(program.outputs)
    )


def _is_value(value: object) -> bool:
    return (
        type(value) is VectorValue
        and type(value.rows) is type(value.cols) is int
        and type(value.dtype) is DType
        and 0 < value.rows <= _MOST
        and 0 < value.cols <= _MOST
    )


def _is_vector_op(op: object) -> bool:
    return (
        type(op) is VectorOp
        and _is_math(op.math)
        and _are_places(op.arguments)
        and _is_value(op.result)
        and type(op.line) is str
        and type(op.shapes) is tuple
        and all(each is None or _is_pair(each) for each in op.shapes)
    )


def _is_fill(fill: object) -> bool:
    return (
        type(fill) is Fill
        and type(fill.row) is type(fill.col) is type(fill.immediate) is int
        and 0 <= fill.row <= _MOST
        and 0 <= fill.col <= _MOST
        and 0 <= fill.immediate < _ADDRESS_END
    )


def _are_pieces(pieces: object) -> bool:
    return type(pieces) is tuple and all(map(_is_piece, pieces))


def _is_piece(piece: object) -> bool:
    return (
        type(piece) is Piece
        and type(piece.address) is type(piece.stride) is type(piece.place) is type(piece.place_stride) is int
        and type(piece.rows) is type(piece.cols) is int
        and 0 <= piece.address < _ADDRESS_END
        and 0 <= piece.place < _ADDRESS_END
        and 0 <= piece.stride < _ADDRESS_END
        and 0 <= piece.place_stride < _ADDRESS_END
        and 0 < piece.rows <= _MOST
        and 0 < piece.cols <= _MOST
        and (piece.virtual is None or (type(piece.virtual) is int and 0 <= piece.virtual < _ADDRESS_END))
    )


def _is_matrix(matrix: object) -> bool:
    return (
        type(matrix) is Matrix
        and type(matrix.address) is type(matrix.rows) is type(matrix.cols) is type(matrix.stride) is int
        and type(matrix.dtype) is DType
        and 0 <= matrix.address < _ADDRESS_END
        and 0 < matrix.rows <= _MOST
        and 0 < matrix.cols <= _MOST
        and matrix.cols * _NBYTES[matrix.dtype] <= matrix.stride < _ADDRESS_END
        and (matrix.virtual is None or (type(matrix.virtual) is int and 0 <= matrix.virtual < _ADDRESS_END))
    )


def _is_bool(value: object) -> bool:
    return type(value) is bool


def _is_tile(tile: object) -> bool:
    return (
        type(tile) is TileShape
        and type(tile.m) is type(tile.n) is type(tile.k) is int
        and 0 < tile.m <= _MOST
        and 0 < tile.n <= _MOST
        and 0 < tile.k <= _MOST
    )


def _is_epilogue(epilogue: Any) -> bool:
    return type(epilogue) is tuple and False not in map(_is_op, epilogue)


def _is_op(op: object) -> bool:
    return (
        type(op) is EpilogueOp
        and type(op.op) is str
        and type(op.scope) is EpilogueScope
        and (op.operand is None or _is_matrix(op.operand))
        and _is_bool(op.operand_pinned)
        and (op.scalars == () or _are_scalars(op.scalars))
        and (op.dtype is None or type(op.dtype) is DType)
        and (op.group is None or (type(op.group) is int and 0 < op.group <= _MOST))
    )


def _is_math(attributes: Any) -> bool:
    return (
        type(attributes) is MathAttributes
        and type(attributes.op) is str
        and (attributes.axis is None or (type(attributes.axis) is int and 0 <= attributes.axis <= 1))
        and (attributes.scalars == () or _are_scalars(attributes.scalars, or_not_finite=True))
        and (attributes.scalar_at == () or _are_places(attributes.scalar_at))
        and _is_bool(attributes.reverse)
        and (attributes.group is None or _is_pair(attributes.group))
        and (attributes.lengths == () or _are_places(attributes.lengths))
        and (attributes.strides == () or _are_steps(attributes.strides))
        and _is_step(attributes.first)
    )


def _are_steps(steps: Any) -> bool:
    return type(steps) is tuple and all(map(_is_step, steps))


def _is_step(step: Any) -> bool:
    return type(step) is int and step.bit_length() <= 63


def _is_pair(pair: Any) -> bool:
    return type(pair) is tuple and len(pair) == 2 and all(type(each) is int and 0 < each <= _MOST for each in pair)


def _are_places(places: Any) -> bool:
    return type(places) is tuple and all(type(at) is int and 0 <= at < _MOST for at in places)


def _is_input(each: object) -> bool:
    return type(each) is MathInput and _is_bool(each.pinned) and _is_matrix(each.matrix)


def _are_scalars(scalars: Any, or_not_finite: bool = False) -> bool:
    return type(scalars) is tuple and all(
        _is_scalar(each) or (or_not_finite and type(each) is NonFinite) for each in scalars
    )


def _is_scalar(scalar: object) -> bool:
    return math.isfinite(scalar) if type(scalar) is float else type(scalar) is int and scalar.bit_length() <= 63


def explain(command: Any, kind: type[Command] | tuple[type[Command], ...], pe: object) -> None:
    """Raises PlanError for the first value of *command* that has a wrong type or is out of bounds."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if type(command) not in kinds:
        raise PlanError("plan", _said(command), " or ".join(f"a {each.__name__}" for each in kinds))
    if type(pe) is not str:
        raise PlanError("plan pe", _said(pe), "the name of a PE as a str")
    _check_fields(_where(command), command)


def _where(command: Command) -> str:
    return type(command).__name__.removesuffix("Command").lower()


def _check_fields(where: str, struct: Struct) -> None:
    hints = get_type_hints(type(struct))
    for name in struct.__struct_fields__:
        _check_value(f"{where} {name}", getattr(struct, name), hints[name])
    if isinstance(struct, Matrix):
        _check_matrix(where, struct)
    if isinstance(struct, Piece):
        _check_piece(where, struct)
    if isinstance(struct, VectorValue) and not _is_value(struct):
        raise PlanError(where, f"{struct.rows} x {struct.cols}", f"1 to {_MOST} rows and columns")
    if isinstance(struct, MathAttributes) and struct.group is not None and not _is_pair(struct.group):
        raise PlanError(f"{where} group", str(struct.group), f"two numbers from 1 to {_MOST}")
    if isinstance(struct, VectorOp) and not all(each is None or _is_pair(each) for each in struct.shapes):
        raise PlanError(f"{where} shapes", str(struct.shapes), f"rows and columns from 1 to {_MOST}, or None")
    if isinstance(struct, SendCommand):
        for name in ("to", "number"):
            if getattr(struct, name) < 0:
                raise PlanError(f"{where} {name}", str(getattr(struct, name)), "a number of at least 0")
        if struct.pieces:
            raise PlanError(f"{where} pieces", f"{len(struct.pieces)} pieces", "none: a message is one rectangle")
    if isinstance(struct, Fill) and struct.immediate < 0:
        raise PlanError(f"{where} immediate", str(struct.immediate), "an offset of at least 0")


def _check_value(where: str, value: Any, hint: Any) -> None:
    members = get_args(hint) if NoneType in get_args(hint) else (hint,)
    if value is None and NoneType in members:
        return
    expected = next(each for each in members if each is not NoneType)
    if get_origin(expected) is tuple:
        _check_type(where, value, tuple)
        for number, item in enumerate(value):
            _check_value(f"{where}[{number}]", item, get_args(expected)[0])
    elif expected in (float, Scalar):
        if not (_is_scalar(value) or (expected == Scalar and type(value) is NonFinite)):
            raise PlanError(where, _said(value), "a finite number of at most 64 bits")
    else:
        _check_type(where, value, expected)
        if isinstance(value, Struct):
            _check_fields(where, value)
        elif type(value) is int and value.bit_length() > 63 and not where.endswith((" address", " virtual")):
            raise PlanError(where, f"an int of {value.bit_length()} bits", "one that fits 64 bits")


def _check_type(where: str, value: object, expected: type) -> None:
    if type(value) is not expected:
        article = "an" if expected.__name__[0].lower() in "aeiou" else "a"
        raise PlanError(where, _said(value), f"{article} {expected.__name__}")


def _check_matrix(where: str, matrix: Matrix) -> None:
    if min(matrix.rows, matrix.cols) < 1:
        raise PlanError(where, f"{matrix.rows} x {matrix.cols}", "at least one row and one column")
    if max(matrix.rows, matrix.cols) > _MOST:
        raise PlanError(where, f"{matrix.rows} x {matrix.cols}", f"at most {_MOST} rows and columns")
    if not 0 <= matrix.address < _ADDRESS_END:
        raise PlanError(f"{where} address", f"{matrix.address:#x}", f"0 to {ADDRESS_BITS} bits")
    if matrix.virtual is not None and not 0 <= matrix.virtual < _ADDRESS_END:
        raise PlanError(f"{where} virtual", f"{matrix.virtual:#x}", f"0 to {ADDRESS_BITS} bits")
    if matrix.stride < (matrix.row_nbytes if matrix.rows > 1 else 0):
        raise PlanError(f"{where} stride", f"{matrix.stride} bytes", f"the {matrix.row_nbytes} bytes of a row at least")


def _check_piece(where: str, piece: Piece) -> None:
    if not (0 < piece.rows <= _MOST and 0 < piece.cols <= _MOST):
        raise PlanError(where, f"{piece.rows} x {piece.cols}", f"1 to {_MOST} rows and columns")
    for name in ("address", "place", "stride", "place_stride", "virtual"):
        number = getattr(piece, name)
        if number is not None and not 0 <= number < _ADDRESS_END:
            raise PlanError(f"{where} {name}", f"{number:#x}", f"0 to {ADDRESS_BITS} bits")


def _said(value: object) -> str:
    """*value* in a sentence. Only simple values are quoted, because the text of another object could be anything."""
    kind = type(value).__name__
    shown = isinstance(value, (str, float, bool)) or (type(value) is int and value.bit_length() < 64)
    return f"the {kind} {str(value)[:60]!r}" if shown else f"a value of type {kind}"
