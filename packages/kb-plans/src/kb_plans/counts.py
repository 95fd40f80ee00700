"""The totals of a plan in closed form, without iterating its tiles."""

from __future__ import annotations

from math import prod

from msgspec import Struct

from kb_messages import OperandTemplate, PipelinePlan, Place, PlanError, Role, StageTemplate, StageType, depth_axis


class PlanCounts(Struct, frozen=True, kw_only=True):
    """Tiles, stage services by type, bytes moved by stage type, and multiply-accumulates of a plan.

    `streamed_nbytes` are the bytes of DMA_READ that go to registers and skip TCM. The constants of a masked load are
    not moved, so they do not count.
    """

    tiles: int
    stages: dict[StageType, int]
    nbytes: dict[StageType, int]
    macs: int
    streamed_nbytes: int = 0


def count(plan: PipelinePlan) -> PlanCounts:
    """The totals of *plan*, in a time that does not depend on the number of tiles.

    Raises PlanError for anything but a plan, and for a GEMM stage without its operands.
    """
    if not isinstance(plan, PipelinePlan):
        raise PlanError("count", f"a value of type {type(plan).__name__}", "a plan")
    stages: dict[StageType, int] = {}
    nbytes: dict[StageType, int] = {}
    macs = streamed_nbytes = 0
    for stage in plan.stages:
        kind = stage.stage_type
        stages[kind] = stages.get(kind, 0) + prod(plan.sums_with(stage)) * plan.tiles_with(stage.when)
        if kind in (StageType.GEMM, StageType.MATH):
            by_role = {operand.role: operand for operand in stage.operands}
            if kind is StageType.GEMM:
                if not by_role.keys() >= {Role.A, Role.OUT}:
                    raise PlanError("count", "a gemm stage without its operands", "a and out", "see check_plan")
                a, out = by_role[Role.A], by_role[Role.OUT]
                macs += out.rows.total * out.cols.total * depth_axis(stage.gemm, a).total
            continue
        side = Role.DST if kind in (StageType.STORE, StageType.DMA_WRITE) else Role.SRC
        if stage.math is not None:  # an atomic
            side = Role.OUT
        sides = [each for each in stage.operands if each.role is side and each.place is not Place.IMMEDIATE]
        moved = sum(_moved(plan, stage, operand) for operand in sides)
        nbytes[kind] = nbytes.get(kind, 0) + moved
        streamed_nbytes += moved if stage.to_registers else 0
    return PlanCounts(tiles=plan.n_tiles, stages=stages, nbytes=nbytes, macs=macs, streamed_nbytes=streamed_nbytes)


def _moved(plan: PipelinePlan, stage: StageTemplate, operand: OperandTemplate) -> int:
    """Bytes over all tiles: the whole operand, once for each place along the dimensions that it does not follow.

    A piece with stride 0 is one row.
    """
    places = (*plan.sums_with(stage), plan.tiles_with(stage.when, operand.when))
    times = 1
    for dimension, size in enumerate(places):
        if dimension not in (operand.rows.dimension, operand.cols.dimension):
            times *= size
    rows = 1 if stage.in_pieces and not operand.stride else operand.rows.total
    return times * rows * operand.cols.total * operand.dtype.nbytes
