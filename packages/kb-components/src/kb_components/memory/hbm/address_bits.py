"""The mapping of address bits to the row, the bank, the column and the pseudo-channel of a burst."""

from __future__ import annotations

import re
from functools import lru_cache

from kb_messages import TopologyError

PATTERN = r"[0-9]+(R|PC|BG|B|C)(-[0-9]+(R|PC|BG|B|C))*"
"""The pattern of a mapping in the notation of PG313 of Xilinx, from the highest address bits to the lowest.

An example is `14R-1BG-2B-5C-1BG`.
"""


class AddressMapping:
    """The address bits above a burst: R row, PC pseudo-channel, BG bank group, B bank in its group, C column.

    A field may have several parts, the higher parts first, but R has one part. The bits below the row number
    `below_row` bursts, and these bits with the row number `below_top` bursts.
    """

    def __init__(self, text: str) -> None:
        parts = [(name, int(bits)) for bits, name in re.findall(r"([0-9]+)([A-Z]+)", text)]
        bits_of = {field: sum(bits for name, bits in parts if name == field) for field in ("R", "PC", "BG", "B", "C")}
        self.row_parts = sum(1 for name, _ in parts if name == "R")
        self.n_bursts = 1 << sum(bits_of.values())
        self.n_channels, self.n_rows = 1 << bits_of["PC"], 1 << bits_of["R"]
        self.banks_per_group = 1 << bits_of["B"]
        self.n_banks = self.banks_per_group << bits_of["BG"]
        above = [bits for _, bits in parts[[name for name, _ in parts].index("R") + 1 :]] if self.row_parts else []
        self.row_shift = sum(above)
        self.below_row = 1 << self.row_shift
        self.below_top = self.below_row * self.n_rows
        self._takes = _takes(parts)
        self._low = [self._split(index) for index in range(self.below_row)]
        self._high: dict[int, tuple[int, int]] = {}

    def place(self, burst: int) -> tuple[int, int, int]:
        """Pseudo-channel, bank and row of burst number *burst* of the memory.

        Banks are numbered through all groups: group * banks of a group + bank in the group.
        """
        channel, bank = self._low[burst & (self.below_row - 1)]
        top = burst // self.below_top
        if top:
            high = self._high.get(top) or self._high.setdefault(top, self._split(top * self.below_top))
            channel, bank = channel | high[0], bank | high[1]
        return channel, bank, burst >> self.row_shift & (self.n_rows - 1)

    def check(self, where: str, burst_nbytes: int, memory_nbytes: int) -> None:
        """Raises TopologyError unless the mapping has one row field and covers the memory exactly."""
        if self.row_parts != 1:
            raise TopologyError(
                f"{where}.mapping", f"{self.row_parts} row fields", "one", "write all row bits as one R"
            )
        nbytes = self.n_bursts * burst_nbytes
        if nbytes != memory_nbytes:
            got = f"{self.n_bursts} bursts of {burst_nbytes} bytes, {nbytes} bytes in all"
            raise TopologyError(f"{where}.mapping", got, f"the memory's {memory_nbytes}", "add or remove row bits")

    def _split(self, burst: int) -> tuple[int, int]:
        found = {"PC": 0, "BG": 0, "B": 0}
        for name, shift, mask, place in self._takes:
            if name in found:
                found[name] |= (burst >> shift & mask) << place
        return found["PC"], found["BG"] * self.banks_per_group + found["B"]


@lru_cache(maxsize=64)
def address_mapping(text: str) -> AddressMapping:
    """The mapping that *text* describes. It is made once, so all memories of a kind share it."""
    return AddressMapping(text)


def _takes(parts: list[tuple[str, int]]) -> list[tuple[str, int, int, int]]:
    """Returns (field, bits below it in the address, mask, bits below it in the field) of each part, the lowest
    first."""
    takes, shift, filled = [], 0, dict.fromkeys((name for name, _ in parts), 0)
    for name, bits in reversed(parts):
        takes.append((name, shift, (1 << bits) - 1, filled[name]))
        shift += bits
        filled[name] += bits
    return takes
