"""PieceNumbers: the buffers and registers that the tiles of a command take in turn."""

from __future__ import annotations

from kb_dataexec.log.compressed import SlotRing
from kb_engine.block.in_flight import CommandInFlight
from kb_messages import Place


class PieceNumbers:
    """Numbers the pieces of *command* by the tiles that take them."""

    def __init__(self, command: CommandInFlight) -> None:
        plan, placement = command.shared_plan, command.placement
        self._k_grid = plan.grid[2]
        self._inner = plan.loop_order.outer_first(*plan.grid[:2])[1]
        self._rings: dict[Place, SlotRing | None] = {
            Place.INPUT_BUFFER: placement.input,
            Place.PANEL: placement.panel,
            Place.OUTPUT_BUFFER: placement.output,
            Place.REGISTERS: placement.registers,
            Place.ACCUMULATOR: placement.accumulators,
        }

    def next(self, place: Place, made: int) -> int:
        """The piece of *place* that tile number *made* takes."""
        if place in (Place.INPUT_BUFFER, Place.REGISTERS):
            return made
        output, k = divmod(made, self._k_grid)
        return output // self._inner * self._k_grid + k if place is Place.PANEL else output

    def slot(self, slots: SlotRing, offset: int) -> int | None:
        """The number of the slot of *slots* at *offset*, or None."""
        number, rest = divmod(offset - slots.base, slots.nbytes)
        return number if not rest and 0 <= number < slots.count else None

    def rotations(self, made: int) -> list[int]:
        """Which slot of each ring the piece of tile number *made* takes."""
        return [
            (slots.first + self.next(place, made)) % slots.count
            for place, slots in self._rings.items()
            if slots is not None
        ]
