"""Loop orders: the order of the tiles of a GEMM, and the operand that stays in the PE meanwhile."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeVar

from kb_messages.errors import PlanError

_T = TypeVar("_T")


class LoopOrder(StrEnum):
    """The order of the tiles of a GEMM: one side of the grid is the outer loop, the other the inner loop.

    K is the innermost loop of all, because the accumulator of an output tile stays in registers over K.

    `weight_stationary` has the order of `nmk`, and reads a panel of B, `tile.n` columns by all of K, once for all rows
    of tiles. `input_stationary` has the order of `mnk`, and reads a panel of A, `tile.m` rows by all of K, once for all
    columns of tiles. The panel lies in the input buffers of TCM.
    """

    MNK = "mnk"
    NMK = "nmk"
    WEIGHT_STATIONARY = "weight_stationary"
    INPUT_STATIONARY = "input_stationary"

    @classmethod
    def parse(cls, text: str) -> LoopOrder:
        """The order that *text* names. Raises PlanError for any other text."""
        named = _BY_TEXT.get(text)
        if named is not None:
            return named
        fix = ""
        if sorted(text) == ["k", "m", "n"]:
            fix = "keep K innermost: the accumulator stays in registers over K, and partial sums have no other place"
        *others, last = cls
        raise PlanError("loop_order", repr(text[:60]), f"{', '.join(others)} or {last}", fix)

    @property
    def is_stationary(self) -> bool:
        """Whether a panel of an operand stays in the PE over the inner loop."""
        return self in (LoopOrder.WEIGHT_STATIONARY, LoopOrder.INPUT_STATIONARY)

    def outer_first(self, m: _T, n: _T) -> tuple[_T, _T]:
        """The values *m* and *n* of the two outer loops, the value of the outermost loop first."""
        return (m, n) if self is LoopOrder.MNK or self is LoopOrder.INPUT_STATIONARY else (n, m)


_BY_TEXT: Final = {str(each): each for each in LoopOrder}
