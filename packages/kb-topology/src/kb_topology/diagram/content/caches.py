"""Caches in front of memories, which a chip states as attributes of the memory: boxes of their own in pictures."""

from __future__ import annotations

from collections.abc import Sequence

from kb_topology.chip.graph import Node
from kb_topology.diagram.chart import Box, Edge
from kb_topology.diagram.content.attributes import all_lines
from kb_topology.text.sizes import format_nbytes

_NAMED = ("sets", "ways", "line_nbytes")
_PREFIX = "cache_"


def has_cache(node: Node) -> bool:
    """Whether *node* is a memory behind a cache of `sets` x `ways` lines of `line_nbytes` bytes."""
    return node.memory is not None and f"{_PREFIX}bw_gbs" in node.attrs and all(name in node.attrs for name in _NAMED)


def cache_key(memory: str) -> str:
    """The key of the box of the cache in front of the box *memory*. Links of the memory end at its cache."""
    return f"{memory} cache"


def cache_box(nodes: Sequence[Node], memory: Box) -> Box:
    """The box of the cache of each of *nodes*, which are the box *memory*. No counter measures a cache alone."""
    attrs = nodes[0].attrs
    nbytes = int(attrs["sets"]) * int(attrs["ways"]) * int(attrs["line_nbytes"])
    lines = [format_nbytes(nbytes), f"{float(attrs[f'{_PREFIX}bw_gbs']):.9g} GB/s"]
    if f"{_PREFIX}latency_ns" in attrs:
        lines.append(f"latency {float(attrs[f'{_PREFIX}latency_ns']):.9g} ns")
    of_cache = [line for line in all_lines(nodes[0]) if line.split()[0] in ("sets", "ways", "line", "index", "write")]
    title = cache_key(memory.title)
    return Box(cache_key(memory.key), title, tuple(lines), "memory", "cache", "\n".join((title, *lines, *of_cache)))


def cache_edge(nodes: Sequence[Node], memory: Box) -> Edge:
    """The line between the box *memory* and the box of its cache: the bandwidth of the memory."""
    bandwidth = f"{float(nodes[0].attrs['bw_gbs']):.9g} GB/s"
    tip = f"{memory.title} behind its cache: {bandwidth}, reads and writes together"
    return Edge(memory.key, cache_key(memory.key), (bandwidth,), "memory", tip=tip, count=len(nodes))
