"""The roofline as SVG: roofs of the run's dtypes, slopes of the memories in use, and marks of runs and lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log10
from typing import Final, NamedTuple

from kb_cli.report.data.performance import SPACES
from kb_cli.report.data.roofline import RooflineChart
from kb_cli.report.data.roofline_points import RooflinePoint
from kb_cli.report.elements.page_elements import Markup, element
from kb_cli.report.pictures.plots.labels import width
from kb_cli.report.pictures.plots.placed_labels import Box, LabelPlaces, PlacedLabel, Segment
from kb_cli.report.pictures.plots.plot import WIDTH, Plot, inline, line, text
from kb_cli.report.pictures.plots.scale import Scale
from kb_cli.terminal.units import bandwidth, quantity

_HEIGHT: Final = 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 96, WIDTH - 10, 30, _HEIGHT - 44
_DASH: Final = 20
"""The room for a piece of a slope before its label, in pixels."""
_MOST_DECADES: Final = 12
_MOST_MARKS: Final = 400
"""The most points with marks, the ones with the most time. More would be a blot."""
_MOST_LABELS: Final = 24
"""The most marks that labels are tried for. The table beside the picture has all points."""


class _Mark(NamedTuple):
    """The rate of a point, beside its operations for each byte of one memory."""

    point: RooflinePoint
    space: str
    intensity: float
    rate: float


class _Roof(NamedTuple):
    """A rate that no work of a kind exceeds: a line from the place where the fastest slope meets it."""

    name: str
    rate: float


def roofline_picture(chart: RooflineChart) -> Markup | None:
    """Returns the picture of *chart* for a page with plot.css; None where it has no mark, or no limit beside it."""
    plot = roofline_plot(chart)
    return None if plot is None else inline(plot)


def roofline_plot(chart: RooflineChart) -> Plot | None:
    """Returns the picture of *chart*, or None where it has no mark, or no limit beside it."""
    shown = sorted(chart.points, key=lambda each: (each.label != "the run", -each.ps))[:_MOST_MARKS]
    marks = [
        _Mark(point, space, point.flops / nbytes, point.flops / (point.ps / 1e12))
        for point in shown
        for space, nbytes in point.nbytes.items()
        if point.flops > 0 and point.ps > 0 and nbytes > 0 and space in chart.bandwidth_gbs
    ]
    used = {mark.space for mark in marks}
    slopes = {space: gbs * 1e9 for space, gbs in chart.bandwidth_gbs.items() if gbs > 0 and space in used}
    roofs = [_Roof(f"GEMM {' '.join(peak.dtypes)}", peak.flops) for peak in chart.peaks]
    roofs += [_Roof("math units", chart.math_flops)] if chart.math_flops else []
    if not marks or not (slopes or roofs):
        return None
    return Plot("roofline of the run, its launches and its lines", _HEIGHT, _Drawing(marks, slopes, roofs).parts())


class _Drawing:
    """The elements of a roofline, in the order in which they lie on one another."""

    def __init__(self, marks: Sequence[_Mark], slopes: dict[str, float], roofs: Sequence[_Roof]) -> None:
        self._slopes, self._roofs = slopes, roofs
        self._top = max((roof.rate for roof in roofs), default=0.0)
        self._x = _scale(
            [mark.intensity for mark in marks] + [self._top / rate for rate in slopes.values() if self._top],
            _LEFT,
            _RIGHT,
        )
        self._y = _scale([mark.rate for mark in marks] + [roof.rate for roof in roofs], _BOTTOM, _TOP)
        self._marks = [mark for mark in marks if mark.intensity >= self._x.low and mark.rate >= self._y.low]
        self._places = LabelPlaces(Box(_LEFT + 4, 20, _RIGHT, _BOTTOM - 2))

    def parts(self) -> list[Markup]:
        """The axes, lines, marks and labels."""
        roofs = [(roof, self._roof_line(roof)) for roof in self._roofs]
        slopes = [(space, each) for space, rate in self._slopes.items() if (each := self._slope_line(rate)) is not None]
        key = list(self._key())
        self._places.take(*(each for _, each in roofs), *(each for _, each in slopes))
        for mark in self._marks:
            x, y = self._x.at(mark.intensity), self._y.at(mark.rate)
            self._places.take(Box(x - 7, y - 7, x + 7, y + 7))
        labels = [*self._roof_labels(roofs), *self._slope_labels(slopes), *self._mark_labels()]
        parts = list(self._axes())
        parts += [line(*each, "peak") for _, each in roofs]
        parts += [line(*each, f"slope {space}") for space, each in slopes]
        parts += [line(*label.leader, "leader") for label in labels if label.leader is not None]
        parts += [_drawn(mark, self._x.at(mark.intensity), self._y.at(mark.rate)) for mark in self._marks[::-1]]
        for label in labels:
            box = label.box
            size = {"width": round(box.right - box.left, 1), "height": round(box.bottom - box.top, 1)}
            parts.append(element("rect", class_="page", x=round(box.left, 1), y=round(box.top, 1), **size))
            parts.append(text(label.text, label.x, label.y, style=""))
            if label.dash:
                parts.append(line(label.x - _DASH, label.y - 4, label.x - 5, label.y - 4, label.dash))
        return [*parts, *key]

    def _axes(self) -> Iterator[Markup]:
        for value in self._x.marks():
            x = self._x.at(value)
            yield line(x, _TOP, x, _BOTTOM, "rule")
            yield text(f"{value:g}", x, _BOTTOM + 17, "middle")
        for value in self._y.marks():
            y = self._y.at(value)
            yield line(_LEFT, y, _RIGHT, y, "rule")
            yield text(quantity(value, "FLOP/s"), _LEFT - 8, y + 4, "end")
        for value in _between(self._x):
            yield line(self._x.at(value), _BOTTOM, self._x.at(value), _BOTTOM + 4, "tick")
        for value in _between(self._y):
            yield line(_LEFT - 4, self._y.at(value), _LEFT, self._y.at(value), "tick")
        yield line(_LEFT, _BOTTOM, _RIGHT, _BOTTOM, "tick")
        yield line(_LEFT, _TOP, _LEFT, _BOTTOM, "tick")
        yield text("operations for each byte", (_LEFT + _RIGHT) / 2, _HEIGHT - 6, "middle")

    def _key(self) -> Iterator[Markup]:
        """The shapes of the memories, above the picture."""
        x = float(_LEFT)
        for space in self._slopes:
            yield element("path", d=_shape(space, x + 6, 9), class_=f"mark {space} run")
            yield text(_name(space), x + 16, 13)
            x += 34 + width(_name(space))
        yield text("filled: the run", x, 13)

    def _roof_line(self, roof: _Roof) -> Segment:
        fastest = max(self._slopes.values(), default=0.0)
        begin = max(self._x.low, roof.rate / fastest) if fastest else self._x.low
        y = self._y.at(roof.rate)
        return Segment(self._x.at(min(begin, self._x.high)), y, _RIGHT, y)

    def _slope_line(self, rate: float) -> Segment | None:
        """Returns the part of a slope within the frame and below the highest roof; None if there is no such part."""
        first = max(self._x.low, self._y.low / rate)
        last = min(self._x.high, (self._top or self._y.high) / rate)
        if first >= last:
            return None
        return Segment(self._x.at(first), self._y.at(first * rate), self._x.at(last), self._y.at(last * rate))

    def _roof_labels(self, roofs: Sequence[tuple[_Roof, Segment]]) -> Iterator[PlacedLabel]:
        for roof, each in roofs:
            said = f"{roof.name} {quantity(roof.rate, 'FLOP/s')}"
            wide = width(said)
            places = ((_RIGHT - wide - 8 * step, each.y1 + down) for step in range(40) for down in (-6, 16))
            found = self._places.first_free(said, places)
            if found is not None:
                yield found

    def _slope_labels(self, slopes: Sequence[tuple[str, Segment]]) -> Iterator[PlacedLabel]:
        for space, each in slopes:
            said = f"{_name(space)} {bandwidth(self._slopes[space] / 1e9)}"
            wide = width(said)
            along = [0.66 + sign * step / 60 for step in range(20) for sign in (1, -1)]
            points = [(each.x1 + at * (each.x2 - each.x1), each.y1 + at * (each.y2 - each.y1)) for at in along]
            places = (place for x, y in points for place in ((x - wide - 4, y - 5), (x + 8 + _DASH, y + 14)))
            found = self._places.first_free(said, places, _DASH)
            if found is not None:
                yield found._replace(dash=f"slope {space}")

    def _mark_labels(self) -> Iterator[PlacedLabel]:
        """Yields a label for each point, beside the first of its marks that has room."""
        named, tried = set[str](), set[tuple[str, str]]()
        for mark in self._marks:
            name = mark.point.label
            if name in named or len(tried) >= _MOST_LABELS:
                continue
            tried.add((name, mark.space))
            found = self._places.beside(name[-28:], self._x.at(mark.intensity), self._y.at(mark.rate))
            if found is not None:
                named.add(name)
                yield found


def _scale(values: Sequence[float], start: float, end: float) -> Scale:
    """Returns a scale with room for *values* and for marks and labels at its ends, and a power of ten at least."""
    high = max(values) * 1.6
    low = max(min(values) / 1.6, high / 10.0**_MOST_DECADES)
    if high / low < 10:
        middle = (high * low) ** 0.5
        low, high = middle / 10**0.5, middle * 10**0.5
    return Scale(low, high, start, end, log=True)


def _between(scale: Scale) -> Iterator[float]:
    """Yields 2 to 9 times the powers of ten of *scale*, unless they stand too close to be told apart."""
    if log10(scale.high / scale.low) > 6:
        return
    first, last = int(log10(scale.low)) - 1, int(log10(scale.high)) + 1
    for value in (digit * 10.0**power for power in range(first, last + 1) for digit in range(2, 10)):
        if scale.low <= value <= scale.high:
            yield value


def _drawn(mark: _Mark, x: float, y: float) -> Markup:
    name = mark.point.label
    said = f"{name}: {quantity(mark.rate, 'FLOP/s')}, {mark.intensity:.4g} FLOP a byte of {_name(mark.space)}"
    whole = " run" if name == "the run" else ""
    return element("path", element("title", said), d=_shape(mark.space, x, y), class_=f"mark {mark.space}{whole}")


def _shape(space: str, x: float, y: float) -> str:
    """Returns a circle for HBM, a square for SRAM, a diamond for caches, a triangle for other memories: shapes work
    without colours.
    """
    if space == "hbm":
        return f"M{x - 5:.2f} {y:.2f}a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z"
    if space == "sram":
        return f"M{x - 4.5:.2f} {y - 4.5:.2f}h9v9h-9z"
    if space.endswith(" cache"):
        return f"M{x:.2f} {y - 6:.2f}l6 6l-6 6l-6 -6z"
    return f"M{x:.2f} {y - 6:.2f}l5.5 10h-11z"


def _name(space: str) -> str:
    return {**SPACES, "reg": "TCM ports"}.get(space, space)
