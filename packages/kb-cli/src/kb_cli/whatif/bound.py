"""The bound of a change: how fast a run can get at best, as long as services keep their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from math import ceil, prod
from typing import NamedTuple

from msgspec.structs import replace

from kb_cli.compare.blocks import block_name
from kb_cli.run.records.usage_file import UsageTable
from kb_cli.run.records.where_time import OUTSIDE, kernel_rows
from kb_cli.whatif.chip_levers import LINKS, Moved
from kb_cli.whatif.link_kinds import kind_of_link
from kb_dataexec.analysis import Where, WhereRow
from kb_topology import Topology


class BusyPart(NamedTuple):
    """The busiest of the blocks or links of one kind, `part`: its picoseconds of work, and its name.

    `block` is the kind of block, or `links`. `others_ps` is the mean work of the others, None where there are none.
    """

    block: str
    part: str
    ps: int
    node: str = ""
    others_ps: Fraction | None = None


_WAITS_FOR_PES = "waits for other PEs"
_WAITS = ("shared", "busy with others")
"""Activities that are waits for the work of others. They may vanish where a part is faster, because transfers of others
may then have ended before.
"""


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


def moved_ps(where: Where, moved: Sequence[Moved]) -> int:
    """Returns the picoseconds of the path that any of *moved* scales.

    For places that kernels wait for, these are the most that the own path of a PE waits.
    """
    if any(_is_awaited(each) for each in moved):
        return _most_of_a_pe(where, lambda row: any(_moves(each, row) for each in moved))
    return sum(row.ps for row in kernel_rows(where) if any(_moves(each, row) for each in moved))


def bound_ps(where: Where, busy: Iterable[BusyPart], moved: Sequence[Moved]) -> int:
    """Returns the longer of the path with the classes of *moved* scaled, and the busiest part that they leave alone.

    A class that also depends on other values of the chip never gets longer, because its share for each value is
    unknown. A lever of links leaves links of other kinds alone. With more places that kernels wait for, waits of other
    kernels may end earlier, too. So the longest own path of a PE without any wait is left then.
    """
    if any(_is_awaited(each) for each in moved):
        path = Fraction(_most_of_a_pe(where, lambda row: row.what not in (*_WAITS, _WAITS_FOR_PES)))
    else:
        path = sum((row.ps * _factor(row, moved) for row in kernel_rows(where)), Fraction(0))
    return max([ceil(path), *(each.ps for each in busy if not any(_touches(one, each) for one in moved))])


def _most_of_a_pe(where: Where, counts: Callable[[WhereRow], bool]) -> int:
    """The picoseconds of rows that count on the own path of the PE that has most of them, added up over launches."""
    return sum(
        max((sum(row.ps for row in pe.rows if row.via not in OUTSIDE and counts(row)) for pe in launch.pes), default=0)
        for launch in where.launches
    )


def _is_awaited(moved: Moved) -> bool:
    """Whether kernels wait for the places of *moved*."""
    return any(each == f"program: {_WAITS_FOR_PES}" for each in moved.lever.classes)


def _moves(moved: Moved, row: WhereRow) -> bool:
    return moved.lever.moves(row.block, row.what, row.via)


def _touches(moved: Moved, busy: BusyPart) -> bool:
    """Whether *moved* may shorten the work of a part. More places do not."""
    if moved.lever.better == "one more":
        return False
    if moved.parts and busy.block == LINKS:
        return busy.part in moved.parts
    return any(each.partition(":")[0] == busy.block for each in moved.lever.classes)


def _factor(row: WhereRow, moved: Sequence[Moved]) -> Fraction:
    factors = [each.factor if each.whole else min(each.factor, Fraction(1)) for each in moved if _moves(each, row)]
    has_more = any(each.lever.better == "one more" and each.factor < 1 for each in moved)
    if row.what in _WAITS and (has_more or any(factor < 1 for factor in factors)):
        return Fraction(0)
    return prod(factors, start=Fraction(1))


def busy_parts(table: UsageTable, topology: Topology) -> list[BusyPart]:
    """Returns the busiest block of each kind, and the busiest link of each kind of links."""
    nodes: dict[str, list[str]] = {}
    for node in topology.graph.nodes.values():
        nodes.setdefault(node.kind.value, []).append(node.id)
    found = []
    for column in table.blocks:
        works = [
            (ps, name) for ps, name in zip(column.busy_ps, nodes.get(column.kind, ()), strict=False) if ps is not None
        ]
        if works:
            found.append(_busiest(column.kind, block_name(column.kind), works))
    links: dict[str, list[tuple[int, str]]] = {}
    for link, ps in zip(topology.graph.links, table.links.busy_ps, strict=False):
        links.setdefault(kind_of_link(topology, link).name, []).append((ps, f"{link.src} -> {link.dst}"))
    return [*found, *(_busiest(LINKS, name, works) for name, works in links.items())]


def _busiest(block: str, part: str, works: Sequence[tuple[int, str]]) -> BusyPart:
    ps, node = max(works, key=lambda each: each[0])
    rest = sum(each for each, _ in works) - ps
    return BusyPart(block, part, ps, node, Fraction(rest, len(works) - 1) if len(works) > 1 else None)


def limits_of(parts: Iterable[BusyPart], topology: Topology) -> list[BusyPart]:
    """Returns those of *parts* that do one thing after the other, so that no run is shorter than their work.

    DMAs are left out, because they are busy while they wait for memories. So are SRAMs of two ports, and the links of a
    chip whose launches have bytes, because these bytes pass before kernels start.
    """
    nodes = topology.graph.nodes.values()
    two_ports = any(node.attrs.get("ports", "shared") != "shared" for node in nodes if node.kind.value == "sram")
    left_out = {"pe_dma", *(["sram"] if two_ports else [])}
    left_out |= {LINKS} if any(node.attrs.get("launch_nbytes", 0) for node in nodes) else set()
    return [each for each in parts if each.block not in left_out]
