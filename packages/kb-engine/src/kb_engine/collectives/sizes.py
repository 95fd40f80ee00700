"""Sizes: the elements of a collective, and the most of them that a message has."""

from __future__ import annotations

from typing import Final, NamedTuple

from kb_engine.sync.channel import SLOT_NBYTES
from kb_messages import DType

_SIZES_OF_A_CHANNEL: Final = 4
"""The most sizes of messages between two ranks: rounded values and sums, of whole parts and of last parts."""


class Sizes(NamedTuple):
    """`n` elements of `dtype`. `op` combines them, or is "" where nothing is combined."""

    n: int
    dtype: DType
    op: str = ""

    @property
    def wide(self) -> DType:
        """The dtype in which elements are combined: sums of floats in f32, and sums of short integers in i32."""
        if self.op not in ("sum", "mean") or self.dtype.nbytes >= self.dtype.accumulator.nbytes:
            return self.dtype
        return self.dtype.accumulator


def most_elements(sizes: Sizes, n_sources: int, depth: int, slot_nbytes: int) -> int:
    """The most elements of a message, so that the slots for *n_sources* senders fit *slot_nbytes* bytes of TCM.

    A slot has at least 64 bytes, so it may take more than *slot_nbytes* in all.
    """
    each = slot_nbytes // (n_sources * depth * _SIZES_OF_A_CHANNEL) // SLOT_NBYTES * SLOT_NBYTES
    return max(each, SLOT_NBYTES) // sizes.wide.nbytes
