"""The order in which the tiles of a plan read and write memory, for commands whose results replace their inputs."""

from __future__ import annotations

from typing import Final

from kb_messages import PipelinePlan, Place, Rectangle, overlaps, rectangle

_MOST_TILES: Final = 256
"""The most tiles of a plan that is searched. Source: assumed; the search takes the square of this number."""


def reads_before_writes(plan: PipelinePlan) -> bool:
    """Whether no tile of *plan* writes bytes of memory that a later tile reads.

    The tiles of a command pass each block in their order, and a tile writes when it has read everything. Returns False
    for a plan of more than 256 tiles, which is not searched.
    """
    if plan.n_tiles > _MOST_TILES:
        return False
    k_grid = plan.grid[2]
    written: list[Rectangle] = []
    for tile in plan.tiles:
        place, wrote = (tile.m, tile.n, tile.k), list[Rectangle]()
        for number in plan.stages_at(tile.k, plan.is_later(tile)):
            for operand in plan.stages[number].operands:
                if operand.place is not Place.MEMORY or not operand.when.holds(tile.k, k_grid):
                    continue
                found = rectangle(operand, place)
                if operand.role.is_write:
                    wrote.append(found)
                elif any(overlaps(found, each) for each in written):
                    return False
        written += wrote
    return True
