"""The plan of a simple transfer: one tile, one DMA stage."""

from __future__ import annotations

from collections.abc import Iterator

from kb_messages import (
    Axis,
    BufferNeeds,
    Fill,
    Matrix,
    OperandTemplate,
    PipelinePlan,
    Place,
    PlanError,
    Role,
    StageTemplate,
    StageType,
    When,
)


def generate_transfer_plan(
    src: Matrix, dst: Matrix, stage_type: StageType, pe_prefix: str, fill: Fill | None = None
) -> PipelinePlan:
    """Plan a copy of *src* to *dst*, one of which lies in the PE's TCM, as one tile of one DMA stage.

    With *fill*, a read has room in *dst* around *src*: up to four rectangles, which take a constant in the same stage.
    Raises PlanError when the two differ in shape or dtype, or *stage_type* is no DMA stage.
    """
    if stage_type not in (StageType.DMA_READ, StageType.DMA_WRITE):
        raise PlanError("transfer", stage_type.name, "DMA_READ or DMA_WRITE")
    if fill is not None:
        _check_fill(src, dst, stage_type, fill)
    elif (src.rows, src.cols, src.dtype) != (dst.rows, dst.cols, dst.dtype):
        raise PlanError("transfer", f"{_text(src)} into {_text(dst)}", "equal shapes and dtypes")
    target = dst if fill is None else dst.part(fill.row, fill.col, src.rows, src.cols)
    operands = [_whole(Role.SRC, src), _whole(Role.DST, target)]
    if fill is not None:
        for part in _around(src, dst, fill):
            constant = Matrix.packed(part.rows, part.cols, part.dtype, fill.immediate)
            operands += [_whole(Role.SRC, constant, Place.IMMEDIATE), _whole(Role.DST, part)]
    stage = StageTemplate(
        stage_type=stage_type, component=f"{pe_prefix}.pe_dma", when=When.EVERY_TILE, operands=tuple(operands)
    )
    return PipelinePlan(kind="transfer", grid=(1, 1, 1), stages=(stage,), buffers=BufferNeeds())


def _check_fill(src: Matrix, dst: Matrix, stage_type: StageType, fill: Fill) -> None:
    if stage_type is not StageType.DMA_READ:
        raise PlanError("transfer", f"a {stage_type.name} with a fill", "DMA_READ")
    fits = 0 <= fill.row <= dst.rows - src.rows and 0 <= fill.col <= dst.cols - src.cols
    if not fits or src.dtype != dst.dtype:
        got = f"{_text(src)} at ({fill.row}, {fill.col}) of {_text(dst)}"
        raise PlanError("transfer", got, "a part of it, and equal dtypes")


def _around(src: Matrix, dst: Matrix, fill: Fill) -> Iterator[Matrix]:
    """What *src* leaves of *dst*: all rows below and above it, and what is beside it."""
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
