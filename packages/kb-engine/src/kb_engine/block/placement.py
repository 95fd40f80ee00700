"""Placement: where the buffers and registers of a command's tiles lie."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from kb_engine.block.buffers import Slots
from kb_messages import HeldSum, Place


class Placement(Struct, kw_only=True, gc=False):
    """The buffer slots that a command's tiles take in turn. A slot is None where the plan needs none.

    `moved` has the offsets of pieces that lie in no slot, because their slot was not free: by place, and by the number
    of the piece (the tile's id, or the number of its output for output buffers and accumulators). `operands_held` and
    `sums_held` count the operand slots and the accumulators that the command's tiles hold now.

    `input_cut` and `register_cut` name the way the input buffers and the register file are divided for the command.
    `panel` has the slots of the panels that tiles share. `held` is the sum in registers that begins with the command,
    or None, and `register_room` the bytes of registers below all sums that are held. `claimed_by` has the index of the
    stage that claims registers, by kind of tile, or None where the type of the stage says it.
    """

    input: Slots | None = None
    panel: Slots | None = None
    output: Slots | None = None
    registers: Slots | None = None
    accumulators: Slots | None = None
    input_cut: tuple[int, int, int] | None = None
    register_cut: tuple[int, int, int] | None = None
    claimed_by: tuple[int, ...] | None = None
    held: HeldSum | None = None
    register_room: int | None = None
    moved: dict[Place, dict[int, int]] = {}
    operands_held: int = 0
    sums_held: int = 0

    def turned(self, operands: int, sums: int) -> Placement:
        """The placement whose slots of operands and of sums begin so many slots later."""
        if not operands and not sums:
            return self
        registers, accumulators = self.registers, self.accumulators
        return replace(
            self,
            registers=registers and registers.turned(operands),
            accumulators=accumulators and accumulators.turned(sums),
        )

    @property
    def firsts(self) -> tuple[int, ...]:
        """The first slot of each cut."""
        cuts = self.input, self.panel, self.output, self.registers, self.accumulators
        return tuple([-1 if each is None else each.first for each in cuts])

    def move(self, place: Place, number: int, offset: int) -> None:
        """Piece *number* lies at *offset* instead of its slot."""
        self.moved.setdefault(place, {})[number] = offset
