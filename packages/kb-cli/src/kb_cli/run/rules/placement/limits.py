"""Lower bounds for the time of a kernel that is written again: what is left when waits, or places of bytes, change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kb_cli.run.rules.run_facts import RunFacts
from kb_dataexec.analysis import LaunchWhere, PeWhere
from kb_messages import KbError

WAITS: Final = frozenset({"busy with others", "shared", "waits for other PEs"})
"""The parts of a PE's own path in which it waits for others."""
_OUTSIDE: Final = frozenset({"launch", "answer"})
_FIXED_WORK: Final = frozenset({"latency", "request", "response", "setup", "lookup", "fill_drain"})
_FIXED_BLOCKS: Final = frozenset({"pe_cpu", "pe_scheduler"})


class Demand(NamedTuple):
    """Bytes that PE `pe` reads from and writes to the node `memory`."""

    pe: int
    memory: str
    read: float
    written: float


def alone_ps(pe: PeWhere) -> int:
    """The picoseconds of the own path of *pe* between the first start and the last end of kernels, without waits for
    others.
    """
    return sum(row.ps for row in pe.rows if row.via not in _OUTSIDE and row.what not in WAITS)


def fixed_ps(pe: PeWhere) -> int:
    """The part of `alone_ps` that depends on the number of commands and transfers, and not on their sizes."""
    rows = [row for row in pe.rows if row.via not in _OUTSIDE]
    return sum(row.ps for row in rows if row.what in _FIXED_WORK or row.block in _FIXED_BLOCKS)


def longest_alone_ps(launch: LaunchWhere) -> int:
    """The longest `alone_ps` of all PEs of *launch*."""
    return max(map(alone_ps, launch.pes), default=0)


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
    links = facts.usage.links.busy_ps
    return max([*links, *(busy for busy, _ in memory_costs(facts).values()), 0])


def transfers_ps(facts: RunFacts, demands: Iterable[Demand], ps_of_byte: Mapping[str, float]) -> float:
    """The least picoseconds in which the chip moves the bytes of *demands*, by its busiest link or memory.

    Each byte takes the links of its route at their bandwidths, with the headers of packets left out, and *ps_of_byte*
    at its memory. Infinite where a PE has no way to a memory.
    """
    fabric, dma_of = facts.host.engine.fabric, facts.sums.places.dma_of
    on_links: Counter[tuple[str, str]] = Counter()
    at_memory: dict[str, float] = {}
    slowest = 0.0
    gbs: dict[tuple[str, str], float] = {}
    for pe, memory, read, written in demands:
        at_memory[memory] = at_memory.get(memory, 0.0) + read + written
        for nbytes, ends in ((read, (memory, dma_of[pe])), (written, (dma_of[pe], memory))):
            if not nbytes:
                continue
            try:
                route = fabric.route(*ends)
            except KbError:
                return float("inf")
            for link in route.links:
                on_links[link.src, link.dst] += nbytes  # type: ignore[assignment]
                gbs[link.src, link.dst] = float(link.bw_gbs)
    for name, nbytes in at_memory.items():
        slowest = max(slowest, nbytes * ps_of_byte.get(name, 0.0))
    return max([slowest, *(1000.0 * nbytes / gbs[link] for link, nbytes in on_links.items())])
