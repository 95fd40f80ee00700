"""The registers of accumulators that stay in a PE's register file between the commands of one program."""

from __future__ import annotations

from kb_messages import join_address


class AccumulatorRegisters:
    """Hands out ranges of the register file *owner* of *nbytes* bytes, the highest free one first.

    The bytes below all ranges, `room_nbytes`, are free for the tiles of other commands.
    """

    ALIGNMENT = 64
    """Alignment of a range in bytes; operands of tiles have the same."""

    def __init__(self, owner: int, nbytes: int) -> None:
        self.nbytes = nbytes
        self._owner = owner
        self._ranges: dict[int, int] = {}

    @property
    def ranges(self) -> dict[int, int]:
        """The bytes of each range, by its offset in the register file."""
        return dict(self._ranges)

    @property
    def room_nbytes(self) -> int:
        """The bytes below all ranges."""
        return min(self._ranges, default=self.nbytes)

    def take(self, nbytes: int) -> int | None:
        """Allocates *nbytes* of registers and returns their physical address; None where no range is free."""
        end = self.nbytes
        for start, size in sorted(self._ranges.items(), reverse=True):
            at = self._below(end, nbytes)
            if at >= start + size:
                break
            end = start
        at = self._below(end, nbytes)
        if at < 0:
            return None
        self._ranges[at] = nbytes
        return join_address(self._owner, at)

    def give_back(self, address: int) -> None:
        """Frees the range that `take` allocated at *address*."""
        del self._ranges[address - join_address(self._owner, 0)]

    def _below(self, end: int, nbytes: int) -> int:
        return (end - nbytes) // self.ALIGNMENT * self.ALIGNMENT
