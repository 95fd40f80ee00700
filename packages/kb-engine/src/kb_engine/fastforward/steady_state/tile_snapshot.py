"""Snapshot and shift of the state of one command, relative to now and to the tile that is made next.

Design: docs/design/steady-state.md
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

from kb_dataexec.log.compressed import SlotRing
from kb_engine.block.in_flight import CommandInFlight, TileToken
from kb_engine.block.state_visitor import NotPeriodic
from kb_engine.fastforward.steady_state.state_snapshot import StateShift, StateSnapshot
from kb_engine.fastforward.steady_state.tile_kinds import TileKinds
from kb_engine.observe.recorder import LogMark
from kb_messages import Place


class PieceNumbers:
    """Numbers the pieces of buffers by the tiles of *command* that take them."""

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
        """Returns the piece of *place* that tile number *made* takes."""
        if place in (Place.INPUT_BUFFER, Place.REGISTERS):
            return made
        output, k = divmod(made, self._k_grid)
        return output // self._inner * self._k_grid + k if place is Place.PANEL else output

    def slot(self, slots: SlotRing, offset: int) -> int | None:
        """Returns the number of the slot of *slots* at *offset*, or None."""
        number, rest = divmod(offset - slots.base, slots.nbytes)
        return number if not rest and 0 <= number < slots.count else None

    def rotations(self, made: int) -> list[int]:
        """Returns, for each ring, the slot of the piece of tile number *made*."""
        return [
            (slots.first + self.next(place, made)) % slots.count
            for place, slots in self._rings.items()
            if slots is not None
        ]


class TileSnapshot(StateSnapshot):
    """The state of the blocks of *command* when `made` tiles were made. `next_op` is the first op of the next tile.

    `n_moved` counts the pieces outside of their slots, by place. `mark` is the position in the records.
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
        """The command whose tiles are fed."""
        return self._command

    @property
    def next_tile(self) -> int:
        """The tile that is fed next."""
        return self.made

    def op(self, op_id: int) -> int:
        """Writes *op_id* down, relative to the next op. An op before the command keeps its number."""
        is_own = op_id >= self._command.first_op
        self.parts.append((is_own, op_id - self.next_op if is_own else op_id))
        return op_id

    def tiles_to_go(self, count: int) -> int:
        """Writes the number of tiles in flight down."""
        self.parts.append(self.made - (self._command.shared_plan.n_tiles - count))
        return count

    def token(self, token: Any) -> None:
        """Writes *token* down. Raises NotPeriodic for a tile of another command."""
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
        """Writes the method *function* down."""
        if type(function) is not MethodType:
            raise NotPeriodic
        self.identical(function.__self__)
        self.parts.append(function.__func__)

    def place(self, place: Place, slots: SlotRing | None, offset: int) -> int:
        """Writes the slot at *offset* down, relative to the slot of the next tile."""
        number = None if slots is None else self._pieces.slot(slots, offset)
        if slots is None or number is None:
            self.parts.append((place, offset))
        else:
            self.parts.append((number - slots.first - self._pieces.next(place, self.made)) % slots.count)
        return offset

    def places(self, claims: dict[int, int], rings: list[tuple[Place, SlotRing | None]]) -> dict[int, int]:
        """Writes the claimed slots down, relative to the slots of the next tile."""
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
        """Writes the slots of the next tile down, if pieces lie outside of their slots."""
        self.n_moved = {place: len(numbers) for place, numbers in moved.items()}
        self.parts.append(self._pieces.rotations(self.made) if moved else None)


class TileShift(StateShift):
    """Moves the state on by *n* times the period from snapshot *before* to snapshot *after*, which are equal.

    `ps`, `tiles` and `ops` are the lengths of all these periods.
    """

    def __init__(self, before: TileSnapshot, after: TileSnapshot, n: int) -> None:
        super().__init__(before, after, n)
        self._n = n
        self._period = after.made - before.made
        self.tiles = n * self._period
        self.ops = n * (after.next_op - before.next_op)
        self._made = after.made
        self._command = after.command
        self._tiles = after.command.tiles
        self._n_moved = before.n_moved
        self._pieces = PieceNumbers(after.command)

    @property
    def command(self) -> CommandInFlight:
        """The command whose tiles are fed."""
        return self._command

    @property
    def next_tile(self) -> int:
        """The tile that is fed next, after the shift."""
        return self._made + self.tiles

    def op(self, op_id: int) -> int:
        """Returns the op that takes the place of *op_id*."""
        return op_id + self.ops if op_id >= self._command.first_op else op_id

    def tiles_to_go(self, count: int) -> int:
        """Returns *count* without the skipped tiles."""
        return count - self.tiles

    def token(self, token: Any) -> None:
        """Gives *token* a later tile."""
        if token is not None and self._is_new(token):
            token.become(self._tiles[token.tile.tile_id + self.tiles], token.first_op_id + self.ops)
            token.visit_state(self)

    def call(self, function: Callable[..., Any]) -> None:
        """Changes nothing."""

    def place(self, place: Place, slots: SlotRing | None, offset: int) -> int:
        """Returns the slot of a later tile in place of the slot at *offset*."""
        number = None if slots is None else self._pieces.slot(slots, offset)
        if slots is None or number is None:
            return offset
        turned = self._pieces.next(place, self.next_tile) - self._pieces.next(place, self._made)
        return slots.base + (number + turned) % slots.count * slots.nbytes

    def places(self, claims: dict[int, int], rings: list[tuple[Place, SlotRing | None]]) -> dict[int, int]:
        """Returns *claims* with the slots of later tiles."""
        found = {}
        for offset, nbytes in claims.items():
            at = offset
            for place, slots in rings:
                if slots is not None and slots.nbytes == nbytes and self._pieces.slot(slots, offset) is not None:
                    at = self.place(place, slots, offset)
                    break
            found[at] = nbytes
        return found

    def moved(self, moved: dict[Place, dict[int, int]]) -> None:
        """Repeats the pieces that lay outside of their slots in the period for each skipped period."""
        made = self._made
        for place, numbers in moved.items():
            turn = self._pieces.next(place, made) - self._pieces.next(place, made - self._period)
            mine = list(numbers.items())[self._n_moved.get(place, 0) :]
            for again in range(1, self._n + 1):
                for number, offset in mine:
                    numbers[number + again * turn] = offset
