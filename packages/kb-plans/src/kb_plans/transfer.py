"""The plan of a simple transfer: one tile, one DMA stage."""

from __future__ import annotations

from kb_messages.commands import Matrix
from kb_messages.errors import PlanError
from kb_messages.oplog import Role
from kb_messages.plan import BufferNeeds, PipelinePlan
from kb_messages.stages import Axis, OperandTemplate, Place, StageTemplate, StageType, When


def generate_transfer_plan(src: Matrix, dst: Matrix, stage_type: StageType, pe_prefix: str) -> PipelinePlan:
    """Plan a copy of *src* to *dst*, one of which lies in the PE's TCM, as one tile of one DMA stage.

    Raises PlanError when the two differ in shape or dtype, or *stage_type* is no DMA stage.
    """
    if stage_type not in (StageType.DMA_READ, StageType.DMA_WRITE):
        raise PlanError("transfer", stage_type.name, "DMA_READ or DMA_WRITE")
    if (src.rows, src.cols, src.dtype) != (dst.rows, dst.cols, dst.dtype):
        raise PlanError(
            "transfer",
            f"{src.rows} x {src.cols} of {src.dtype} into {dst.rows} x {dst.cols} of {dst.dtype}",
            "equal shapes and dtypes",
        )
    operands = (_whole(Role.SRC, src), _whole(Role.DST, dst))
    stage = StageTemplate(
        stage_type=stage_type, component=f"{pe_prefix}.pe_dma", when=When.EVERY_TILE, operands=operands
    )
    return PipelinePlan(kind="transfer", grid=(1, 1, 1), stages=(stage,), buffers=BufferNeeds())


def _whole(role: Role, matrix: Matrix) -> OperandTemplate:
    return OperandTemplate(
        role=role,
        place=Place.MEMORY,
        base=matrix.address,
        rows=Axis(dimension=0, total=matrix.rows, tile=matrix.rows),
        cols=Axis(dimension=1, total=matrix.cols, tile=matrix.cols),
        stride=matrix.stride,
        dtype=matrix.dtype,
    )
