"""The table "where the time went": the critical path by block and what it did, with the dearest kernel line."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from kb_cli.terminal.output import new_table
from kb_cli.terminal.units import duration, percent
from kb_dataexec.analysis import PathShare

_LEAST = 0.001
"""Shares below it stand together in one row."""
_ROWS = 12


def main_shares(shares: Sequence[PathShare]) -> tuple[list[PathShare], list[PathShare]]:
    """*shares*, the largest first, as those that have a row of their own, and those that stand together."""
    kept = [each for each in shares[:_ROWS] if each.share >= _LEAST]
    rest = list(shares[len(kept) :])
    return (list(shares), []) if len(rest) < 2 else (kept, rest)


def where_table(shares: Sequence[PathShare]) -> Table:
    """*shares*, the largest first, as a table."""
    table = new_table("where the time went", "what", "share", "time", "dearest line", left=2, text=("dearest line",))
    kept, rest = main_shares(shares)
    for each in kept:
        table.add_row(each.block, each.what, percent(each.share), duration(each.ps), dearest(each))
    if rest:
        names = f"{len(rest)} more"
        table.add_row(names, "", percent(sum(each.share for each in rest)), duration(sum(each.ps for each in rest)), "")
    return table


def dearest(share: PathShare) -> str:
    """The line of *share* that costs most, and its part when it does not cost all."""
    if not share.line:
        return "-"
    return share.line if share.line_ps == share.ps else f"{share.line} ({percent(share.line_ps / share.ps)})"
