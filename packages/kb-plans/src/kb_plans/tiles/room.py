"""The room that a PE has for tiles, and the number of tiles that it holds at once."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from kb_messages import BufferNeeds


class TilesAtOnce(NamedTuple):
    """The number of tiles that can hold each place at a time: 0 where no tile fits, None where a tile needs none.

    Tiles of one output tile share its accumulator and its output buffer, so these two count output tiles.
    """

    input: int | None
    output: int | None
    registers: int | None
    accumulators: int | None


class TileRoom(Struct, frozen=True, kw_only=True):
    """The bytes that a PE has for tiles: TCM input buffers, TCM output buffers, registers."""

    input_nbytes: int
    output_nbytes: int
    register_nbytes: int

    def holds(self, needs: BufferNeeds, copies: int) -> bool:
        """Whether *copies* tiles fit at once, beside one panel if they share panels."""
        return (
            max(needs.panel_nbytes + copies * needs.input_nbytes, needs.least_input_nbytes) <= self.input_nbytes
            and copies * needs.output_nbytes <= self.output_nbytes
            and copies * (needs.register_nbytes + needs.accumulator_nbytes) <= self.register_nbytes
        )

    def at_once(self, needs: BufferNeeds) -> TilesAtOnce:
        """The number of tiles that fit.

        Registers hold two accumulators if a tile's operands fit beside them, else one.

        The tiles of a panel have the rest of the input buffers, and none fits where two do not.
        """
        both = 2 * needs.accumulator_nbytes + needs.register_nbytes <= self.register_nbytes
        one = needs.accumulator_nbytes + needs.register_nbytes <= self.register_nbytes
        beside = max(0, self.register_nbytes - (1 + both) * needs.accumulator_nbytes)
        inputs = self.input_nbytes - needs.panel_nbytes if needs.least_input_nbytes <= self.input_nbytes else 0
        return TilesAtOnce(
            inputs // needs.input_nbytes if needs.input_nbytes else None,
            self.output_nbytes // needs.output_nbytes if needs.output_nbytes else None,
            beside // needs.register_nbytes if needs.register_nbytes else None,
            both + one if needs.accumulator_nbytes else None,
        )
