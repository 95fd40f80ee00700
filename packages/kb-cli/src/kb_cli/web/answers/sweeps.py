"""The views of sweeps: the list of them, and one with its pictures and tables, as its report has them."""

from __future__ import annotations

from msgspec import Struct

from kb_cli.report.html.sweep_page import MOST_ROWS, sweep_pictures, sweep_sentences
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
from kb_cli.web.answer import WebAnswer, json_answer
from kb_cli.web.sweep_index import IndexedSweep
from kb_cli.web.web_request import WebRequest


class SweepList(Struct, frozen=True, kw_only=True):
    """All sweeps below `folder`."""

    folder: str
    sweeps: list[IndexedSweep]


class SweepPicture(Struct, frozen=True, kw_only=True):
    """A picture as SVG, and its sentence."""

    name: str
    svg: str
    sentence: str


class SweepRows(Struct, frozen=True, kw_only=True):
    """Cells of rows, which are the first of `of` rows."""

    rows: list[list[str]]
    of: int


class WebSweep(Struct, frozen=True, kw_only=True):
    """A sweep. `ranked` and `front` have the cells of `axes` and then of `figures`. `failed` has the cells of
    `all_axes`, and an error.
    """

    heading: str
    notes: list[str]
    pictures: list[SweepPicture]
    what: str
    by: str
    axes: list[str]
    all_axes: list[str]
    figures: list[str]
    ranked: SweepRows
    front: SweepRows
    failed: SweepRows


def sweeps(asked: WebRequest) -> WebAnswer:
    """Answers with the list as it is now."""
    return json_answer(SweepList(folder=asked.sweeps.title, sweeps=asked.sweeps.sweeps()))


def sweep(asked: WebRequest) -> WebAnswer:
    """Answers with the sweep that the field `sweep` names."""
    found = asked.sweeps.sweep(asked.field("sweep"))
    said = sweep_sentences(found)
    pictures = sweep_pictures(found).items()
    return json_answer(
        WebSweep(
            heading=heading(found),
            notes=found.notes,
            pictures=[SweepPicture(name=name, svg=str(svg), sentence=said[name]) for name, svg in pictures],
            what=what(found),
            by=found.by,
            axes=row_axes(found),
            all_axes=list(found.axes),
            figures=figure_names(found),
            ranked=_rows(found, found.configurations),
            front=_rows(found, [found.configurations[at] for at in found.front]),
            failed=SweepRows(rows=failure_cells(found, MOST_ROWS), of=found.failed),
        )
    )


def _rows(found: SweepResult, those: list[Configuration]) -> SweepRows:
    return SweepRows(rows=configuration_cells(found, those[:MOST_ROWS]), of=len(those))
