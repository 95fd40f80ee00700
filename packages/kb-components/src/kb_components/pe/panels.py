"""The slots of panels: operands that stay in the tile buffers for all tiles of a turn of the outer loop."""

from __future__ import annotations

from kb_engine.block import KIB, Region, Ring, Slots
from kb_messages import LoopOrder, PipelinePlan, PlanError


def panel_slots(plan: PipelinePlan, ring: Ring, region: Region) -> Slots:
    """A slot for each piece of a panel of *plan*, at the bottom of *region*.

    Where one more piece fits beside the panel and the buffers of two tiles, there is one slot more: the next panel
    begins to arrive while the pieces of this one are still in use.
    """
    buffers, k_grid = plan.buffers, plan.grid[2]
    piece = buffers.panel_nbytes // k_grid
    count = k_grid + 1 if buffers.least_input_nbytes + piece <= region.nbytes else k_grid
    n_panels = plan.loop_order.outer_first(*plan.grid[:2])[0]
    return ring.cut(region.base, piece, count, n_panels * k_grid)


def no_room_for_panel(plan: PipelinePlan, tcm: str, room_nbytes: int) -> PlanError:
    """The error for *plan*, whose panel does not fit in *room_nbytes* of the node *tcm* beside two tiles' buffers."""
    needs, k_grid = plan.buffers, plan.grid[2]
    pieces = f"{k_grid} piece{'' if k_grid == 1 else 's'} of {_kib(needs.panel_nbytes // k_grid)}"
    beside = f" and input buffers of {_kib(needs.input_nbytes)} for each of two tiles" if needs.input_nbytes else ""
    side = "n" if plan.loop_order is LoopOrder.WEIGHT_STATIONARY else "m"
    other = "".join(plan.loop_order.outer_first("m", "n")) + "k"
    return PlanError(
        tcm,
        f"{plan.loop_order} with a panel of {_kib(needs.panel_nbytes)} ({pieces}){beside}",
        f"at most the {_kib(room_nbytes)} of input_kib",
        f"use a tile of smaller {side}, or loop_order={other}, which keeps no panel",
    )


def _kib(nbytes: int) -> str:
    return f"{nbytes / KIB:g} KiB"
