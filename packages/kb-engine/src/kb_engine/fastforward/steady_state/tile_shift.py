"""TileShift: moves a simulation on by whole periods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kb_dataexec.log.compressed import SlotRing
from kb_engine.block.in_flight import CommandInFlight
from kb_engine.fastforward.steady_state.state_snapshot import StateShift
from kb_engine.fastforward.steady_state.tile_snapshot import PieceNumbers, TileSnapshot
from kb_messages import Place


class TileShift(StateShift):
    """*n* times what happened from the look *before* to the look *after*, which are at equal states.

    `ps`, `tiles` and `ops` is how much later it is then, and how many more tiles and ops there were.
    """

    def __init__(self, before: TileSnapshot, after: TileSnapshot, n: int) -> None:
        grown = (n * (now - then) for then, now in zip(before.totals, after.totals, strict=True))
        super().__init__(n * (after.now_ps - before.now_ps), grown)
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
        """As StateVisitor says."""
        return self._command

    @property
    def next_tile(self) -> int:
        """As StateVisitor says."""
        return self._made + self.tiles

    def op(self, op_id: int) -> int:
        """As StateVisitor says."""
        return op_id + self.ops if op_id >= self._command.first_op else op_id

    def tiles_to_go(self, count: int) -> int:
        """As StateVisitor says."""
        return count - self.tiles

    def token(self, token: Any) -> None:
        """As StateVisitor says. The token carries a later tile from now on."""
        if token is not None and self._is_new(token):
            token.become(self._tiles[token.tile.tile_id + self.tiles], token.first_op_id + self.ops)
            token.visit_state(self)

    def call(self, function: Callable[..., Any]) -> None:
        """As StateVisitor says."""

    def place(self, place: Place, slots: SlotRing | None, offset: int) -> int:
        """As StateVisitor says."""
        number = None if slots is None else self._pieces.slot(slots, offset)
        if slots is None or number is None:
            return offset
        turned = self._pieces.next(place, self.next_tile) - self._pieces.next(place, self._made)
        return slots.base + (number + turned) % slots.count * slots.nbytes

    def places(self, claims: dict[int, int], rings: list[tuple[Place, SlotRing | None]]) -> dict[int, int]:
        """As StateVisitor says."""
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
        """As StateVisitor says: pieces that lay elsewhere in the period do so in each of the others."""
        made = self._made
        for place, numbers in moved.items():
            turn = self._pieces.next(place, made) - self._pieces.next(place, made - self._period)
            mine = list(numbers.items())[self._n_moved.get(place, 0) :]
            for again in range(1, self._n + 1):
                for number, offset in mine:
                    numbers[number + again * turn] = offset
