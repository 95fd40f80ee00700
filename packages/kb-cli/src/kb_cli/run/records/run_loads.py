"""The load of each part of the chip of a finished run, for pictures: read from the run folder alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kb_cli.run.base.files import USAGE, RunFolderError
from kb_cli.run.records.manifest_check import check_written
from kb_cli.run.records.run_chip import chip_of
from kb_cli.run.records.run_json import RowsJson, RunJson, read_run
from kb_cli.run.records.usage_file import UsageTable
from kb_dataexec.files import file_in, read_json
from kb_topology import Graph, Node, Topology
from kb_topology.diagram import LinkLoad, Loads, NodeLoad, percent, rounded_nbytes


def read_loads(folder: Path) -> tuple[Topology, Loads]:
    """Returns the chip of the run in *folder*, and the load of its parts.

    Raises RunFolderError for a folder that is none of one run, for files with other bytes than the run wrote, and for a
    folder without usage.json.
    """
    run = read_run(folder)
    if isinstance(run, RowsJson):
        rows = ", ".join(row.folder for row in run.rows[:3])
        fix = f"name one of the folders in it, like {folder / run.rows[0].folder}" if run.rows else ""
        raise RunFolderError(str(folder), f"the runs of a shapes file ({rows})", "the folder of one run", fix)
    _expect_usage(folder, run)
    topology = chip_of(folder, run)
    return topology, counted_loads(folder, run, topology.graph)


def counted_loads(folder: Path, run: RunJson, graph: Graph) -> Loads:
    """Returns the load of the parts of *graph* in *run*, the run.json of *folder*.

    Raises RunFolderError for a folder that has no usage.json, or other bytes than the run wrote.
    """
    _expect_usage(folder, run)
    check_written(folder, run, (USAGE,))
    table = read_json(file_in(folder, USAGE, RunFolderError), UsageTable, RunFolderError)
    return loads_of(table, graph, run.benchmark.name, str(folder / USAGE))


def _expect_usage(folder: Path, run: RunJson) -> None:
    if USAGE not in run.files:
        fix = "run the benchmark again: kb wrote no such file before"
        raise RunFolderError(str(folder), f"a run without {USAGE}", "how busy links and blocks were", fix)


def loads_of(table: UsageTable, graph: Graph, name: str, where: str) -> Loads:
    """Returns the share of the time of *table* for every link and node of *graph*.

    Raises RunFolderError for columns that do not have one value for each.
    """
    span_ps = max(table.span_ps, 1)
    count = len(graph.links)
    if not len(table.links.busy_ps) == len(table.links.nbytes) == count:
        got = f"{len(table.links.busy_ps)} and {len(table.links.nbytes)} values in the columns of links"
        raise RunFolderError(where, got, f"{count}, as the topology has links")
    links = {
        (link.src, link.dst): LinkLoad(busy_ps / span_ps, nbytes)
        for link, busy_ps, nbytes in zip(graph.links, table.links.busy_ps, table.links.nbytes, strict=True)
    }
    moved = dict(_moved(table, graph, where))
    shares: dict[str, list[tuple[str, float]]] = {}
    for block in table.blocks:
        nodes = [node for node in graph.nodes.values() if node.kind.value == block.kind]
        for node, busy_ps in _rows(nodes, block.busy_ps, f"{where}: $.blocks, {block.kind}"):
            shares.setdefault(node.id, []).append((block.channel or "busy", busy_ps / span_ps))
    loads = {node_id: _node_load(found, moved.get(node_id)) for node_id, found in shares.items()}
    return Loads(name, links, loads)


def _node_load(shares: list[tuple[str, float]], moved: tuple[int, int] | None) -> NodeLoad:
    nbytes = None if moved is None else sum(moved)
    return NodeLoad(max(share for _, share in shares), _words(shares, moved), nbytes)


def _words(shares: list[tuple[str, float]], moved: tuple[int, int] | None) -> str:
    words = [f"{what} {percent(share)}" for what, share in shares]
    if moved is not None:
        words.append(f"{rounded_nbytes(moved[0])} read, {rounded_nbytes(moved[1])} written")
    return ", ".join(words)


def _moved(table: UsageTable, graph: Graph, where: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yields the bytes read from and written to each memory, by its node's id."""
    for memory in table.memories:
        place = f"{where}: $.memories, {memory.space}"
        nodes = [node for node in graph.nodes.values() if node.memory and node.memory.space.value == memory.space]
        written = {node.id: nbytes for node, nbytes in _rows(nodes, memory.written_nbytes, place)}
        for node, nbytes in _rows(nodes, memory.read_nbytes, place):
            yield node.id, (nbytes, written.get(node.id, 0))


def _rows(nodes: list[Node], column: list[int | None], where: str) -> Iterator[tuple[Node, int]]:
    """Yields the nodes that have a value in *column*."""
    if len(nodes) != len(column):
        raise RunFolderError(where, f"{len(column)} values", f"{len(nodes)}, as the topology has such nodes")
    for node, value in zip(nodes, column, strict=True):
        if value is not None:
            yield node, value
