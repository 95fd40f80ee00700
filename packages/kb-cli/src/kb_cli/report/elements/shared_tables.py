"""Tables that several commands print: time by cause, chosen tiles, waits for values, and statistics of the
simulation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, Final

from msgspec import UnsetType
from rich.table import Table

from kb_cli.report.data.performance import ROOFS
from kb_cli.run.base.remedy import Remedy
from kb_cli.run.base.result import ChosenTile, Roof, SimStats, ValueWait
from kb_cli.terminal.output import new_table
from kb_cli.terminal.units import duration, durations, percent
from kb_dataexec.analysis import PathShare

_LEAST = 0.001
"""The smallest share that has a row of its own."""
_ROWS = 12


def main_shares(shares: Sequence[PathShare]) -> tuple[list[PathShare], list[PathShare]]:
    """Returns *shares*, the largest first, as two lists: shares with a row of their own, and shares that share one
    row.
    """
    kept = [each for each in shares[:_ROWS] if each.share >= _LEAST]
    rest = list(shares[len(kept) :])
    return (list(shares), []) if len(rest) < 2 else (kept, rest)


def where_table(shares: Sequence[PathShare]) -> Table:
    """Returns the table "where the time went" of *shares*, the largest first."""
    headers = "where the time went", "what", "share", "time", "costliest line"
    table = new_table(*headers, left=2, text=headers[-1:])
    kept, rest = main_shares(shares)
    times = durations([*(each.ps for each in kept), sum(each.ps for each in rest)])
    for each, time in zip(kept, times, strict=False):
        table.add_row(each.block, each.what, percent(each.share), time, costliest(each))
    if rest:
        table.add_row(f"{len(rest)} more", "", percent(sum(each.share for each in rest)), times[-1], "")
    return table


def costliest(share: PathShare) -> str:
    """Returns the costliest kernel line of *share*, with its part when it is not all."""
    if not share.line:
        return "-"
    return share.line if share.line_ps == share.ps else f"{share.line} ({percent(share.line_ps / share.ps)})"


def roof_tables(roofs: Sequence[Roof], latency_ps: int) -> list[Table]:
    """Returns the table of *roofs*, the highest first: the least time with equal shares, and that of the busiest part.

    None without roofs.
    """
    cells = list(roof_cells(roofs, latency_ps))
    table = new_table(*ROOF_HEADERS, left=1, text=ROOF_HEADERS[-1:])
    for row in cells:
        table.add_row(*row)
    return [table] if cells else []


ROOF_HEADERS: Final = "roof", "parts", "evenly", "at least", "of latency", "busiest part"
"""The headers of the table of roofs."""
ROOFS_TEXT: Final = (
    "Lower bounds of the latency: the time of the work of each kind of part at its full rate, for the busiest part "
    "and for equal shares."
)


def roof_cells(roofs: Sequence[Roof], latency_ps: int) -> Iterator[tuple[str, ...]]:
    """Yields the texts of each of *roofs* that is no less than the smallest share with a row of its own."""
    shown = [each for each in roofs if each.least_ps is None or _is_shown(each.least_ps, latency_ps)]
    known = [each for each in shown if each.least_ps is not None]
    times = durations([ps or 0 for each in known for ps in (each.even_ps, each.least_ps)])
    evenly, least = times[::2], times[1::2]
    at = count()
    for each in shown:
        name = ROOFS.get(each.kind, each.kind).removeprefix("the ")
        if each.least_ps is None:
            yield name, str(each.count), "-", "no peak known" if not each.is_beaten else "-", "-", each.node
        else:
            row = next(at)
            even = "-" if each.even_ps is None else evenly[row]
            yield name, str(each.count), even, least[row], percent(each.least_ps / latency_ps), each.node


def _is_shown(least_ps: int, latency_ps: int) -> bool:
    return bool(latency_ps) and least_ps >= _LEAST * latency_ps


_SHOWN: Final = 8


def chosen_tile_tables(chosen: Sequence[ChosenTile] | UnsetType) -> list[Table]:
    """Returns a table with a row for each kernel line and tile; none if every GEMM states its tile."""
    if isinstance(chosen, UnsetType):
        return []
    table = new_table("tile left to the chip", "chosen", "GEMMs", left=1)
    for each in chosen[:_SHOWN]:
        table.add_row(each.line, each.tile, f"{each.commands:,}")
    if len(chosen) > _SHOWN:
        table.add_row(f"{len(chosen) - _SHOWN} more: see --json", "", "")
    return [table]


REMEDY_HEADERS: Final = ("what a rewrite would gain", "gain", "change", "line")


def remedy_cells(remedy: Remedy) -> tuple[str, str, str, str]:
    """Returns *remedy* as the cells of a row under `REMEDY_HEADERS`. The gain is a share of the latency."""
    return remedy.flaw, f"{percent(remedy.gain)} {remedy.basis}", remedy.change, remedy.line or "-"


def remedy_tables(remedies: Sequence[Remedy] | UnsetType) -> list[Table]:
    """Returns a table with a row for each flaw of the kernel, the most gain first; none if no rule found one."""
    if isinstance(remedies, UnsetType) or not remedies:
        return []
    table = new_table(*REMEDY_HEADERS, left=1, text=REMEDY_HEADERS[2:], wrapped=(0, 2))
    for each in remedies:
        table.add_row(*remedy_cells(each))
    return [table]


def value_wait_tables(waits: Sequence[ValueWait] | UnsetType) -> list[Table]:
    """Returns a table with a row for each kernel line; none if no kernel waited for a computed value."""
    if isinstance(waits, UnsetType):
        return []
    table = new_table("looks at values", "times", "waited", left=1)
    for each in waits:
        table.add_row(each.line, f"{each.count:,}", duration(each.waited_ps))
    return [table]


def sim_stats_tables(found: SimStats | UnsetType) -> list[Any]:
    """Returns the tables of `--sim-stats`: how commands were simulated, and a row for each reason of the slow path."""
    if isinstance(found, UnsetType):
        return []
    parts: list[Any] = [_counts(found), ""]
    if found.slow_path:
        headers = "slow path", "commands", "because", "remedy"
        table = new_table(*headers, left=1, text=headers[2:], wrapped=(2, 3))
        for each in found.slow_path:
            what = f"{each.what} in {each.kernel}" if each.kernel else each.what
            place = f"{each.cause} ({each.line})" if each.line else each.cause
            table.add_row(what, f"{each.commands:,}", place, each.change)
        parts += [table, ""]
    return parts


def _counts(found: SimStats) -> Table:
    table = new_table("simulation", "number", left=1)
    for name, number in (
        ("commands", found.commands),
        ("  isolated: computed at once", found.isolated_commands),
        ("  of skipped programs", found.skipped_commands),
        ("  on the slow path, event by event", found.event_commands),
        ("programs skipped in a steady state", found.skipped_programs),
        ("tiles skipped in a steady state", found.skipped_tiles),
        ("launches", found.launches),
        ("events", found.events),
    ):
        table.add_row(name, f"{number:,}")
    return table
