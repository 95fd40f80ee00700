"""The time of a model and its floor over the values of one axis, such as the context, as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from kb_cli.report.elements.model_points import model_axes, model_points
from kb_cli.report.elements.page_elements import Markup, element
from kb_cli.report.pictures.plots.labels import cut, fitting, width
from kb_cli.report.pictures.plots.plot import WIDTH, Plot, line, mark, text
from kb_cli.report.pictures.plots.scale import Scale, scale
from kb_cli.report.pictures.plots.tick_text import named, time_text, value_text
from kb_cli.sweep.expression import number_of
from kb_cli.sweep.sweep import SweepResult
from kb_cli.terminal.units import duration

_HEIGHT, _RIGHT, _TOP, _BOTTOM = 300, 70, 28, 48

_Dot = tuple[str, float, float]
"""The value of the axis, as text and as a number, and picoseconds."""


def models_picture(result: SweepResult) -> Plot | None:
    """Returns the picture of *result*; None unless its points are of a model, and differ in the numbers of one axis."""
    moving, points = model_axes(result), model_points(result)
    if len(moving) != 1 or len(points) < 2:
        return None
    values = [point.values[moving[0]] for point, _, _ in points]
    numbers = [number_of(value) for value in values]
    if any(number is None for number in numbers):
        return None
    dots = sorted(
        (number or 0.0, value, float(figures.latency_ps), float(model.floor_ps or 0))
        for number, value, (_, figures, model) in zip(numbers, values, points, strict=True)
    )
    times = [(value, number, ps) for number, value, ps, _ in dots]
    floors = [(value, number, ps) for number, value, _, ps in dots if ps]
    every = [*times, *floors]
    y = scale([ps for _, _, ps in every], _HEIGHT - _BOTTOM, _TOP)
    left = max((width(time_text(value)) for value in y.marks()), default=0.0) + 14
    x = scale([number for _, number, _ in every], left + 8, WIDTH - _RIGHT - 8)
    parts = [*_frame(x, y, left, moving[0], times), *_line("floor", floors, x, y), *_line("time", times, x, y)]
    parts += _names([(name, y.at(each[-1][2])) for name, each in (("time", times), ("floor", floors)) if each])
    return Plot(f"Time of the model, and its floor, by {moving[0]}", _HEIGHT, parts)


def _frame(x: Scale, y: Scale, left: float, axis: str, dots: Sequence[_Dot]) -> Iterator[Markup]:
    bottom, right = _HEIGHT - _BOTTOM, WIDTH - _RIGHT
    yield text("time", 0, _TOP - 14)
    for value in y.marks():
        yield line(left, y.at(value), right, y.at(value), "rule")
        yield text(time_text(value), left - 6, y.at(value) + 4, "end")
    texts = [cut(value_text(axis, said), 120) for said, _, _ in dots]
    places = [x.at(number) for _, number, _ in dots]
    shown = fitting([width(said) for said in texts], places, [0, len(texts) - 1])
    for at, (place, said) in enumerate(zip(places, texts, strict=True)):
        title = element("title", f"{axis} {said}")
        ends = {"x1": round(place, 1), "x2": round(place, 1), "y1": bottom, "y2": bottom + 5}
        yield element("line", title, class_="first", **ends)
        if at in shown:
            yield text(said, place, bottom + 18, "middle")
    yield text(cut(named(axis), WIDTH - 200), (left + right) / 2, bottom + 38, "middle")


def _line(name: str, dots: Sequence[_Dot], x: Scale, y: Scale) -> Iterator[Markup]:
    places = [(x.at(number), y.at(ps)) for _, number, ps in dots]
    for (x1, y1), (x2, y2) in pairwise(places):
        yield line(x1, y1, x2, y2, "front" if name == "time" else "far")
    for (said, _, ps), (cx, cy) in zip(dots, places, strict=True):
        yield mark(cx, cy, 5, "best" if name == "time" else "other", f"{name} at {said}: {duration(ps)}")


def _names(ends: Sequence[tuple[str, float]]) -> Iterator[Markup]:
    """Yields the name of each line at its right end, one below the other where the lines meet."""
    order = sorted(ends, key=lambda end: end[1])
    lowest = -1e9
    for name, place in order:
        lowest = max(place, lowest + 15)
        yield text(name, WIDTH - _RIGHT + 10, lowest + 4, style="name")
