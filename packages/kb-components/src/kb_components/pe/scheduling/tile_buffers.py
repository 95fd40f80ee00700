"""The tile buffers of a PE: TCM that tiles claim before they are fed, for their operands and for their outputs."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from kb_engine.block import KIB, CommandInFlight, FeederWait, Region, Ring, Slots, StateVisitor, TileToken
from kb_messages import LoopOrder, PipelinePlan, Place, PlanError, StageType


class TileBuffers:
    """TCM from offset 0 on: the input buffers, then the output buffers.

    The input buffers also hold the panels that tiles share: below the buffers of the tiles.
    """

    __slots__ = ("_input_ring", "_output_ring", "_panel_ring", "inputs", "outputs")

    def __init__(self, input_nbytes: int, output_nbytes: int) -> None:
        self.inputs = Region(0, input_nbytes)
        self.outputs = Region(input_nbytes, output_nbytes)
        self._input_ring, self._output_ring, self._panel_ring = Ring(), Ring(), Ring()

    def check(self, plan: PipelinePlan, tcm: str) -> None:
        """Raises PlanError when not even one tile of *plan* fits, or no panel beside the buffers of two tiles.

        *tcm* is the node that the error names.
        """
        if plan.has_panels and plan.buffers.least_input_nbytes > self.inputs.nbytes:
            raise no_room_for_panel(plan, tcm, self.inputs.nbytes)
        for name, needs, region in (
            ("input", plan.buffers.input_nbytes, self.inputs),
            ("output", plan.buffers.output_nbytes, self.outputs),
        ):
            if needs > region.nbytes:
                raise PlanError(
                    tcm,
                    f"a tile whose {name} buffer takes {_kib(needs)}",
                    f"at most the {_kib(region.nbytes)} of {name}_kib",
                    "use a smaller tile",
                )

    def place(self, command: CommandInFlight) -> None:
        """Cuts the buffers for the tiles of *command*, and the panel that they share, if any."""
        plan, placement = command.shared_plan, command.placement
        buffers = plan.buffers
        if not (buffers.input_nbytes or buffers.output_nbytes or buffers.panel_nbytes):
            return
        below = 0
        if buffers.panel_nbytes:
            placement.panel = panel_slots(plan, self._panel_ring, self.inputs)
            below = placement.panel.count * placement.panel.nbytes
        if buffers.input_nbytes:
            # The panel lies at the bottom, and the tiles' own buffers above it.
            base, count = self.inputs.base + below, (self.inputs.nbytes - below) // buffers.input_nbytes
            placement.input = self._input_ring.cut(base, buffers.input_nbytes, count, plan.n_tiles)
        placement.input_cut = below, buffers.panel_nbytes, buffers.input_nbytes
        if buffers.output_nbytes:
            m, n, _ = plan.grid
            count = self.outputs.nbytes // buffers.output_nbytes
            placement.output = self._output_ring.cut(self.outputs.base, buffers.output_nbytes, count, m * n)

    def cuts(self) -> tuple[Any, ...]:
        """The present cuts of the buffers, for `put_back`."""
        return self._input_ring.state(), self._output_ring.state(), self._panel_ring.state()

    def put_back(self, cuts: tuple[Any, ...]) -> None:
        """Restores *cuts*. No tile of a later command may have a buffer."""
        for ring, state in zip((self._input_ring, self._output_ring, self._panel_ring), cuts, strict=True):
            ring.put_back(state)

    def claim(self, token: TileToken) -> bool:
        """Gives *token* all of its buffers, or none. Returns whether it got them.

        The buffers are its input buffer, its piece of a panel if it fills one, and, if it is the last tile over K, its
        output buffer. A piece lies in its slot and nowhere else: it stays for long, and elsewhere it could split the
        room for the buffers of tiles. Tiles that still hold the slot are before this one, so they free it.
        """
        plan, placement = token.context.shared_plan, token.context.placement
        panel = placement.panel
        if panel is None or plan.is_later(token.tile):
            return self._claim_tile(token)
        at = panel.offset(plan.panel_piece(token.tile))
        if not self.inputs.claim(placement.input_cut, at, panel.nbytes):
            return False
        if self._claim_tile(token):
            return True
        self.inputs.free(at)
        return False

    def free_inputs(self, token: TileToken) -> None:
        """Frees the input buffer of *token*, and its piece of a panel if no other tile reads it.

        The tile of *token* is in registers.
        """
        if token.input_at is not None:
            self.inputs.free(token.input_at)
        plan, panel = token.context.shared_plan, token.context.placement.panel
        if panel is not None and plan.is_last(token.tile):
            self.inputs.free(panel.offset(plan.panel_piece(token.tile)))

    def visit_state(self, over: StateVisitor) -> None:
        """Hands the state of the buffers to *over*.

        Between programs of a grid, every claim keeps its place, and the same slots come next.
        """
        if over.command is None:
            for region in (self.inputs, self.outputs):
                region.visit_programs(over)
            over.same(*self.cuts())
            return
        placement = over.command.placement
        self.inputs.visit_state(over, [(Place.PANEL, placement.panel), (Place.INPUT_BUFFER, placement.input)])
        self.outputs.visit_state(over, [(Place.OUTPUT_BUFFER, placement.output)])

    def wait_of(self, node_id: str, token: TileToken, since_ps: int) -> FeederWait:
        """The wait of *token* for a piece of a panel, for an input buffer, or for an output buffer beside these.

        *node_id* is the scheduler.
        """
        name, last, region = "input", StageType.FETCH, self.inputs
        slots = token.context.placement.input
        if not self._waits_for_panel(token) and (
            slots is None or region.room_for(slots.nbytes, slots.base) is not None
        ):
            name, last, region = "output", StageType.DMA_WRITE, self.outputs
            slots = token.context.placement.output
        slots = slots or token.context.placement.panel
        assert slots is not None
        nbytes = slots.base - region.base + (slots.count + 1) * slots.nbytes
        return FeederWait(
            token,
            since_ps,
            needs=f"an {name} buffer of {node_id}",
            held_by=_has_ahead(last),
            change=f"{name}_kib of {node_id} from {region.nbytes // KIB} to {-(-nbytes // KIB)} may break it",
        )

    def _claim_tile(self, token: TileToken) -> bool:
        placement = token.context.placement
        inputs, outputs = placement.input, placement.output
        if inputs is None and outputs is None:
            token.input_at = None
            return True
        tile, grid = token.tile, token.context.shared_plan.grid
        at = None
        if inputs is not None:
            at = _claim(self.inputs, placement.input_cut, inputs, tile.tile_id)
            if at is None:
                return False
        if outputs is not None and tile.k == grid[2] - 1:
            number = tile.tile_id // grid[2]
            output_at = _claim(self.outputs, outputs.nbytes, outputs, number)
            if output_at is None:
                if at is not None:
                    self.inputs.free(at)
                return False
            token.output_at = output_at
            # The buffer lies outside of its slot, so the tile's stages have to move with it.
            if output_at != outputs.offset(number):
                placement.move(Place.OUTPUT_BUFFER, number, output_at)
        if inputs is not None and at is not None and at != inputs.offset(tile.tile_id):
            placement.move(Place.INPUT_BUFFER, tile.tile_id, at)
        token.input_at = at
        return True

    def _waits_for_panel(self, token: TileToken) -> bool:
        """Whether *token* fills a piece of a panel whose slot is not free."""
        plan, panel = token.context.shared_plan, token.context.placement.panel
        if panel is None or plan.is_later(token.tile):
            return False
        return not self.inputs.is_free(panel.offset(plan.panel_piece(token.tile)), panel.nbytes)


def _has_ahead(stage_type: StageType) -> Callable[[TileToken, frozenset[StageType]], bool]:
    return lambda _, ahead: stage_type in ahead


def _claim(region: Region, cut: Hashable, slots: Slots, number: int) -> int | None:
    """Takes the slot of piece *number*, or as many bytes elsewhere. Returns their offset, or None.

    Elsewhere is from the first slot on. Below lie the pieces of a panel, which wait for their own slots.
    """
    at = slots.offset(number)
    return at if region.claim(cut, at, slots.nbytes) else region.claim_elsewhere(slots.nbytes, slots.base)


def _kib(nbytes: int) -> str:
    return f"{nbytes / KIB:g} KiB"


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
