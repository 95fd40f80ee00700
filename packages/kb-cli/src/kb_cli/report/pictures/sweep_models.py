"""The time of a model and its floor over the values of one axis, such as the context, as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from kb_cli.report.elements.model_points import model_axes, model_points
from kb_cli.report.elements.page_elements import Markup, element
from kb_cli.report.pictures.scale import Scale, scale
from kb_cli.sweep.expression import number_of
from kb_cli.sweep.sweep import SweepResult
from kb_cli.terminal.units import duration

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 900, 300, 90, 90, 16, 46
_NEAR: Final = 40
"""The distance in pixels below which the value below a point is left out; the title of the point has it."""

_Dot = tuple[str, float, float]
"""The value of the axis, as text and as a number, and picoseconds."""


def models_picture(result: SweepResult) -> Markup | None:
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
    x = scale([number for _, number, _ in every], _LEFT, _WIDTH - _RIGHT)
    y = scale([ps for _, _, ps in every], _HEIGHT - _BOTTOM, _TOP)
    parts = [*_frame(x, y, moving[0], times), *_line("floor", floors, x, y, "other")]
    parts += _line("time", times, x, y, "best")
    label = f"time of the model by {moving[0]}"
    return element("svg", *parts, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img", aria_label=label)


def _frame(x: Scale, y: Scale, axis: str, dots: Sequence[_Dot]) -> Iterator[Markup]:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    for value in y.marks():
        yield element("line", x1=_LEFT, y1=y.at(value), x2=right, y2=y.at(value), class_="rule")
        yield element("text", duration(value), x=_LEFT - 8, y=y.at(value) + 4, text_anchor="end", class_="soft")
    last = -float(_NEAR)
    for text, number, _ in dots:
        if x.at(number) - last >= _NEAR:
            last = x.at(number)
            yield element("text", text, x=round(last, 1), y=bottom + 17, text_anchor="middle", class_="soft")
    yield element("text", axis, x=(_LEFT + right) / 2, y=bottom + 36, text_anchor="middle", class_="soft")


def _line(name: str, dots: Sequence[_Dot], x: Scale, y: Scale, style: str) -> Iterator[Markup]:
    places = [(round(x.at(number), 1), round(y.at(ps), 1)) for _, number, ps in dots]
    for (x1, y1), (x2, y2) in pairwise(places):
        yield element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_="reach")
    for (text, _, ps), (cx, cy) in zip(dots, places, strict=True):
        yield element("circle", element("title", f"{name} at {text}: {duration(ps)}"), cx=cx, cy=cy, r=5, class_=style)
    if places:
        yield element("text", name, x=places[-1][0] + 12, y=places[-1][1] + 4)
