"""The tile buffers of a PE: TCM that tiles claim before they are fed, for their operands and for their outputs."""

from __future__ import annotations

from collections.abc import Callable

from kb_engine.block import KIB, CommandInFlight, FeederWait, Region, Ring, Slots, TileToken
from kb_messages import PipelinePlan, Place, PlanError, StageType


class TileBuffers:
    """TCM from offset 0 on: the input buffers, then the output buffers."""

    __slots__ = ("_input_ring", "_output_ring", "inputs", "outputs")

    def __init__(self, input_nbytes: int, output_nbytes: int) -> None:
        self.inputs = Region(0, input_nbytes)
        self.outputs = Region(input_nbytes, output_nbytes)
        self._input_ring, self._output_ring = Ring(), Ring()

    def check(self, plan: PipelinePlan, tcm: str) -> None:
        """Raise PlanError when not even one tile of *plan* fits. *tcm* is the node that the error names."""
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
        """Cut the buffers for the tiles of *command*."""
        plan, placement = command.plan, command.placement
        buffers = plan.buffers
        if buffers.input_nbytes:
            placement.input = _cut(self._input_ring, self.inputs, buffers.input_nbytes, plan.n_tiles)
        if buffers.output_nbytes:
            m, n, _ = plan.grid
            placement.output = _cut(self._output_ring, self.outputs, buffers.output_nbytes, m * n)

    def claim(self, token: TileToken) -> bool:
        """Give *token* its input buffer and, if it is the last tile over K, its output buffer: both or none."""
        tile, grid, placement = token.tile, token.context.plan.grid, token.context.placement
        inputs, outputs = placement.input, placement.output
        at = None
        if inputs is not None:
            at = _claim(self.inputs, inputs, tile.tile_id)
            if at is None:
                return False
        if outputs is not None and tile.k == grid[2] - 1:
            number = tile.tile_id // grid[2]
            output_at = _claim(self.outputs, outputs, number)
            if output_at is None:
                if at is not None:
                    self.inputs.free(at)
                return False
            token.output_at = output_at
            if output_at != outputs.offset(number):
                placement.move(Place.OUTPUT_BUFFER, number, output_at)
        if inputs is not None and at is not None and at != inputs.offset(tile.tile_id):
            placement.move(Place.INPUT_BUFFER, tile.tile_id, at)
        token.input_at = at
        return True

    def wait_of(self, node_id: str, token: TileToken, since_ps: int) -> FeederWait:
        """The wait of *token*, which has no input buffer, or no output buffer to its input buffer.

        *node_id* is the scheduler.
        """
        name, last, region = "input", StageType.FETCH, self.inputs
        slots = token.context.placement.input
        if slots is None or region.room_for(slots.nbytes) is not None:
            name, last, region = "output", StageType.DMA_WRITE, self.outputs
            slots = token.context.placement.output
        assert slots is not None
        nbytes = (slots.count + 1) * slots.nbytes
        return FeederWait(
            token,
            since_ps,
            needs=f"an {name} buffer of {node_id}",
            held_by=_has_ahead(last),
            change=f"{name}_kib of {node_id} from {region.nbytes // KIB} to {-(-nbytes // KIB)} may break it",
        )


def _has_ahead(stage_type: StageType) -> Callable[[TileToken, frozenset[StageType]], bool]:
    return lambda _, ahead: stage_type in ahead


def _claim(region: Region, slots: Slots, number: int) -> int | None:
    """Take the slot of piece *number*, or as many bytes elsewhere. Returns their offset, or None."""
    at = slots.offset(number)
    return at if region.claim(slots.nbytes, at, slots.nbytes) else region.claim_elsewhere(slots.nbytes)


def _cut(ring: Ring, region: Region, nbytes: int, pieces: int) -> Slots:
    return ring.cut(region.base, nbytes, region.nbytes // nbytes, pieces)


def _kib(nbytes: int) -> str:
    return f"{nbytes / KIB:g} KiB"
