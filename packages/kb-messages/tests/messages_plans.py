"""A small plan for the tests, and the parts that it is made of."""

from kb_messages.dtypes import DType
from kb_messages.log.oplog import Role
from kb_messages.plans.plan import BufferNeeds, PipelinePlan
from kb_messages.plans.stages import (
    Axis,
    OperandTemplate,
    Place,
    StageTemplate,
    StageType,
    When,
)

MOVES = {StageType.DMA_READ: Role.SRC, StageType.DMA_WRITE: Role.DST}


def operand(role: Role, place: Place, rows: Axis, cols: Axis, stride: int) -> OperandTemplate:
    return OperandTemplate(role=role, place=place, base=1000, rows=rows, cols=cols, stride=stride, dtype=DType.F16)


def stage(kind: StageType, when: When, *operands: OperandTemplate) -> StageTemplate:
    return StageTemplate(stage_type=kind, component="pe0", when=when, operands=operands)


def copy_plan(m: int, n: int, k: int) -> PipelinePlan:
    """m x n x k tiles: each reads 4 x 8 elements along (m, k), the last over k writes 4 x 2 along (m, n)."""
    sides = ((m, 4), (n, 2), (k, 8))
    rows, cols, depth = (Axis(dimension=i, total=count * tile, tile=tile) for i, (count, tile) in enumerate(sides))
    read = stage(StageType.DMA_READ, When.EVERY_TILE, operand(Role.SRC, Place.MEMORY, rows, depth, 256))
    write = stage(StageType.DMA_WRITE, When.LAST_K, operand(Role.DST, Place.MEMORY, rows, cols, 64))
    return PipelinePlan(kind="copy", grid=(m, n, k), stages=(read, write), buffers=BufferNeeds())
