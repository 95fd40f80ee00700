"""Lower bounds for the time of a kernel that is written again: what is left when waits, or places of bytes, change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kb_cli.run.records.where_time import OUTSIDE
from kb_messages import KbError, MemorySpace

if TYPE_CHECKING:
    from kb_cli.run.rules.run_facts import RunFacts
    from kb_dataexec.analysis import LaunchWhere, PeWhere, WhereRow

BUSY: Final = frozenset({"busy with others", "shared"})
"""The parts of a PE's own path in which it waits for memories and links."""
WAITS: Final = BUSY | {"waits for other PEs"}
"""The parts of a PE's own path in which it waits for others."""
_FIXED_WORK: Final = frozenset({"latency", "request", "response", "setup", "lookup", "fill_drain"})
_FIXED_BLOCKS: Final = frozenset({"pe_cpu", "pe_scheduler"})
_MOST_ROUTES: Final = 1 << 14
"""The most routes that are followed for one bound. Source: assumed; 0.2 s."""


class Demand(NamedTuple):
    """Bytes that PE number `pe` reads from and writes to the node `memory`."""

    pe: int
    memory: str
    read: float
    written: float


class Moved(NamedTuple):
    """Bytes of a run by their use: read of tensors once, read of tensors more than once, and written."""

    once: float
    shared: float
    written: float

    @classmethod
    def of(cls, facts: RunFacts) -> Moved:
        """Returns the bytes of the run as it was."""
        reads = facts.sums.reads
        shared = sum(nbytes for nbytes, is_shared in reads if is_shared)
        return cls(sum(nbytes for nbytes, _ in reads) - shared, shared, facts.sums.written)

    @property
    def whole(self) -> float:
        """All bytes."""
        return self.once + self.shared + self.written


def own_rows(pe: PeWhere) -> Iterator[WhereRow]:
    """Yields the rows of the own path of *pe* between the first start and the last end of kernels, without waits for
    others.
    """
    return (row for row in pe.rows if row.via not in OUTSIDE and row.what not in WAITS)


def is_fixed(row: WhereRow) -> bool:
    """Whether the time of *row* depends on the number of commands and transfers, and not on their sizes."""
    return row.what in _FIXED_WORK or row.block in _FIXED_BLOCKS


def waits_ps(pe: PeWhere) -> int:
    """The picoseconds of the own path of *pe* in which it waits for memories and links that are busy with others."""
    return sum(row.ps for row in pe.rows if row.what in BUSY and row.via not in OUTSIDE)


def fixed_ps(pe: PeWhere) -> int:
    """The picoseconds of the own path of *pe* that do not depend on the sizes of its commands."""
    return sum(row.ps for row in own_rows(pe) if is_fixed(row))


def longest_alone_ps(launch: LaunchWhere) -> int:
    """The picoseconds of the longest own path of a PE of *launch*, without waits for others."""
    return max((sum(row.ps for row in own_rows(pe)) for pe in launch.pes), default=0)


def memory_costs(facts: RunFacts) -> dict[str, tuple[int, int]]:
    """The picoseconds in service and the bytes of each memory behind the fabric, of the launches of the run."""
    nodes = facts.host.engine.topology.graph.nodes.values()
    busy: dict[str, int] = {}
    for block in facts.usage.blocks:
        names = [node.id for node in nodes if node.kind.value == block.kind]
        busy |= {name: ps for name, ps in zip(names, block.busy_ps, strict=True) if ps is not None}
    found = {}
    for column in facts.usage.memories:
        names = [node.id for node in nodes if node.memory is not None and node.memory.space.value == column.space]
        for name, read, written in zip(names, column.read_nbytes, column.written_nbytes, strict=True):
            if read is not None and written is not None and name in busy:
                found[name] = busy[name], read + written
    return found


def busiest_ps(facts: RunFacts) -> int:
    """The picoseconds in service of the busiest link, or memory behind the fabric."""
    return max([*facts.usage.links.busy_ps, *(busy for busy, _ in memory_costs(facts).values()), 0])


def busiest_block_ps(facts: RunFacts) -> int:
    """The picoseconds in service of the busiest block of a PE but its DMA."""
    return max((int(work.sum(axis=0).max()) for work in facts.sums.work_ps.values()), default=0)


def ps_of_hbm_byte(facts: RunFacts) -> float:
    """The picoseconds for which a byte held its HBM slice, on average; 0 without bytes."""
    places = facts.sums.places
    costs = [cost for name, cost in memory_costs(facts).items() if places.space_of[name] is MemorySpace.HBM]
    return sum(busy for busy, _ in costs) / max(sum(nbytes for _, nbytes in costs), 1)


def sharded(facts: RunFacts, pes: Sequence[int], slices: Sequence[str], moved: Moved) -> list[Demand]:
    """The bytes *moved* of the run if *pes* had equal shares of them, with the operands spread over *slices*.

    Bytes that are moved once lie in the slice near their PE, and shared ones over all *slices*.
    """
    n_pes = len(pes)
    own = [Demand(pe, facts.sums.places.near[pe], moved.once / n_pes, moved.written / n_pes) for pe in pes]
    each = moved.shared / n_pes / len(slices)
    return [*own, *(Demand(pe, memory, each, 0.0) for pe in pes for memory in slices if each)]


def transfers_ps(facts: RunFacts, demands: Sequence[Demand], ps_of_byte: float) -> float:
    """The least picoseconds in which the chip moves the bytes of *demands*, by its busiest link or memory.

    Each byte takes the links of its route at their bandwidths, without the headers of packets, and *ps_of_byte* at its
    memory. Infinite where a PE has no way to a memory, and for more demands than can be followed.
    """
    if len(demands) > _MOST_ROUTES:
        return float("inf")
    at_memory: dict[str, float] = {}
    on_links: dict[tuple[str, str], float] = {}
    gbs: dict[tuple[str, str], float] = {}
    fabric, dma_of = facts.host.engine.fabric, facts.sums.places.dma_of
    for pe, memory, read, written in demands:
        at_memory[memory] = at_memory.get(memory, 0.0) + read + written
        for nbytes, src, dst in ((read, memory, dma_of[pe]), (written, dma_of[pe], memory)):
            try:
                links = fabric.route(src, dst).links if nbytes else ()
            except KbError:
                return float("inf")
            for link in links:
                ends = link.src, link.dst
                on_links[ends] = on_links.get(ends, 0.0) + nbytes
                gbs[ends] = float(link.bw_gbs)
    at_links = (1000.0 * nbytes / gbs[ends] for ends, nbytes in on_links.items())
    return max([0.0, *(ps_of_byte * nbytes for nbytes in at_memory.values()), *at_links])
