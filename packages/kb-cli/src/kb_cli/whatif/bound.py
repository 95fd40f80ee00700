"""The bound of a change: how fast a run can get at best, as long as services keep their order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from math import ceil, prod

from msgspec.structs import replace

from kb_cli.run.records.usage_file import UsageTable
from kb_cli.whatif.chip_levers import LINKS, Moved
from kb_dataexec.analysis import Where, WhereRow
from kb_topology import Topology

OUTSIDE = ("launch", "answer")
"""The `via` of the rows before the first kernel's start and behind the last one's end."""


def by_kind(where: Where, topology: Topology) -> Where:
    """Returns *where* with the kinds of blocks of *topology* in place of the names in its file, in all launch views.

    A file may give a node any name, and levers belong to kinds.
    """
    names: dict[str, str] = {}
    for node in topology.graph.nodes.values():
        name = node.id.rpartition(".")[2]
        names.setdefault(name, node.kind.value)
        names.setdefault(name.rstrip("0123456789"), node.kind.value)
    launches = [
        replace(each, rows=[replace(row, block=names.get(row.block, row.block)) for row in each.rows])
        for each in where.launches
    ]
    return replace(where, launches=launches)


def kernel_rows(where: Where) -> Iterator[WhereRow]:
    """Returns the rows of all launch views between the first kernel's start and the last one's end."""
    return (row for launch in where.launches for row in launch.rows if row.via not in OUTSIDE)


def moved_ps(where: Where, moved: Sequence[Moved]) -> int:
    """Returns the picoseconds of the path that any of *moved* scales."""
    return sum(row.ps for row in kernel_rows(where) if any(each.lever.moves(row.block, row.what) for each in moved))


def bound_ps(where: Where, busy_ps: Iterable[tuple[str, int]], moved: Sequence[Moved]) -> int:
    """Returns the longer of the path with the classes of *moved* scaled, and the busiest block that they leave alone.

    *busy_ps* has the picoseconds of the busiest block of each kind. A class that also depends on other values of the
    chip never gets longer, because its share for each value is unknown.
    """
    path = sum((row.ps * _factor(row, moved) for row in kernel_rows(where)), Fraction(0))
    touched = {each.partition(":")[0] for one in moved for each in one.lever.classes}
    return max([ceil(path), *(ps for block, ps in busy_ps if block not in touched)])


def _factor(row: WhereRow, moved: Sequence[Moved]) -> Fraction:
    factors = [
        each.factor if each.whole else min(each.factor, Fraction(1))
        for each in moved
        if each.lever.moves(row.block, row.what)
    ]
    return prod(factors, start=Fraction(1))


def busiest_ps(table: UsageTable, topology: Topology) -> Iterator[tuple[str, int]]:
    """Yields (block, picoseconds of work) of the busiest block of each kind that does one thing after the other.

    DMAs are left out, because they are busy while they wait for memories. So are SRAMs of two ports, and the links of a
    chip whose launches have bytes, because these bytes pass before kernels start.
    """
    nodes = topology.graph.nodes.values()
    two_ports = any(node.attrs.get("ports", "shared") != "shared" for node in nodes if node.kind.value == "sram")
    for column in table.blocks:
        if not column.channel and not (column.kind == "sram" and two_ports):
            yield column.kind, max((ps for ps in column.busy_ps if ps is not None), default=0)
    if not any(node.attrs.get("launch_nbytes", 0) for node in nodes):
        yield LINKS, max(table.links.busy_ps, default=0)
