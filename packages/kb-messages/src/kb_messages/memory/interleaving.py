"""Interleaving: bytes that lie in granules over several memories, in turn, and the part of a rectangle in each memory.

Of the first x bytes, memory s of n has whole rounds of n granules, and its share of the round that is not whole. So a
run of bytes is one run in each memory, however many granules the run has.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd
from typing import NamedTuple

from msgspec import Struct


class SlicePart(NamedTuple):
    """Bytes in memory number `number`: `rows` runs of `row_nbytes`, `stride` bytes apart, from its byte `offset` on."""

    number: int
    offset: int
    rows: int
    row_nbytes: int
    stride: int


class Interleaving(Struct, frozen=True, kw_only=True):
    """Granules of `granule_nbytes` go to `count` memories in turn: granule q to memory q % count."""

    granule_nbytes: int
    count: int

    @property
    def round_nbytes(self) -> int:
        """Bytes of one granule in each memory."""
        return self.granule_nbytes * self.count

    def held(self, number: int, end: int) -> int:
        """The number of bytes that memory *number* has of the first *end* bytes."""
        rounds, rest = divmod(end, self.round_nbytes)
        mine = rest - number * self.granule_nbytes
        return rounds * self.granule_nbytes + min(max(mine, 0), self.granule_nbytes)

    def parts(self, offset: int, rows: int, row_nbytes: int, stride: int) -> list[SlicePart]:
        """The part of a rectangle, from byte *offset* on, in each memory that has bytes of it, in the memories' order.

        A part is exact where the rectangle has no gaps, or where its rows are whole rounds apart. The rows of any other
        rectangle begin at different places of a round. The part of such a rectangle is one run of as many bytes, from
        the lowest byte on.
        """
        if rows == 1 or stride == row_nbytes:
            rows, row_nbytes, stride = 1, rows * row_nbytes, rows * row_nbytes
        rounds, within = divmod(offset, self.round_nbytes)
        base = rounds * self.granule_nbytes
        found = _parts(self.granule_nbytes, self.count, within, rows, row_nbytes, stride)
        if not base:
            return list(found)
        return [SlicePart(number, base + start, n, width, apart) for number, start, n, width, apart in found]


@lru_cache(maxsize=4096)
def _parts(granule_nbytes: int, count: int, offset: int, rows: int, row_nbytes: int, stride: int) -> list[SlicePart]:
    spread = Interleaving(granule_nbytes=granule_nbytes, count=count)
    is_regular = rows == 1 or stride % spread.round_nbytes == 0
    found = []
    for number in range(count):
        begin = spread.held(number, offset)
        nbytes = spread.held(number, offset + row_nbytes) - begin
        if is_regular and nbytes:
            found.append(SlicePart(number, begin, rows, nbytes, stride // count if rows > 1 else nbytes))
        elif not is_regular and (part := _run(spread, number, offset, rows, row_nbytes, stride)):
            found.append(part)
    return found


def _run(spread: Interleaving, number: int, offset: int, rows: int, row_nbytes: int, stride: int) -> SlicePart | None:
    """All bytes in memory *number* as one run, from the lowest byte on.

    None where the memory has no bytes of the rectangle.
    """
    period = spread.round_nbytes // gcd(stride, spread.round_nbytes)
    lowest, nbytes = None, 0
    for row in range(min(rows, period)):
        begin = spread.held(number, offset + row * stride)
        each = spread.held(number, offset + row * stride + row_nbytes) - begin
        if each:
            lowest = begin if lowest is None else lowest
            nbytes += each * -(-(rows - row) // period)
    return None if lowest is None else SlicePart(number, lowest, 1, nbytes, nbytes)
