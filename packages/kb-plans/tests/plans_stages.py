"""Short views of stages and operands, for several test modules."""

from kb_messages import OperandTemplate, StageType, TilePlan, rectangle


def kinds(tile: TilePlan) -> list[StageType]:
    return [stage.stage_type for stage in tile.stages]


def extent(operand: OperandTemplate) -> tuple[int, int]:
    """First byte and end of the full tile's rectangle within its buffer."""
    found = rectangle(operand, (0, 0, 0))
    return found.base, found.base + (found.rows - 1) * found.stride + found.row_nbytes
