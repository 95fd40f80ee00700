"""Probes from every PE to every memory, in closed form: what each read would take on an otherwise idle chip."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from kb_engine.block.component import Context
from kb_engine.block.fabric_roles import Initiator, MemoryComponent
from kb_engine.engine.engine import Engine
from kb_engine.timing.clock import Clock
from kb_messages import MemorySpace, Rectangle
from kb_topology import Interior, Search, Topology

Picoseconds = npt.NDArray[np.int64]
NO_PATH = -1


class Matrix(Struct, frozen=True, kw_only=True):
    """`latency_ps[i, j]` is a read of `nbytes` by `sources[i]` of `memories[j]`, or NO_PATH."""

    nbytes: int
    sources: tuple[str, ...]
    memories: tuple[str, ...]
    latency_ps: Picoseconds

    @property
    def bandwidth_gbs(self) -> npt.NDArray[np.float64]:
        """Bytes over latency; NaN where there is no path."""
        with np.errstate(divide="ignore", invalid="ignore"):
            gbs = self.nbytes * 1000 / self.latency_ps.astype(np.float64)
        gbs[self.latency_ps == NO_PATH] = np.nan
        return gbs


def probe_all(
    topology: Topology,
    nbytes: int,
    spaces: tuple[MemorySpace, ...] = (MemorySpace.HBM, MemorySpace.SRAM),
    progress: Callable[[int, int], None] | None = None,
) -> Matrix:
    """Reads of *nbytes* from every DMA to every memory of *spaces*, each alone on the chip.

    *progress* gets (searches done, searches in all). Raises ValueError for bytes that a memory does not have.
    """
    engine = Engine(topology)
    blocks = engine.components
    sources = [node_id for node_id, block in blocks.items() if isinstance(block, Initiator)]
    regions = [
        region
        for region in topology.address_map.regions
        if region.space in spaces and isinstance(blocks[region.node_id], MemoryComponent)
    ]
    smallest = min((region.nbytes for region in regions), default=nbytes)
    if nbytes > smallest:
        raise ValueError(f"got {nbytes} bytes, needs at most the {smallest} of the smallest memory")
    memories = [region.node_id for region in regions]
    walk = _Walk(engine, nbytes)
    report = progress or (lambda done, total: None)
    total = len(sources) + len(memories)
    away = np.full((len(sources), len(memories)), NO_PATH, dtype=np.int64)
    back, slowest = away.T.copy(), away.T.copy()
    for row, src in enumerate(sources):
        away[row] = [latency for latency, _ in walk.from_node(src, memories)]
        report(row + 1, total)
    for row, memory in enumerate(memories):
        found = list(walk.from_node(memory, sources))
        back[row] = [latency for latency, _ in found]
        slowest[row] = [slow for _, slow in found]
        report(len(sources) + row + 1, total)
    for row, column in _own_tcms(topology, sources, memories):
        away[row, column] = back[column, row] = slowest[column, row] = 0
    served = [_served(blocks[region.node_id], region.base, nbytes) for region in regions]
    first = np.array([each[0] for each in served], dtype=np.int64)
    held = np.array([each[1] for each in served], dtype=np.int64)
    latency = away + first + np.maximum(held, slowest.T) + back.T
    latency[(away == NO_PATH) | (back.T == NO_PATH)] = NO_PATH
    return Matrix(nbytes=nbytes, sources=tuple(sources), memories=tuple(memories), latency_ps=latency)


def _own_tcms(topology: Topology, sources: list[str], memories: list[str]) -> Iterator[tuple[int, int]]:
    """Each DMA beside the TCM of its own PE, which it reaches without links."""
    nodes = topology.graph.nodes
    columns = {nodes[name].pe_id: column for column, name in enumerate(memories) if nodes[name].pe_id is not None}
    for row, name in enumerate(sources):
        if nodes[name].pe_id in columns:
            yield row, columns[nodes[name].pe_id]


class _Walk:
    """Latency and slowest link of the routes from one node, without keeping the routes."""

    def __init__(self, engine: Engine, nbytes: int) -> None:
        self._fabric = engine.fabric
        self._nbytes = nbytes
        self._interior = Interior(engine.topology.graph, lambda node: self._fabric.overhead_ps(node.id))

    def from_node(self, src: str, ends: list[str]) -> Iterator[tuple[int, int]]:
        """For each of *ends*: what a head pays, and what the bytes take on the slowest link; NO_PATH for none."""
        search = Search(self._interior, src)
        known = {src: (0, 0)}
        for end in ends:
            yield self._reach(search, end, known)

    def _reach(self, search: Search, node_id: str, known: dict[str, tuple[int, int]]) -> tuple[int, int]:
        found = known.get(node_id)
        if found is None:
            link = search.last_link(node_id)
            if link is None:
                return NO_PATH, NO_PATH
            latency, slowest = self._reach(search, link.src, known)
            taken = self._fabric.link(link.src, link.dst).rate.ps(self._nbytes)
            found = known[node_id] = (
                latency + link.latency_ps + self._fabric.overhead_ps(node_id),
                taken if taken > slowest else slowest,
            )
        return found


def _served(block: Any, base: int, nbytes: int) -> tuple[int, int]:
    """What an idle memory takes until the first byte of a read, and from there to the last."""
    idle = type(block)(block.spec, Context(block.node_id, Clock(), None, block.context.memory_nbytes))
    first, last = idle.reserve(0, Rectangle(base, 1, nbytes, nbytes), 0, False)
    return first, last - first
