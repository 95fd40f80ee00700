"""The registers of sums that stay in a PE's register file between the commands of one program."""

from __future__ import annotations

from kb_messages import join_address


class AccumulatorRegisters:
    """Hands out ranges of the register file *owner* of *nbytes* bytes, the highest free one first.

    What is below all ranges, `room_nbytes`, is left to the tiles of other commands.
    """

    ALIGNMENT = 64
    """A range begins at a multiple of so many bytes, as operands of tiles do."""

    def __init__(self, owner: int, nbytes: int) -> None:
        self.nbytes = nbytes
        self._owner = owner
        self._ranges: dict[int, int] = {}

    @property
    def ranges(self) -> dict[int, int]:
        """Where sums lie, and how many bytes each has."""
        return dict(self._ranges)

    @property
    def room_nbytes(self) -> int:
        """Bytes below all ranges."""
        return min(self._ranges, default=self.nbytes)

    def take(self, nbytes: int) -> int | None:
        """The physical address of *nbytes* registers that the caller has from now on; None where no range is free."""
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
        """Give back the range that `take` put at *address*."""
        del self._ranges[address - join_address(self._owner, 0)]

    def _below(self, end: int, nbytes: int) -> int:
        return (end - nbytes) // self.ALIGNMENT * self.ALIGNMENT
