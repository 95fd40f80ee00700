"""Sizes of a kernel's blocks that fit a chip: the largest ones for which values fit TCM, and sums the register file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

Need = Callable[..., int]
"""Returns bytes for sizes of blocks, which it takes by name."""


class Limit(NamedTuple):
    """The bytes that a kernel may take of a memory, and the bytes that it needs there."""

    nbytes: int
    need: Need

    def excess(self, sizes: Mapping[str, int]) -> int:
        """The bytes that blocks of *sizes* need beyond the limit; 0 where they fit."""
        return max(0, self.need(**sizes) - self.nbytes)


def fitted_sizes(limits: list[Limit], given: Mapping[str, int | None], most: Mapping[str, int]) -> dict[str, int]:
    """Sizes by name: those of *given*, and for each None the size of *most*, halved until all of *limits* hold.

    The largest size is halved whose half needs less of a memory that is too small; of equal sizes the last. Where no
    half needs less, or all sizes are 1, the sizes are as small as helps, and still beyond a limit.
    """
    sizes = {name: most[name] if size is None else size for name, size in given.items()}
    free = [name for name, size in given.items() if size is None]
    for limit in limits:
        while (excess := limit.excess(sizes)) > 0:
            largest_first = sorted(free, key=lambda name: (-sizes[name], -free.index(name)))
            halves = ({**sizes, name: sizes[name] // 2} for name in largest_first if sizes[name] > 1)
            found = next((half for half in halves if limit.excess(half) < excess), None)
            if found is None:
                break
            sizes = found
    return sizes
