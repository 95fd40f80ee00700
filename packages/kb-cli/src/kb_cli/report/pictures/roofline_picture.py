"""The roofline as SVG: peaks by dtype, the slope of each memory, and marks for the run and its kernel lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil, floor, log10
from typing import Final, NamedTuple

from kb_cli.report.data.performance import SPACES
from kb_cli.report.data.roofline import RooflineChart
from kb_cli.report.elements.page_elements import Markup, element
from kb_cli.terminal.units import bandwidth, quantity

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 900, 430, 84, 210, 14, 46
_NEAR = 90, 14
"""The distance in pixels below which the label of a mark is left out; the table beside the picture has it."""
_DECADES: Final = 12
"""The most powers of ten that the picture spans."""


class _Mark(NamedTuple):
    """The rate of a point, beside its operations for each byte of one memory."""

    name: str
    space: str
    intensity: float
    rate: float


class _Frame(NamedTuple):
    """The range of operations a byte (x) and operations a second (y) in the picture, both as logarithms to 10."""

    low_x: float
    high_x: float
    low_y: float
    high_y: float

    def x(self, value: float) -> float:
        """Returns the distance of *value* from the left, in pixels."""
        share = (log10(value) - self.low_x) / (self.high_x - self.low_x)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        """Returns the distance of *value* from the top, in pixels."""
        share = (log10(value) - self.low_y) / (self.high_y - self.low_y)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def roofline_picture(chart: RooflineChart) -> Markup | None:
    """Returns the picture of *chart*, or None where it has no mark, or no limit beside it."""
    marks = [
        _Mark(point.line or "the run", space, point.flops / nbytes, point.flops / (point.ps / 1e12))
        for point in chart.points
        for space, nbytes in point.nbytes.items()
        if point.flops > 0 and point.ps > 0 and nbytes > 0 and space in chart.bandwidth_gbs
    ]
    slopes = {space: gbs for space, gbs in chart.bandwidth_gbs.items() if gbs > 0}
    if not marks or not (slopes or chart.peaks):
        return None
    frame = _frame(chart, marks, slopes)
    parts = [*_axes(frame), *_peaks(chart, frame, slopes), *_slopes(chart, frame, slopes), *_marks(marks, frame)]
    return element(
        "svg", *parts, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img", aria_label="roofline of the run and its lines"
    )


def _frame(chart: RooflineChart, marks: Iterable[_Mark], slopes: dict[str, float]) -> _Frame:
    """Returns the whole powers of ten around all marks, and around the places where slopes meet the highest peak."""
    top = max((peak.flops for peak in chart.peaks), default=0.0)
    xs = [mark.intensity for mark in marks] + [top / (gbs * 1e9) for gbs in slopes.values() if top]
    ys = [mark.rate for mark in marks] + [peak.flops for peak in chart.peaks]
    low_x, high_x = _decades(xs)
    low_y, high_y = _decades(ys)
    return _Frame(low_x, high_x, low_y, high_y)


def _decades(values: list[float]) -> tuple[int, int]:
    high = ceil(log10(max(values) * 1.3))
    low = max(floor(log10(min(values) / 1.3)), high - _DECADES)
    return low, high


def _axes(frame: _Frame) -> Iterator[Markup]:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    for power in range(int(frame.low_x), int(frame.high_x) + 1):
        x = frame.x(10.0**power)
        yield element("line", x1=x, y1=_TOP, x2=x, y2=bottom, class_="rule")
        yield element("text", f"{10.0**power:g}", x=x, y=bottom + 18, text_anchor="middle", class_="soft")
    for power in range(int(frame.low_y), int(frame.high_y) + 1):
        y = frame.y(10.0**power)
        yield element("line", x1=_LEFT, y1=y, x2=right, y2=y, class_="rule")
        text = quantity(10.0**power, "FLOP/s")
        yield element("text", text, x=_LEFT - 8, y=y + 4, text_anchor="end", class_="soft")
    middle = (_LEFT + right) / 2
    yield element("text", "operations for each byte", x=middle, y=_HEIGHT - 6, text_anchor="middle", class_="soft")


def _peaks(chart: RooflineChart, frame: _Frame, slopes: dict[str, float]) -> Iterator[Markup]:
    """Draws each peak from the place where the fastest slope reaches it. Its label stands at its end."""
    fastest = max(slopes.values(), default=0.0) * 1e9
    right, taken = _WIDTH - _RIGHT, -1.0e9
    for peak in chart.peaks:
        y = frame.y(peak.flops)
        begin = max(_LEFT, frame.x(peak.flops / fastest)) if fastest else _LEFT
        yield element("line", x1=begin, y1=y, x2=right, y2=y, class_="peak")
        at = max(y + 4, taken + 13)
        taken = at
        label = f"{quantity(peak.flops, 'FLOP/s')} {' '.join(peak.dtypes)}"
        yield element("text", label, x=right + 6, y=at)


def _slopes(chart: RooflineChart, frame: _Frame, slopes: dict[str, float]) -> Iterator[Markup]:
    """Draws each slope up to the frame and the highest peak. Its label follows it."""
    top = max((peak.flops for peak in chart.peaks), default=10.0**frame.high_y)
    for number, (space, gbs) in enumerate(slopes.items()):
        rate = gbs * 1e9
        first = max(10.0**frame.low_x, 10.0**frame.low_y / rate)
        last = min(10.0**frame.high_x, top / rate)
        if first >= last:
            continue
        x1, y1, x2, y2 = frame.x(first), frame.y(first * rate), frame.x(last), frame.y(last * rate)
        yield element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=f"slope {space}")
        along = max(0.78 - 0.16 * number, 0.1)  # so that labels of parallel slopes stand at different heights
        x, y = x1 + along * (x2 - x1), y1 + along * (y2 - y1)
        yield element("text", f"{_name(space)} {bandwidth(gbs)}", x=x + 8, y=y + 12)


def _marks(marks: Iterable[_Mark], frame: _Frame) -> Iterator[Markup]:
    labels: list[tuple[float, float]] = []
    for mark in marks:
        if mark.intensity < 10.0**frame.low_x or mark.rate < 10.0**frame.low_y:
            continue
        x, y = frame.x(mark.intensity), frame.y(mark.rate)
        text = f"{mark.name}: {quantity(mark.rate, 'FLOP/s')}, {mark.intensity:.4g} FLOP a byte of {_name(mark.space)}"
        whole = " run" if mark.name == "the run" else ""
        yield element("path", element("title", text), d=_shape(mark.space, x, y), class_=f"mark {mark.space}{whole}")
        if all(abs(x - other_x) > _NEAR[0] or abs(y - other_y) > _NEAR[1] for other_x, other_y in labels):
            labels.append((x, y))
            yield element("text", mark.name[:20], x=x + 9, y=y - 6)


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
    return {**SPACES, "reg": "TCM port"}.get(space, space)
