"""The order of fetches: which tiles wait until all tiles before have registers, because they could overtake them."""

from __future__ import annotations

from typing import Final

from kb_engine.block import FeederWait, StateVisitor, TileToken
from kb_messages import PipelinePlan, Place, StageType

_BEHIND_DMA: Final = frozenset((StageType.FETCH, StageType.MATH))


class FetchOrder:
    """Whether the next tile is held back, by its command and by its first stage.

    A tile that starts behind DMA does not overtake tiles that have yet to be fetched: it could take the registers that
    the accumulators of those tiles need. For the same reason, a tile that claims registers with a read does not
    overtake tiles that claim theirs with their fetch, and no tile overtakes those that are never fetched and claim
    registers with their first MATH. So registers are claimed in the order in which tiles are fed.

    `counts_fetches` says that the tiles of the current command are fetched, `counts_math` that they claim registers
    with a MATH, and `starts_differ` that not all of them start with the same stage. `in_order_ps` is when the last tile
    that was held back was let go.
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
        """What `put_back` needs to undo the order of later commands."""
        return self._claimed, self.starts_differ, self.counts_fetches, self.holds_back, self.in_order_ps

    def put_back(self, state: tuple[StageType, bool, bool, bool, int]) -> None:
        """Be as when the state was *state*."""
        self._claimed, self.starts_differ, self.counts_fetches, self.holds_back, self.in_order_ps = state

    def begin(self, plan: PipelinePlan) -> None:
        """The tiles of *plan* come next."""
        registers = plan.lifetimes.get(Place.REGISTERS)
        self.counts_fetches = plan.has_fetches
        self.counts_math = registers is not None and registers.claimed is StageType.MATH
        self.starts_differ = plan.starts_differ
        self.holds_back = plan.stages[0].stage_type in _BEHIND_DMA and not self.starts_differ
        if registers is not None:
            self.holds_back = self.holds_back or registers.claimed < self._claimed
            self._claimed = registers.claimed

    def begin_tile(self, token: TileToken) -> None:
        """*token* comes next, of a command whose tiles start with different stages.

        The first tile may be held back already, because its command claims registers earlier than the command before.
        """
        if token.stages[0].stage_type is StageType.FETCH:
            self.holds_back = True

    def fold(self, over: StateVisitor, turn_ps: int) -> None:
        """As FoldPass says. What was let go before *turn_ps*, the turn of the current tile, held no later tile back."""
        self.fold_flags(over)
        self.in_order_ps = over.moment(max(self.in_order_ps, turn_ps))

    def fold_flags(self, over: StateVisitor) -> None:
        """As FoldPass says, while no tile waits for its turn."""
        over.same(self._claimed, self.starts_differ, self.counts_fetches, self.counts_math, self.holds_back)

    def let_go(self, now_ps: int) -> None:
        """All tiles before have their registers."""
        self.holds_back = False
        self.in_order_ps = now_ps


def wait_for_fetches(token: TileToken, since_ps: int) -> FeederWait:
    """The wait of *token*, which is held back."""

    def has_no_registers(tile: TileToken, ahead: frozenset[StageType]) -> bool:
        return StageType.FETCH in ahead or (tile.index == 0 and tile.stages[0].stage_type is StageType.MATH)

    return FeederWait(token, since_ps, needs="the tiles before it to have registers", held_by=has_no_registers)
