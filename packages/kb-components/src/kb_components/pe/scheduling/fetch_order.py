"""The order of fetches: a tile that could overtake earlier tiles waits until all of these have registers."""

from __future__ import annotations

from typing import Final

from kb_engine.block import FeederWait, StateVisitor, TileToken
from kb_messages import PipelinePlan, Place, StageType

_BEHIND_DMA: Final = frozenset((StageType.FETCH, StageType.MATH))


class FetchOrder:
    """Decides whether the next tile is held back, by its command and by its first stage.

    A tile that starts behind DMA does not overtake tiles that have yet to be fetched: it could take the registers that
    the accumulators of these tiles need. For the same reason, a tile that claims registers with a read does not
    overtake tiles that claim registers with their fetch, and no tile overtakes tiles that are never fetched and claim
    registers with their first MATH. So registers are claimed in the order in which tiles are fed.

    With `counts_fetches` the tiles of the current command are fetched, with `counts_math` they claim registers with a
    MATH, and with `starts_differ` not all of them start with the same stage. `in_order_ps` is the time at which the
    last tile that was held back was let go.
    """

    __slots__ = ("_claimed", "counts_fetches", "counts_math", "holds_back", "in_order_ps", "starts_differ")

    def __init__(self) -> None:
        self._claimed = StageType.FETCH
        self.starts_differ = False
        self.counts_fetches = False
        self.counts_math = False
        self.holds_back = False
        self.in_order_ps = 0

    def state(self) -> tuple[StageType, bool, bool, bool, int]:
        """The present order, for `put_back`."""
        return self._claimed, self.starts_differ, self.counts_fetches, self.holds_back, self.in_order_ps

    def put_back(self, state: tuple[StageType, bool, bool, bool, int]) -> None:
        """Restores *state*, and so undoes the order of later commands."""
        self._claimed, self.starts_differ, self.counts_fetches, self.holds_back, self.in_order_ps = state

    def begin(self, plan: PipelinePlan) -> None:
        """Begins the tiles of *plan*."""
        registers = plan.lifetimes.get(Place.REGISTERS)
        self.counts_fetches = plan.has_fetches
        self.counts_math = registers is not None and registers.claimed is StageType.MATH
        self.starts_differ = plan.starts_differ
        self.holds_back = plan.stages[0].stage_type in _BEHIND_DMA and not self.starts_differ
        if registers is not None:
            self.holds_back = self.holds_back or registers.claimed < self._claimed
            self._claimed = registers.claimed

    def begin_tile(self, token: TileToken) -> None:
        """Begins tile *token* of a command whose tiles start with different stages.

        The first tile may be held back already, because its command claims registers earlier than the command before.
        """
        if token.stages[0].stage_type is StageType.FETCH:
            self.holds_back = True

    def visit_state(self, over: StateVisitor, turn_ps: int) -> None:
        """Hands the state of the order to *over*. *turn_ps* is the turn of the current tile.

        A tile that was let go before *turn_ps* held no later tile back.
        """
        self.visit_flags(over)
        self.in_order_ps = over.moment(max(self.in_order_ps, turn_ps))

    def visit_flags(self, over: StateVisitor) -> None:
        """Hands the state of the order to *over* while no tile waits for its turn."""
        over.same(self._claimed, self.starts_differ, self.counts_fetches, self.counts_math, self.holds_back)

    def let_go(self, now_ps: int) -> None:
        """Lets the next tile go: all tiles before it have their registers."""
        self.holds_back = False
        self.in_order_ps = now_ps


def wait_for_fetches(token: TileToken, since_ps: int) -> FeederWait:
    """The wait of *token*, which is held back."""

    def has_no_registers(tile: TileToken, ahead: frozenset[StageType]) -> bool:
        return StageType.FETCH in ahead or (tile.index == 0 and tile.stages[0].stage_type is StageType.MATH)

    return FeederWait(token, since_ps, needs="the tiles before it to have registers", held_by=has_no_registers)
