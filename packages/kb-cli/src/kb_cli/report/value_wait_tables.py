"""What `kb run` and `kb report` print of the waits for computed values that kernels looked at."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UnsetType
from rich.table import Table

from kb_cli.run.result_parts import ValueWait
from kb_cli.terminal.output import new_table
from kb_cli.terminal.units import duration


def value_wait_tables(waits: Sequence[ValueWait] | UnsetType) -> list[Table]:
    """A table with a row for each kernel line; none if no kernel looked at a computed value."""
    if isinstance(waits, UnsetType):
        return []
    table = new_table("looks at values", "times", "waited", left=1)
    for each in waits:
        table.add_row(each.line, f"{each.count:,}", duration(each.waited_ps))
    return [table]
