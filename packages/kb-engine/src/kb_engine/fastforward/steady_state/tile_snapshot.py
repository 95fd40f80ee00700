"""TileSnapshot: the state of a simulation, relative to now and to the tile that is made next."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

from kb_dataexec.log.compressed import LogMark, SlotRing
from kb_engine.block.in_flight import CommandInFlight, TileToken
from kb_engine.block.state_visitor import NotPeriodic
from kb_engine.fastforward.steady_state.state_snapshot import StateSnapshot
from kb_engine.fastforward.steady_state.tile_kinds import TileKinds
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


class TileSnapshot(StateSnapshot):
    """What `visit_state` of all parts said at one moment: two looks are at equal states when their `parts` are equal.

    `made` tiles of *command* were made, and `next_op` is the first op of the next one. `totals` are the numbers that
    grew so far, and `moved` how many pieces lay elsewhere, by place. `mark` says how far the records had come.
    """

    def __init__(
        self,
        now_ps: int,
        command: CommandInFlight,
        made: int,
        next_op: int,
        kinds: TileKinds,
        mark: LogMark | None,
    ) -> None:
        super().__init__(now_ps)
        self.made = made
        self.next_op = next_op
        self.mark = mark
        self.n_moved: dict[Place, int] = {}
        self._command = command
        self._kinds = kinds
        self._pieces = PieceNumbers(command)

    @property
    def command(self) -> CommandInFlight:
        """As StateVisitor says."""
        return self._command

    @property
    def next_tile(self) -> int:
        """As StateVisitor says."""
        return self.made

    def op(self, op_id: int) -> int:
        """As StateVisitor says. An op before the command has a number of its own, which no other op gets."""
        is_own = op_id >= self._command.first_op
        self.parts.append((is_own, op_id - self.next_op if is_own else op_id))
        return op_id

    def tiles_to_go(self, count: int) -> int:
        """As StateVisitor says: the tiles that are on their way."""
        self.parts.append(self.made - (self._command.shared_plan.n_tiles - count))
        return count

    def token(self, token: Any) -> None:
        """As StateVisitor says. Raises NotPeriodic for a tile of another command."""
        if token is None:
            self.parts.append(None)
            return
        if type(token) is not TileToken or token.context is not self._command:
            raise NotPeriodic
        if self._is_new(token):
            tile = token.tile.tile_id
            self.parts.append((self.made - tile, self._kinds.of(tile)))
            token.visit_state(self)

    def call(self, function: Callable[..., Any]) -> None:
        """As StateVisitor says."""
        if type(function) is not MethodType:
            raise NotPeriodic
        self.identical(function.__self__)
        self.parts.append(function.__func__)

    def place(self, place: Place, slots: SlotRing | None, offset: int) -> int:
        """As StateVisitor says."""
        number = None if slots is None else self._pieces.slot(slots, offset)
        if slots is None or number is None:
            self.parts.append((place, offset))
        else:
            self.parts.append((number - slots.first - self._pieces.next(place, self.made)) % slots.count)
        return offset

    def places(self, claims: dict[int, int], rings: list[tuple[Place, SlotRing | None]]) -> dict[int, int]:
        """As StateVisitor says."""
        found = []
        for offset, nbytes in claims.items():
            where, at = -1, offset
            for which, (place, slots) in enumerate(rings):
                number = None if slots is None or slots.nbytes != nbytes else self._pieces.slot(slots, offset)
                if slots is not None and number is not None:
                    where, at = which, (number - slots.first - self._pieces.next(place, self.made)) % slots.count
                    break
            found.append((where, at, nbytes))
        self.parts.append(sorted(found))
        return claims

    def moved(self, moved: dict[Place, dict[int, int]]) -> None:
        """As StateVisitor says."""
        self.n_moved = {place: len(numbers) for place, numbers in moved.items()}
        self.parts.append(self._pieces.rotations(self.made) if moved else None)
