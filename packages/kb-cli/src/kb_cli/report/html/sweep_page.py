"""The page of a sweep: one file without script, of tables and inline pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kb_cli.report.elements.model_points import MODEL_TEXT, model_axes, model_cells, model_headers
from kb_cli.report.elements.page_elements import PLOT_STYLE, STYLE, Markup, element, table
from kb_cli.report.html.page import POLICY
from kb_cli.report.pictures.plots.plot import Plot, alone, inline
from kb_cli.report.pictures.sweep_axes import axes_picture
from kb_cli.report.pictures.sweep_front import front_picture
from kb_cli.report.pictures.sweep_map import map_picture
from kb_cli.report.pictures.sweep_models import models_picture
from kb_cli.report.tables.sweep_tables import (
    configuration_cells,
    explained_sentence,
    failure_cells,
    figure_names,
    front_sentence,
    heading,
    moving_axes,
    row_axes,
    what,
)
from kb_cli.sweep.configuration import Configuration
from kb_cli.sweep.sweep import SweepResult

MOST_ROWS = 500
"""The most points in a table of a page; `-o` writes all of them."""
TITLES = {
    "models": "The model by the axis",
    "front": "Pareto front",
    "axes": "Latency by axis",
    "map": "Latency by two axes",
}


def sweep_page(result: SweepResult) -> bytes:
    """Returns the page of *result* in UTF-8. Equal results give equal bytes."""
    title = f"{result.benchmark} on {result.chips}"
    head = element(
        "head",
        Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        element("title", f"kernbench sweep: {title}"),
        element("style", Markup(STYLE + PLOT_STYLE)),
    )
    parts = [element("h1", f"Sweep of {title}"), element("p", heading(result), class_="sentence")]
    parts += [element("p", note, class_="note") for note in result.notes]
    said = sweep_sentences(result)
    if cells := list(model_cells(result))[:MOST_ROWS]:
        parts += [element("h2", "The model"), element("p", MODEL_TEXT, class_="soft")]
        parts.append(table(model_headers(result), cells, text=len(model_axes(result))))
    for stem, picture in sweep_pictures(result).items():
        parts += [element("h2", TITLES[stem]), element("p", said[stem], class_="soft")]
        parts.append(element("figure", picture))
        if stem == "front":
            parts.append(_rows(result, [result.configurations[at] for at in result.front]))
    parts += [element("h2", f"{what(result).capitalize()} by {result.by}"), _rows(result, result.configurations)]
    if result.failed:
        parts += [element("h2", "Failed points"), _failed(result)]
    page = f"<!doctype html>\n{element('html', head, element('body', *parts), lang='en')}\n"
    return page.encode("utf-8", "backslashreplace")


def sweep_sentences(result: SweepResult) -> dict[str, str]:
    """Returns the sentence below each picture of `sweep_pictures`, by name."""
    models = "The time of the model, and the time in which its weights and caches pass through HBM once."
    said = {"front": front_sentence(result), "axes": explained_sentence(result), "map": _map_sentence(result)}
    return {"models": models, **said}


def sweep_pictures(result: SweepResult) -> dict[str, Markup]:
    """Returns the pictures of *result* by name, for a page with plot.css, without pictures that would be empty."""
    return {stem: inline(plot) for stem, plot in _plots(result)}


def picture_files(result: SweepResult) -> dict[str, Markup]:
    """Returns the pictures of `sweep_pictures` as whole SVG files, with titles."""
    return {stem: alone(plot, heading(result)) for stem, plot in _plots(result)}


def _plots(result: SweepResult) -> Iterator[tuple[str, Plot]]:
    drawn = (("models", models_picture), ("axes", axes_picture), ("map", map_picture), ("front", front_picture))
    for stem, picture in drawn:
        plot = picture(result)
        if plot is not None:
            yield stem, plot


def _map_sentence(result: SweepResult) -> str:
    rest = len(moving_axes(result)) - 2
    others = f" A cell is the geometric mean over {rest} other ax{'i' if rest == 1 else 'e'}s." if rest else ""
    return f"The two axes that move the latency most.{others}"


def _rows(result: SweepResult, found: Sequence[Configuration]) -> Markup:
    axes = row_axes(result)
    cells = configuration_cells(result, found[:MOST_ROWS])
    shown = table([*axes, *figure_names(result)], cells, text=len(axes))
    if len(found) <= MOST_ROWS:
        return shown
    said = f"The first {MOST_ROWS} of {len(found)}. kb sweep -o FILE.csv writes all points."
    return Markup(shown + element("p", said, class_="soft"))


def _failed(result: SweepResult) -> Markup:
    """The failed points; each error stands whole, in as many lines as it needs."""
    cells = ([*values, element("div", why, class_="wrap")] for *values, why in failure_cells(result, MOST_ROWS))
    return table([*result.axes, "why"], cells, text=len(result.axes) + 1)
