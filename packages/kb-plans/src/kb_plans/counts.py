"""The totals of a plan in closed form, without iterating its tiles."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import NamedTuple

from msgspec import Struct

from kb_messages import (
    DmaParams,
    OperandTemplate,
    PipelinePlan,
    Place,
    PlanError,
    Role,
    StageParams,
    StageTemplate,
    StageType,
    depth_axis,
    memory_side,
    pieces_params,
    rectangle,
    stage_params,
)


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


class ServiceKind(NamedTuple):
    """Services of equal size: `n` services of the stage number `stage` of a plan, one of which has `params`."""

    stage: int
    params: StageParams
    n: int


def service_kinds(plan: PipelinePlan) -> Iterator[ServiceKind]:
    """The services of *plan* by their size, in a time that does not depend on the number of tiles.

    A tile at the end of a dimension may be smaller, and the first tile along K may have other operands than the rest.
    """
    k_grid = plan.grid[2]
    for number, stage in enumerate(plan.stages):
        sizes = plan.sums_with(stage)
        along = [_places(size, _is_ragged(stage, at, plan.grid[at])) for at, size in enumerate(sizes)]
        depths = {
            k: n for k, n in {0: 1, 1: k_grid - 2, k_grid - 1: 1}.items() if n > 0 and stage.when.holds(k, k_grid)
        }
        for (m, n_m), (n, n_n), (k, n_k) in product(*along, depths.items()):
            yield ServiceKind(number, _params(stage, (m, n, k), k_grid), n_m * n_n * n_k)


def _places(size: int, is_ragged: bool) -> list[tuple[int, int]]:
    """Places along a dimension with tiles of different sizes, each with the number of its equals."""
    return [(0, size - 1), (size - 1, 1)] if is_ragged and size > 1 else [(0, size)]


def _is_ragged(stage: StageTemplate, dimension: int, cuts: int) -> bool:
    """Whether the last piece of an operand along *dimension* is smaller than the others."""
    sides = [side for each in stage.operands for side in (each.rows, each.cols)]
    return any(side.dimension == dimension and side.total != cuts * side.tile for side in sides)


def _params(stage: StageTemplate, place: tuple[int, int, int], k_grid: int) -> StageParams:
    if stage.in_pieces:
        return pieces_params(stage)
    if stage.stage_type in (StageType.DMA_READ, StageType.DMA_WRITE):
        return DmaParams(rectangle(memory_side(stage), place), stage.to_registers, atomic=stage.math is not None)
    return stage_params(stage, place, k_grid)


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
