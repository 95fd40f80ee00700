"""Rectangles of bytes, and relations between two rectangles: overlap, cover and difference.

A rectangle holds at least one byte. Its addresses are physical or virtual addresses, or offsets within a buffer. The
operations compare numbers, so both rectangles have to use the same kind of address.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from math import gcd

from msgspec import Struct

from kb_messages.memory.address import OFFSET_BITS, join_address, split_address


class Rectangle(Struct, frozen=True, gc=False):
    """`rows` runs of `row_nbytes` bytes, the first at address `base`, and each `stride` bytes after the run before.

    Rows may touch or overlap each other. With one row, `stride` means nothing.
    """

    base: int
    rows: int
    row_nbytes: int
    stride: int

    @classmethod
    def of_memory(cls, owner: int, offset: int, rows: int, row_nbytes: int, stride: int) -> Rectangle:
        """The rectangle at *offset* of memory *owner*: the five numbers that op logs and memory stores use."""
        return cls(join_address(owner, offset), rows, row_nbytes, stride)

    @property
    def in_memory(self) -> tuple[int, int, int, int, int]:
        """Returns (owner, offset, rows, row_nbytes, stride), the arguments of `of_memory`."""
        return *split_address(self.base), self.rows, self.row_nbytes, self.stride

    @property
    def owner(self) -> int:
        """The owner number of the memory that holds the rectangle."""
        return self.base >> OFFSET_BITS

    @property
    def end(self) -> int:
        """The address after the last byte."""
        return self.base + (self.rows - 1) * self.stride + self.row_nbytes

    @property
    def nbytes(self) -> int:
        """Bytes in all rows, without the gaps between rows."""
        return self.rows * self.row_nbytes


def cut(rectangle: Rectangle, start: int, end: int) -> list[Rectangle]:
    """The bytes number *start* to *end* of *rectangle*, counted row by row, as at most three rectangles in order.

    0 <= start <= end <= rectangle.nbytes. The list has no rectangle of zero bytes.
    """
    width, stride = rectangle.row_nbytes, rectangle.stride
    parts = []
    while start < end:
        row, within = divmod(start, width)
        rows = (end - start) // width if not within else 0
        taken = rows * width if rows else min(width - within, end - start)
        parts.append(Rectangle(rectangle.base + row * stride + within, max(rows, 1), width if rows else taken, stride))
        start += taken
    return parts


class CountedPieces(Rectangle, frozen=True, gc=False):
    """Several rectangles of one memory that a DMA moves together, each of their runs in whole bursts.

    A memory that only counts bytes sees one rectangle, with the sum of the bytes and at the address of the first piece.
    `ends[i]` is the number of bytes counted up to the end of piece i. The pieces are the rectangles *counted*, moved by
    *moved_nbytes*.
    """

    counted: tuple[Rectangle, ...]
    ends: tuple[int, ...]
    moved_nbytes: int = 0

    @classmethod
    def of(cls, pieces: tuple[Rectangle, ...], burst_nbytes: int) -> CountedPieces:
        """*pieces*, counted in bursts of *burst_nbytes*."""
        ends = tuple(accumulate(counted_nbytes(piece, burst_nbytes) for piece in pieces))
        return cls(pieces[0].base, 1, ends[-1], ends[-1], pieces, ends)

    @property
    def pieces(self) -> tuple[Rectangle, ...]:
        """The rectangles, in their order."""
        by = self.moved_nbytes
        if not by:
            return self.counted
        return tuple([Rectangle(each.base + by, each.rows, each.row_nbytes, each.stride) for each in self.counted])

    def moved(self, nbytes: int) -> CountedPieces:
        """The same pieces, *nbytes* further. *nbytes* is a multiple of the burst."""
        by = self.moved_nbytes + nbytes
        return CountedPieces(self.base + nbytes, 1, self.row_nbytes, self.stride, self.counted, self.ends, by)

    def whole(self, nbytes: int) -> int:
        """The bytes of all pieces that lie completely in the first *nbytes*."""
        n_whole = bisect_right(self.ends, nbytes)
        return self.ends[n_whole - 1] if n_whole else 0

    def between(self, start: int, end: int) -> CountedPieces:
        """The pieces from byte *start* to byte *end*.

        Each of the two is 0 or the end of a piece, and the two differ.
        """
        first, last = bisect_right(self.ends, start), bisect_right(self.ends, end)
        ends, by = tuple(each - start for each in self.ends[first:last]), self.moved_nbytes
        counted = self.counted[first:last]
        return CountedPieces(counted[0].base + by, 1, ends[-1], ends[-1], counted, ends, by)


def counted_nbytes(rectangle: Rectangle, burst_nbytes: int) -> int:
    """The bytes of *rectangle* when each of its runs is moved in whole bursts.

    Bursts begin at multiples of their size.
    """
    base, width, stride = rectangle.base, rectangle.row_nbytes, rectangle.stride
    # Rows that are a period apart begin at the same place of a burst, so one of each kind is counted.
    period = burst_nbytes // gcd(stride, burst_nbytes)
    bursts = 0
    for row in range(min(period, rectangle.rows)):
        at = (base + row * stride) % burst_nbytes
        bursts += -(-(at + width) // burst_nbytes) * (1 + (rectangle.rows - 1 - row) // period)
    return bursts * burst_nbytes


def overlaps(first: Rectangle, second: Rectangle) -> bool:
    """Whether two rectangles share a byte.

    Row i of *first* meets row j of *second* when i - j = t and -second.row_nbytes < distance - t * stride <
    first.row_nbytes, where distance is between the bases. So rectangles of one stride are compared without a loop.
    """
    if first.base >= second.end or second.base >= first.end:
        return False
    if first.rows == 1 and second.rows == 1:
        return True
    stride = first.stride if first.rows > 1 else second.stride
    if not stride or (second.rows > 1 and second.stride != stride):
        return common_byte(first, second) is not None
    distance = second.base - first.base
    least = max((distance - first.row_nbytes) // stride + 1, 1 - second.rows)
    most = min((distance + second.row_nbytes - 1) // stride, first.rows - 1)
    return least <= most


def common_byte(first: Rectangle, second: Rectangle) -> int | None:
    """The lowest address that both rectangles hold, or None where they do not overlap.

    The time grows with the number of rows of the rectangle that has fewer rows.
    """
    if first.base >= second.end or second.base >= first.end:
        return None
    few, many = (first, second) if first.rows <= second.rows else (second, first)
    for row in range(few.rows):
        start = few.base + row * few.stride
        found = _common_with_run(start, start + few.row_nbytes, many)
        if found is not None:
            return found
    return None


def _common_with_run(start: int, end: int, rectangle: Rectangle) -> int | None:
    """The lowest address of *rectangle* in [start, end): in the first row that ends after *start*, or nowhere."""
    row = 0
    if rectangle.rows > 1 and rectangle.stride:
        row = max(0, (start - rectangle.base - rectangle.row_nbytes) // rectangle.stride + 1)
    begin = rectangle.base + row * rectangle.stride
    meets = row < rectangle.rows and begin < end and start < begin + rectangle.row_nbytes
    return max(begin, start) if meets else None


def covers(outer: Rectangle, inner: Rectangle) -> bool:
    """Whether *outer* has no gaps and holds every byte from the first to the last byte of *inner*."""
    gapless = outer.rows == 1 or outer.stride <= outer.row_nbytes
    return gapless and outer.base <= inner.base and inner.end <= outer.end


def without(rectangle: Rectangle, hole: Rectangle) -> list[Rectangle]:
    """The bytes of *rectangle* that *hole* does not hold, as rectangles that share no byte.

    Where the rows of the two do not line up, the result is *rectangle* as a whole, which may then hold bytes of *hole*.
    """
    if not overlaps(rectangle, hole):
        return [rectangle]
    if covers(hole, rectangle):
        return []
    stride = _common_stride(rectangle, hole)
    if rectangle.row_nbytes > stride or (hole.rows > 1 and hole.stride != stride):
        return [rectangle]
    row, left = divmod(hole.base - rectangle.base, stride)
    if left >= rectangle.row_nbytes:
        # The hole begins in the gap behind a row: seen from the next row, it begins before byte 0.
        row, left = row + 1, left - stride
    right = left + hole.row_nbytes
    if right > stride:
        return [rectangle]
    top, bottom = max(row, 0), min(row + hole.rows, rectangle.rows)
    left, right = max(left, 0), min(right, rectangle.row_nbytes)
    # Rows above the hole, the bytes left and right of it, and rows below it.
    parts = (
        (0, top, 0, rectangle.row_nbytes),
        (top, bottom, 0, left),
        (top, bottom, right, rectangle.row_nbytes),
        (bottom, rectangle.rows, 0, rectangle.row_nbytes),
    )
    return [
        Rectangle(rectangle.base + first * stride + start, last - first, end - start, stride)
        for first, last, start, end in parts
        if last > first and end > start
    ]


def _common_stride(rectangle: Rectangle, hole: Rectangle) -> int:
    """The distance between rows that suits both rectangles, if one exists. A single row suits any distance."""
    if rectangle.rows > 1:
        return rectangle.stride
    return hole.stride if hole.rows > 1 else 2 * (rectangle.row_nbytes + hole.row_nbytes)
