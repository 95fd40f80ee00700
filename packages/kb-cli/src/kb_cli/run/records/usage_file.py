"""`usage.json` of a run folder: how long every link and block was in service, and the bytes that each moved.

The file has columns without names, in the order of the links and nodes of the run's topology. So it stays small: 82 KB
after a GEMM on a chip of 512 PEs and 7,826 links.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from kb_cli.run.base.files import USAGE
from kb_cli.run.observe.usage import LINK, PORT, Usage
from kb_dataexec.files import writing
from kb_topology import Graph, Node


class LinkColumns(Struct, frozen=True, kw_only=True):
    """Picoseconds in service and bytes of each link, one direction each, in the order of the topology's links."""

    busy_ps: list[int]
    nbytes: list[int]


class BlockColumn(Struct, frozen=True, kw_only=True):
    """Picoseconds in service of the nodes of one kind, in order; null for a block that has no such channel.

    `channel` is `read` or `write` for the two channels of a DMA, and empty for other blocks.
    """

    kind: str
    channel: str
    busy_ps: list[int | None]


class MemoryColumns(Struct, frozen=True, kw_only=True):
    """Bytes of the memories of one space behind the fabric, in the order of nodes; null for a block that counts no
    bytes.
    """

    space: str
    read_nbytes: list[int | None]
    written_nbytes: list[int | None]


class UsageTable(Struct, frozen=True, kw_only=True):
    """The whole file. All of it covers the launches, which took `span_ps` picoseconds together."""

    span_ps: int
    links: LinkColumns
    blocks: list[BlockColumn]
    memories: list[MemoryColumns]


def usage_table(usage: Usage, graph: Graph, span_ps: int) -> UsageTable:
    """Returns the columns of *usage*, which counted on the chip of *graph*."""
    counts = usage.counts
    links = [counts.get((LINK, f"{link.src} -> {link.dst}"), (0, 0)) for link in graph.links]
    nodes: dict[str, list[Node]] = {}
    for node in graph.nodes.values():
        nodes.setdefault(node.kind.value, []).append(node)
        if node.memory is not None:
            nodes.setdefault(f"bytes of {node.memory.space.value}", []).append(node)
    blocks = []
    memories = []
    for name in dict.fromkeys(name for name, _ in counts if name not in (LINK, PORT)):
        kind, channel = _channel(name, nodes)
        column = [counts.get((name, node.id)) for node in nodes[kind]]
        if name.startswith("bytes of "):
            read, written = ([None if each is None else each[way] for each in column] for way in (0, 1))
            memories.append(
                MemoryColumns(space=name.removeprefix("bytes of "), read_nbytes=read, written_nbytes=written)
            )
        else:
            busy_ps = [None if each is None else each[0] for each in column]
            blocks.append(BlockColumn(kind=kind, channel=channel, busy_ps=busy_ps))
    columns = LinkColumns(busy_ps=[each[0] for each in links], nbytes=[each[1] for each in links])
    return UsageTable(span_ps=span_ps, links=columns, blocks=blocks, memories=memories)


def _channel(name: str, nodes: dict[str, list[Node]]) -> tuple[str, str]:
    """Splits a name such as `pe_dma_read` into the kind and the channel."""
    if name in nodes:
        return name, ""
    kind, _, channel = name.rpartition("_")
    return kind, channel


def write_usage(folder: Path, table: UsageTable) -> None:
    """Writes *table* to usage.json of *folder*, in one line."""
    with writing(folder / USAGE):
        (folder / USAGE).write_bytes(msgspec.json.encode(table) + b"\n")
