"""Buffer slots: how a region of TCM or of the register file is handed to tiles in turn.

A command cuts a region into slots of its tile's size and its tiles take them round robin. Two commands with different
tile sizes cut the region differently; a slot is then free when none of its bytes are live under the other cut.
"""

from __future__ import annotations

from msgspec import Struct


class Slots(Struct, frozen=True):
    """`count` slots of `nbytes` from `base` on; piece number i of a command takes slot `(first + i) % count`."""

    base: int
    nbytes: int
    count: int
    first: int = 0

    def offset(self, number: int) -> int:
        """Where piece *number* lies."""
        return self.base + (self.first + number) % self.count * self.nbytes


class Ring:
    """Cuts a stretch of bytes into slots for command after command; equal cuts go on where the last one stopped."""

    __slots__ = ("_last", "_pieces")

    def __init__(self) -> None:
        self._last: Slots | None = None
        self._pieces = 0

    def cut(self, base: int, nbytes: int, count: int, pieces: int) -> Slots:
        """The slots for a command that will take *pieces* of them in turn."""
        slots = Slots(base, nbytes, count)
        last = self._last
        if last is not None and (last.base, last.nbytes, last.count) == (base, nbytes, count):
            slots = Slots(base, nbytes, count, (last.first + self._pieces) % count)
        self._last, self._pieces = slots, pieces
        return slots


class Region:
    """Bytes that tiles claim and free; no two live claims overlap, by construction."""

    __slots__ = ("_cut", "_foreign", "_live", "base", "nbytes")

    def __init__(self, base: int, nbytes: int) -> None:
        self.base = base
        self.nbytes = nbytes
        self._live: dict[int, tuple[int, object]] = {}
        self._cut: object = None
        self._foreign = 0

    @property
    def live_nbytes(self) -> int:
        """Bytes claimed now."""
        return sum(end - start for start, (end, _) in self._live.items())

    def claim(self, cut: object, offset: int, nbytes: int) -> bool:
        """Take the bytes from *offset* on if none of them is live. *cut* names the way the region is divided:
        claims of one cut are known to be equal or disjoint."""
        if cut != self._cut:
            self._cut = cut
            self._foreign = sum(1 for _, other in self._live.values() if other != cut)
        if offset in self._live or (self._foreign and self._overlaps(offset, offset + nbytes)):
            return False
        self._live[offset] = (offset + nbytes, cut)
        return True

    def is_free(self, offset: int, nbytes: int) -> bool:
        """Whether none of the bytes from *offset* on is live."""
        return not self._overlaps(offset, offset + nbytes)

    def free(self, offset: int) -> None:
        """Give the claim at *offset* back."""
        _, cut = self._live.pop(offset)
        if cut != self._cut:
            self._foreign -= 1

    def _overlaps(self, start: int, end: int) -> bool:
        return any(start < other_end and other < end for other, (other_end, _) in self._live.items())
