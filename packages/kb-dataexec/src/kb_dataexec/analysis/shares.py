"""Views of a Where: the time of a run by block and its work, by kernel line, by block, and by PE."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from msgspec import Struct

from kb_dataexec.analysis.attribution import Where, WhereRow

_Key: TypeAlias = tuple[str, str]


class PathShare(Struct, frozen=True, kw_only=True):
    """`ps` picoseconds of the critical path in which `block` did `what`: `share` (0 to 1) of the time of all launches.

    `line` is the kernel line with the most of these picoseconds, and `line_ps` is its number of them. The line is ""
    for work of no line.
    """

    block: str
    what: str
    ps: int
    share: float
    line: str
    line_ps: int


class LineShare(Struct, frozen=True, kw_only=True):
    """`ps` picoseconds of the critical path for the kernel line `line`, `share` (0 to 1) of the time of all launches.

    `blocks` has the picoseconds by block, the most first. The line is "" for work of no line.
    """

    line: str
    ps: int
    share: float
    blocks: dict[str, int]


class BlockShare(Struct, frozen=True, kw_only=True):
    """Picoseconds of one kind of block over all launches.

    `path_ps` are on the critical path, `share` (0 to 1) of the time of all launches. `busy_ps` is the sum of all work
    of the blocks of that kind. `hidden_ps` is the part of it on no path of a PE, because it ran behind other work. PEs
    that do the same work at the same time hide none of it.
    """

    block: str
    path_ps: int
    share: float
    busy_ps: int
    hidden_ps: int


class PeShares(Struct, frozen=True, kw_only=True):
    """All launches as seen by each of `pes`, whose views are equal. `shares` add up to the time of all launches."""

    pes: list[str]
    shares: list[PathShare]


def total_ps(where: Where) -> int:
    """Returns the time of all launches in picoseconds, each from the host's call to its last answer."""
    return sum(launch.end_ps - launch.start_ps for launch in where.launches)


def path_shares(where: Where) -> list[PathShare]:
    """Returns the launch views by block and its work, the longest first. They add up to `total_ps`."""
    return _shares((row for launch in where.launches for row in launch.rows), total_ps(where))


def line_shares(where: Where) -> list[LineShare]:
    """Returns the launch views by kernel line, the costliest first. They add up to `total_ps`."""
    total, found = total_ps(where), dict[str, dict[str, int]]()
    for launch in where.launches:
        for row in launch.rows:
            blocks = found.setdefault(row.line, {})
            blocks[row.block] = blocks.get(row.block, 0) + row.ps
    lines = [
        LineShare(line=line, ps=sum(blocks.values()), share=_share(sum(blocks.values()), total), blocks=_sorted(blocks))
        for line, blocks in found.items()
    ]
    return sorted(lines, key=lambda each: (-each.ps, each.line))


def block_shares(where: Where) -> list[BlockShare]:
    """Returns every block that is on the path or that worked, the longest on the path first."""
    total = total_ps(where)
    path, busy, own = dict[str, int](), dict[str, int](), dict[str, int]()
    for launch in where.launches:
        for row in launch.rows:
            path[row.block] = path.get(row.block, 0) + row.ps
        for block, ps in launch.busy.items():
            busy[block] = busy.get(block, 0) + ps
        for view in launch.pes:
            for row in view.rows:
                own[row.block] = own.get(row.block, 0) + row.ps * len(view.pes)
    blocks = [
        BlockShare(
            block=block,
            path_ps=path.get(block, 0),
            share=_share(path.get(block, 0), total),
            busy_ps=busy.get(block, 0),
            hidden_ps=max(busy.get(block, 0) - own.get(block, 0), 0),
        )
        for block in dict.fromkeys((*path, *busy))
    ]
    return sorted(blocks, key=lambda each: (-each.path_ps, -each.busy_ps, each.block))


def pe_shares(where: Where) -> list[PeShares]:
    """Returns the views of the PEs over all launches. PEs with equal views share an entry.

    A launch without a program of a PE adds nothing to the view of that PE.
    """
    views: dict[str, list[tuple[int, int]]] = {}
    for number, launch in enumerate(where.launches):
        for place, view in enumerate(launch.pes):
            for pe in view.pes:
                views.setdefault(pe, []).append((number, place))
    alike: dict[tuple[tuple[int, int], ...], list[str]] = {}
    for pe, places in views.items():
        alike.setdefault(tuple(places), []).append(pe)
    total, found = total_ps(where), []
    for key, pes in alike.items():
        rows = [row for number, place in key for row in where.launches[number].pes[place].rows]
        found.append(PeShares(pes=pes, shares=_shares(rows, total)))
    return found


def _shares(rows: Iterable[WhereRow], total: int) -> list[PathShare]:
    lines: dict[_Key, dict[str, int]] = {}
    for row in rows:
        by_line = lines.setdefault((row.block, row.what), {})
        by_line[row.line] = by_line.get(row.line, 0) + row.ps
    found = []
    for (block, what), by_line in lines.items():
        ps = sum(by_line.values())
        line, line_ps = next(iter(_sorted(by_line).items()))
        found.append(PathShare(block=block, what=what, ps=ps, share=_share(ps, total), line=line, line_ps=line_ps))
    return sorted(found, key=lambda each: (-each.ps, each.block, each.what))


def _sorted(times_ps: dict[str, int]) -> dict[str, int]:
    return dict(sorted(times_ps.items(), key=lambda each: (-each[1], each[0])))


def _share(ps: int, total: int) -> float:
    return ps / total if total else 0.0
