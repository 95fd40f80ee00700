"""The tables of `kb run --work`: how the times were found, and why some events were simulated."""

from __future__ import annotations

from typing import Any

from msgspec import UnsetType
from rich.table import Table

from kb_cli.run.result_parts import HowSimulated
from kb_cli.terminal.output import new_table


def work_tables(found: HowSimulated | UnsetType) -> list[Any]:
    """How many commands, programs, tiles and launches were worked out otherwise, and a row for each reason."""
    if isinstance(found, UnsetType):
        return []
    parts: list[Any] = [_counts(found), ""]
    if found.by_event:
        headers = "simulated event by event", "commands", "because", "what to change"
        table = new_table(*headers, left=1, text=headers[2:], wrapped=(2, 3))
        for each in found.by_event:
            what = f"{each.what} in {each.kernel}" if each.kernel else each.what
            place = f"{each.cause} ({each.line})" if each.line else each.cause
            table.add_row(what, f"{each.commands:,}", place, each.change)
        parts += [table, ""]
    return parts


def _counts(found: HowSimulated) -> Table:
    table = new_table("how the times were found", "number", left=1)
    for name, number in (
        ("commands", found.commands),
        ("  closed: worked out at once", found.closed_commands),
        ("  of programs that were skipped", found.skipped_commands),
        ("  simulated event by event", found.event_commands),
        ("programs that were skipped", found.skipped_programs),
        ("tiles that were skipped", found.skipped_tiles),
        ("launches", found.launches),
        ("events", found.events),
    ):
        table.add_row(name, f"{number:,}")
    return table
