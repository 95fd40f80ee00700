"""PathTime: the critical path of a run by kernel line and block, and the time that the rest of the chip needs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from kb_cli.run.records.where_time import kernel_rows
from kb_cli.run.rules.run_facts import RunFacts
from kb_dataexec.analysis import WhereRow

MEMORY_WORK: Final = frozenset({"busy with others", "service", "latency", "bytes"})
"""The work of a memory on a path."""
FIXED_WORK: Final = frozenset({"setup", "request", "latency", "response"})
"""The work in a transfer that does not depend on its bytes."""
LINK_WORK: Final = frozenset({"bytes", "shared"})
"""The work of links in a transfer."""
_COMPUTE: Final = frozenset({"pe_gemm", "pe_math", "pe_fetch_store"})
_DMAS: Final = ("pe_dma", "pe_dma_read", "pe_dma_write")


class PathTime:
    """The launches of the run *facts*, from the first kernel's start to the last kernel's end of each.

    `span_ps` is the latency of the run.
    """

    def __init__(self, facts: RunFacts) -> None:
        self._facts = facts
        self.span_ps = facts.metrics.span_ps

    def rows(self) -> Iterator[WhereRow]:
        """Returns the rows of the critical paths of all launches that belong to the latency."""
        return kernel_rows(self._facts.where)

    def by_line(self, is_wanted: Callable[[WhereRow], bool]) -> dict[str, int]:
        """The picoseconds by kernel line of the rows for which *is_wanted* is true; 0 for all other lines."""
        found: dict[str, int] = defaultdict(int)
        for row in self.rows():
            if is_wanted(row):
                found[row.line] += row.ps
        return found

    @property
    def opaque(self) -> float:
        """The share of the work of memories on the path of which the log does not say the parts (0 to 1)."""
        found = self._by_work(MEMORY_WORK)
        return found["service"] / (sum(found.values()) or 1)

    @property
    def fixed(self) -> float:
        """The share of transfers on the path that does not depend on their bytes (0 to 1)."""
        found = self._by_work(MEMORY_WORK | FIXED_WORK | LINK_WORK)
        return sum(found[work] for work in FIXED_WORK) / (sum(found.values()) or 1)

    def _by_work(self, works: frozenset[str]) -> Counter[str]:
        """The picoseconds of transfers by work, for *works*."""
        found: Counter[str] = Counter()
        for row in self.rows():
            if row.what in works and row.block not in _COMPUTE:
                found[row.what] += row.ps
        return found

    def busiest_ps(self, leave_out: Iterable[str] = (), with_links: bool = True) -> int:
        """The picoseconds of service of the busiest block or link, except blocks of the kinds *leave_out*.

        No change of the other blocks makes the run shorter than this. A DMA does not count, because it is in service
        while it waits for a memory, and the memory and the links count themselves.
        """
        left = {*_DMAS, *leave_out}
        table = self._facts.usage
        busy = [max((ps or 0 for ps in each.busy_ps), default=0) for each in table.blocks if each.kind not in left]
        return max([*busy, *(table.links.busy_ps if with_links else ())], default=0)

    def gain(self, saved_ps: float, least_ps: float = 0) -> float:
        """The share of the latency that is saved where *saved_ps* go, but the run takes at least *least_ps*."""
        if not self.span_ps:
            return 0.0
        return float(max(0.0, min(saved_ps, self.span_ps - least_ps)) / self.span_ps)
