"""The plan of a simple transfer: one tile, one DMA stage."""

from __future__ import annotations

from collections.abc import Iterator

from kb_messages import (
    OFFSET_BITS,
    Axis,
    BufferNeeds,
    Fill,
    LoadCommand,
    Matrix,
    OperandTemplate,
    Piece,
    PipelinePlan,
    Place,
    PlanError,
    Rectangle,
    Role,
    SendCommand,
    StageType,
    StoreCommand,
)
from kb_plans.checks import check
from kb_plans.templates import fixed, stage


def generate_transfer_plan(command: LoadCommand | StoreCommand, pe: str) -> PipelinePlan:
    """Plans a copy of `src` to `dst` for the PE *pe*: one tile of one DMA_READ (load) or DMA_WRITE (store).

    The `src` of a load with a fill is smaller than `dst`. The bytes around it are up to four rectangles, which take a
    constant in the same stage. A command with pieces has a move for each piece, and for each of its fills. Raises
    PlanError when the two differ in shape or dtype, or the filled part in place, for pieces of several memories, for
    places outside the tile, and for a value of a wrong type.
    """
    check(command, (LoadCommand, StoreCommand, SendCommand), pe)
    if command.pieces or (isinstance(command, LoadCommand) and command.fills):
        return _plan_of_pieces(command, pe)
    src, dst = command.src, command.dst
    loads = isinstance(command, LoadCommand)
    fill = command.fill if isinstance(command, LoadCommand) else None
    _check(src, dst, fill)
    target = dst if fill is None else dst.part(fill.row, fill.col, src.rows, src.cols)
    operands = [_whole(Role.SRC, src), _whole(Role.DST, target)]
    if fill is not None:
        for part in _around(src, dst, fill):
            constant = Matrix.packed(part.rows, part.cols, part.dtype, fill.immediate)
            operands += [_whole(Role.SRC, constant, Place.IMMEDIATE), _whole(Role.DST, part)]
    copy = stage(StageType.DMA_READ if loads else StageType.DMA_WRITE, pe, operands)
    return PipelinePlan(kind="transfer", grid=(1, 1, 1), stages=(copy,), buffers=BufferNeeds())


def _plan_of_pieces(command: LoadCommand | StoreCommand, pe: str) -> PipelinePlan:
    loads = isinstance(command, LoadCommand)
    _check_pieces(command, command.dst if loads else command.src)
    dtype = command.dst.dtype
    moved = [
        OperandTemplate(
            role=role, place=where, base=base, rows=fixed(each.rows), cols=fixed(each.cols), stride=stride, dtype=dtype
        )
        for pieces, outside in _by_place(command)
        for each in pieces
        for role, where, base, stride in (
            (Role.SRC if loads else Role.DST, outside, each.address, each.stride),
            (Role.DST if loads else Role.SRC, Place.MEMORY, each.place, each.place_stride),
        )[:: 1 if loads else -1]
    ]
    copy = stage(StageType.DMA_READ if loads else StageType.DMA_WRITE, pe, moved, in_pieces=True)
    return PipelinePlan(kind="transfer", grid=(1, 1, 1), stages=(copy,), buffers=BufferNeeds())


def _by_place(command: LoadCommand | StoreCommand) -> Iterator[tuple[tuple[Piece, ...], Place]]:
    yield command.pieces, Place.MEMORY
    if isinstance(command, LoadCommand):
        yield command.fills, Place.IMMEDIATE


def _check_pieces(command: LoadCommand | StoreCommand, tile: Matrix) -> None:
    if command.src.dtype != command.dst.dtype:
        raise PlanError("transfer", f"pieces of {command.src.dtype} and {command.dst.dtype}", "equal dtypes")
    if isinstance(command, LoadCommand) and command.fill is not None:
        raise PlanError("transfer", "pieces and a fill around one rectangle", "one of them: `fills` go with pieces")
    owner = command.pieces[0].address >> OFFSET_BITS if command.pieces else 0
    whole = Rectangle(tile.address, 1, tile.span_nbytes, tile.span_nbytes)
    for pieces, place in _by_place(command):
        for piece in pieces:
            inside = piece.tile(tile.dtype)
            if inside.base < whole.base or inside.end > whole.end:
                raise PlanError("transfer", f"a piece at {piece.place:#x}", f"a part of the tile at {tile.address:#x}")
            if place is Place.MEMORY and piece.address >> OFFSET_BITS != owner:
                raise PlanError("transfer", "pieces of several memories", "one", "give each memory its own command")
            if isinstance(command, StoreCommand) and piece.rows > 1 and piece.stride < inside.row_nbytes:
                raise PlanError("transfer", f"a piece with stride {piece.stride}", "rows that do not overlap")


def _check(src: Matrix, dst: Matrix, fill: Fill | None) -> None:
    if fill is None:
        if (src.rows, src.cols, src.dtype) != (dst.rows, dst.cols, dst.dtype):
            raise PlanError("transfer", f"{_text(src)} into {_text(dst)}", "equal shapes and dtypes")
        return
    fits = 0 <= fill.row <= dst.rows - src.rows and 0 <= fill.col <= dst.cols - src.cols
    if not fits or src.dtype != dst.dtype:
        got = f"{_text(src)} at ({fill.row}, {fill.col}) of {_text(dst)}"
        raise PlanError("transfer", got, "a part of it, and equal dtypes")


def _around(src: Matrix, dst: Matrix, fill: Fill) -> Iterator[Matrix]:
    """The parts of *dst* around *src*: all rows below and above *src*, and the rest of its own rows."""
    bottom, right = fill.row + src.rows, fill.col + src.cols
    for row, col, rows, cols in (
        (bottom, 0, dst.rows - bottom, dst.cols),
        (fill.row, right, src.rows, dst.cols - right),
        (0, 0, fill.row, dst.cols),
        (fill.row, 0, src.rows, fill.col),
    ):
        if rows and cols:
            yield dst.part(row, col, rows, cols)


def _text(matrix: Matrix) -> str:
    return f"{matrix.rows} x {matrix.cols} of {matrix.dtype}"


def _whole(role: Role, matrix: Matrix, place: Place = Place.MEMORY) -> OperandTemplate:
    return OperandTemplate(
        role=role,
        place=place,
        base=matrix.address,
        rows=Axis(dimension=0, total=matrix.rows, tile=matrix.rows),
        cols=Axis(dimension=1, total=matrix.cols, tile=matrix.cols),
        stride=matrix.stride,
        dtype=matrix.dtype,
    )
