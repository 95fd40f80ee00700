"""Names of the points of a Pareto front, beside their dots: what else they are, and how fast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kb_cli.report.elements.page_elements import Markup
from kb_cli.report.pictures.plots.labels import width
from kb_cli.report.pictures.plots.placed_labels import Box, LabelPlaces, Segment
from kb_cli.report.pictures.plots.plot import line, text
from kb_cli.report.pictures.plots.tick_text import time_text, value_text
from kb_cli.sweep.sweep import SweepResult

_MOST_NAMES: Final = 12
_MOST_DOTS: Final = 400
"""The most points of the front with a name, and the most dots between which names are placed."""
_WIDEST: Final = 210
"""The widest name, in pixels. A point with more values has its time alone; the dot's title has all."""
_DOT: Final = 6.0

Place = tuple[float, float]
"""A point of the picture, in pixels."""


def front_names(
    result: SweepResult, axes: Sequence[str], dots: Sequence[Place], lines: Sequence[Segment], frame: Box
) -> Iterator[Markup]:
    """Yields a name for each point of the front that has room for one within *frame*.

    *axes* are those that the picture's own axis shows. *dots* are the places of all configurations of *result*, in
    their order, and *lines* are those that no name may lie on.
    """
    if len(result.front) > _MOST_NAMES or len(dots) > _MOST_DOTS:
        return
    places = LabelPlaces(frame)
    places.take(*(Box(x - _DOT, y - _DOT, x + _DOT, y + _DOT) for x, y in dots), *lines)
    for at in sorted(result.front, key=lambda at: dots[at]):
        found = places.beside(_name(result, at, axes), *dots[at])
        if found is None:
            continue
        if found.leader is not None:
            yield line(*found.leader, "leader")
        yield text(found.text, found.x, found.y)


def _name(result: SweepResult, at: int, axes: Sequence[str]) -> str:
    found = result.configurations[at]
    hidden = {*axes, *result.best, *(axis for axis, values in result.axes.items() if len(values) == 1)}
    values = {axis: value for axis, value in found.values.items() if axis not in hidden}
    time = time_text(float(f"{found.figure_ps:.4g}"))
    others = ", ".join(_said(axis, value) for axis, value in {**values, **found.mapping}.items())
    whole = f"{others}: {time}" if others else time
    return whole if width(whole) <= _WIDEST else time


def _said(axis: str, value: str) -> str:
    """Returns a value, with the name of its axis where the value alone is a bare number."""
    said = value_text(axis, value)
    return f"{axis} {said}" if said.replace(".", "", 1).isdecimal() else said
