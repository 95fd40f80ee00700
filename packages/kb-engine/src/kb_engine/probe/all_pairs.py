"""The latency of reads from every PE to every memory in closed form, each read alone on the chip."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from kb_engine.block.fabric_roles import Initiator, MemoryComponent
from kb_engine.engine.engine import Engine
from kb_engine.probe.closed_form import idle_read_ps
from kb_messages import MemorySpace
from kb_topology import Interior, MemoryRegion, Search, Topology

Picoseconds = npt.NDArray[np.int64]
NO_PATH = -1


class ProbeMatrix(Struct, frozen=True, kw_only=True):
    """`latency_ps[i, j]`: picoseconds of a read of `nbytes` by `sources[i]` from `memories[j]`; NO_PATH without path.

    `sources` and `memories` are node ids.
    """

    nbytes: int
    sources: tuple[str, ...]
    memories: tuple[str, ...]
    latency_ps: Picoseconds

    @property
    def bandwidth_gbs(self) -> npt.NDArray[np.float64]:
        """Bytes over latency, in GB/s; NaN where there is no path."""
        with np.errstate(divide="ignore", invalid="ignore"):
            gbs = self.nbytes * 1000 / self.latency_ps.astype(np.float64)
        gbs[self.latency_ps == NO_PATH] = np.nan
        return gbs


def probe_all(
    topology: Topology,
    nbytes: int,
    spaces: tuple[MemorySpace, ...] = (MemorySpace.HBM, MemorySpace.SRAM),
    progress: Callable[[int, int], None] | None = None,
) -> ProbeMatrix:
    """The latencies of reads of *nbytes* by every DMA from every memory of *spaces*, each read alone on the chip.

    *progress* is called with the number of finished searches and the number of all searches. Raises ValueError for more
    bytes than the smallest memory has.
    """
    engine = Engine(topology)
    blocks = engine.components
    sources = [node_id for node_id, block in blocks.items() if isinstance(block, Initiator)]
    regions = _regions(engine, nbytes, spaces)
    memories = [region.node_id for region in regions]
    away, back, slowest = _all_ways(engine, nbytes, sources, memories, progress or (lambda done, total: None))
    served = [idle_read_ps(blocks[region.node_id], region.base, nbytes) for region in regions]
    first = np.array([each[0] for each in served], dtype=np.int64)
    held = np.array([each[1] for each in served], dtype=np.int64)
    latency = away + first + np.maximum(held, slowest) + back
    latency[(away == NO_PATH) | (back == NO_PATH)] = NO_PATH
    return ProbeMatrix(nbytes=nbytes, sources=tuple(sources), memories=tuple(memories), latency_ps=latency)


def _regions(engine: Engine, nbytes: int, spaces: tuple[MemorySpace, ...]) -> list[MemoryRegion]:
    regions = [
        region
        for region in engine.topology.address_map.regions
        if region.space in spaces and isinstance(engine.components[region.node_id], MemoryComponent)
    ]
    smallest = min((region.nbytes for region in regions), default=nbytes)
    if nbytes > smallest:
        raise ValueError(f"got {nbytes} bytes, needs at most the {smallest} of the smallest memory")
    return regions


def _all_ways(
    engine: Engine, nbytes: int, sources: list[str], memories: list[str], progress: Callable[[int, int], None]
) -> tuple[Picoseconds, Picoseconds, Picoseconds]:
    """For each source (row) and memory (column): latency away, latency back, and time on the slowest link back."""
    walk = _Walk(engine, nbytes)
    total = len(sources) + len(memories)
    away = np.full((len(sources), len(memories)), NO_PATH, dtype=np.int64)
    back, slowest = away.copy(), away.copy()
    for row, src in enumerate(sources):
        away[row] = [latency for latency, _ in walk.from_node(src, memories)]
        progress(row + 1, total)
    for column, memory in enumerate(memories):
        found = list(walk.from_node(memory, sources))
        back[:, column] = [latency for latency, _ in found]
        slowest[:, column] = [slow for _, slow in found]
        progress(len(sources) + column + 1, total)
    for row, column in _own_tcms(engine.topology, sources, memories):
        away[row, column] = back[row, column] = slowest[row, column] = 0
    return away, back, slowest


def _own_tcms(topology: Topology, sources: list[str], memories: list[str]) -> Iterator[tuple[int, int]]:
    """The row of each DMA and the column of the TCM of its PE, which the DMA reaches without links."""
    nodes = topology.graph.nodes
    columns = {nodes[name].pe_id: column for column, name in enumerate(memories) if nodes[name].pe_id is not None}
    for row, name in enumerate(sources):
        if nodes[name].pe_id in columns:
            yield row, columns[nodes[name].pe_id]


class _Walk:
    """Latency and slowest link of the routes from a node. The routes themselves are not kept, to save memory."""

    def __init__(self, engine: Engine, nbytes: int) -> None:
        self._fabric = engine.fabric
        self._nbytes = nbytes
        self._interior = Interior(engine.topology.graph, lambda node: self._fabric.overhead_ps(node.id))

    def from_node(self, src: str, ends: list[str]) -> Iterator[tuple[int, int]]:
        """For each of *ends*: the latency of the head, and the time of the bytes on the slowest link.

        Both are picoseconds, and NO_PATH where no links lead to the end.
        """
        search = Search(self._interior, src)
        known = {src: (0, 0)}
        for end in ends:
            latency, slowest = self._reach(search, end, known)
            if latency != NO_PATH:
                slowest = max(slowest, *(self._fabric.port_ps(node_id, self._nbytes) for node_id in (src, end)))
            yield latency, slowest

    def _reach(self, search: Search, node_id: str, known: dict[str, tuple[int, int]]) -> tuple[int, int]:
        found = known.get(node_id)
        if found is None:
            link = search.last_link(node_id)
            if link is None:
                return NO_PATH, NO_PATH
            latency, slowest = self._reach(search, link.src, known)
            taken = self._fabric.link(link.src, link.dst).rate.ps(self._fabric.on_links(self._nbytes))
            found = known[node_id] = (
                latency + link.latency_ps + self._fabric.overhead_ps(node_id),
                taken if taken > slowest else slowest,
            )
        return found
