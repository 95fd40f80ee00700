"""A comparison of two runs in a cell: both times as bars, what is different, and where the time changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.table import Table

from kb_cli.compare.comparison import RunComparison
from kb_cli.report.elements.page_elements import Markup, bar, element, table
from kb_cli.report.tables.compare_tables import comparison_parts
from kb_cli.terminal.units import duration


def comparison_cell(found: RunComparison) -> Iterator[Markup]:
    """Yields the parts of the cell of *found*: what `kb compare` prints, with bars above it."""
    longest = max(*found.latency_ps, 1)
    names = found.before, found.after
    if names[0] == names[1]:
        names = f"{names[0]} (before)", f"{names[1]} (after)"
    rows = [
        [name, bar((kind, ps / longest)), duration(ps)]
        for name, kind, ps in zip(names, ("hidden", "path"), found.latency_ps, strict=True)
    ]
    yield element("h1", f"{names[0]} and {names[1]}")
    yield table(("run", "", "latency"), rows, text=2)
    for each in comparison_parts(found):
        if isinstance(each, Table):
            yield _table(each)
        elif each:
            yield element("p", str(each))


_FOLDED: Final = {"line": "by line", "PEs": "by PE"}
"""The tables that a click opens, by the header of their first column."""


def _table(printed: Table) -> Markup:
    """Returns a table of the terminal as a table of a page. Cells are plain text."""
    headers = [str(column.header) for column in printed.columns]
    columns = [[str(cell) for cell in column.cells] for column in printed.columns]
    at = [number for number, column in enumerate(printed.columns) if column.justify != "right"]
    whole = table(headers, list(zip(*columns, strict=True)), text=0, wide=at)
    name = _FOLDED.get(headers[0])
    return whole if name is None else element("details", element("summary", name), whole)
