"""A sweep in a cell: its heading, its fastest points, and its pictures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kb_cli.report.elements.model_points import model_axes, model_cells, model_headers
from kb_cli.report.elements.page_elements import Markup, element, section, table
from kb_cli.report.html.sweep_page import TITLES, sweep_pictures, sweep_sentences
from kb_cli.report.tables.sweep_tables import (
    configuration_cells,
    failure_cells,
    figure_names,
    heading,
    row_axes,
    what,
)
from kb_cli.sweep.configuration import Configuration
from kb_cli.sweep.sweep import SweepResult

MOST_ROWS: Final = 10
"""The most points in a table of a cell, and at a prompt."""
_MOST_NBYTES: Final = 60_000
"""The most bytes of all pictures of a cell; pictures that do not fit are in the report of the sweep."""


def sweep_cell(result: SweepResult) -> Iterator[Markup]:
    """Yields the parts of the cell of *result*."""
    yield element("h1", f"Sweep of {heading(result)}")
    yield from (element("p", note, class_="note") for note in result.notes)
    if cells := list(model_cells(result))[:MOST_ROWS]:
        yield table(model_headers(result), cells, text=len(model_axes(result)))
    if result.configurations:
        yield section(_title(result), "", _rows(result, result.configurations[:MOST_ROWS]))
    said, left_nbytes = sweep_sentences(result), _MOST_NBYTES
    for stem, picture in sweep_pictures(result).items():
        left_nbytes -= len(picture)
        if left_nbytes >= 0:
            front = [_rows(result, [result.configurations[at] for at in result.front[:MOST_ROWS]])]
            figure = element("figure", picture)
            yield section(TITLES[stem], said[stem], figure, *(front if stem == "front" else []))
    if result.failed:
        rows = failure_cells(result, MOST_ROWS)
        title = f"{result.failed} of {len(result.points)} points failed"
        yield section(title, "", table([*result.axes, "why"], rows, text=len(result.axes) + 1))


def _title(result: SweepResult) -> str:
    count, name = len(result.configurations), what(result)
    shown = f"the {MOST_ROWS} fastest of {count:,} {name}" if count > MOST_ROWS else name
    return f"{shown[0].upper()}{shown[1:]} by {result.by}"


def _rows(result: SweepResult, found: list[Configuration]) -> Markup:
    axes = row_axes(result)
    return table([*axes, *figure_names(result)], configuration_cells(result, found), text=len(axes))
