"""Tables of `kb topology show`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from rich.table import Table

from kb_cli.report.data.chip import MemoryRun, Overview
from kb_cli.terminal.output import new_table
from kb_topology import format_nbytes, slow_text

_LAYOUT = "address = sip << 60 | cube << 52 | space << 48 | unit << 38 | offset"


def chip_tables(found: Overview) -> list[Any]:
    """Returns the comparisons with devices, tables of nodes, links and memories, and the path of the picture."""
    counts = {"SIP": found.sips, "cube": found.cubes, "PE": found.pes, "node": sum(found.nodes.values())}
    sizes = ", ".join(f"{count} {what}{'' if count == 1 else 's'}" for what, count in counts.items())
    slow = [f"slow PEs: {slow_text(found.slow)}"] if found.slow else []
    parts: list[Any] = [
        f"{found.name}: {found.description}",
        sizes,
        *slow,
        *found.compared,
        _nodes(found),
        _links(found),
    ]
    if found.memory_map:
        parts += [_memories(found), _LAYOUT]
    return [line for part in parts for line in (part, "")] + [f"picture ({found.view}): {found.picture}"]


def _nodes(found: Overview) -> Table:
    table = new_table("kind", "nodes", left=1)
    for kind, count in found.nodes.items():
        table.add_row(kind, str(count))
    return table


def _links(found: Overview) -> Table:
    figures = ("links", "GB/s each", "GB/s in all", "mm", "wire ps")
    table = new_table("between", "and", "ways", *figures, left=3)
    for group in found.links:
        numbers = (group.links, group.bw_gbs, group.total_gbs, group.length_mm, group.latency_ps)
        ways = "both" if group.both_ways else "one"
        table.add_row(group.a, group.b, ways, *(f"{number:,.10g}" for number in numbers))
    return table


def _memories(found: Overview) -> Table:
    """Returns the memory map. Memories that repeat from cube to cube share a row."""
    places = ("first", "at", "last", "at")
    table = new_table("memory", "count", "size", *places, left=1, text=places)
    for runs in _alike(found.memory_map):
        first, last = runs[0], runs[-1]
        end = last.base + last.stride * (last.count - 1)
        count = str(sum(run.count for run in runs))
        size = format_nbytes(first.nbytes)
        table.add_row(first.space, count, size, first.first, f"{first.base:#x}", last.last, f"{end:#x}")
    return table


def _alike(runs: list[MemoryRun]) -> Iterator[list[MemoryRun]]:
    def key(run: MemoryRun) -> tuple[str, int]:
        return run.space, run.nbytes

    spaces = list(dict.fromkeys(map(key, runs)))
    for _, group in groupby(sorted(runs, key=lambda run: (spaces.index(key(run)), run.base)), key=key):
        yield list(group)
