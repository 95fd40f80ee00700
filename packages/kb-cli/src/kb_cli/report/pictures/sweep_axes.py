"""The effect of each axis of a sweep on the latency, as SVG: a row for each axis, a dot for each value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kb_cli.report.elements.page_elements import Markup, element
from kb_cli.report.pictures.plots.labels import GAP, cut, fitting, kept, spread, width
from kb_cli.report.pictures.plots.plot import WIDTH, Plot, line, mark, text
from kb_cli.report.pictures.plots.scale import Scale, scale
from kb_cli.report.pictures.plots.tick_text import named, value_text
from kb_cli.sweep.sensitivity import Effect
from kb_cli.sweep.sweep import SweepResult

_SIDE: Final = 12
_ROW: Final = 84
_BELOW: Final = 26
"""The height of a row, and of labels below its band."""
_BAND: Final = 51
"""The place of the band in its row. Labels lie above it."""
_BOTTOM: Final = 44
_REACH: Final = 9
"""Half the height of the band."""


def axes_picture(result: SweepResult) -> Plot | None:
    """Returns the effects of *result* as a picture; None where no axis has a known effect."""
    effects = [effect for effect in result.sensitivity.effects if effect.swing is not None]
    if not effects:
        return None
    ratios = [ratio for effect in effects for ratio in effect.ratios.values() if ratio is not None]
    x = scale([*ratios, 1.0], _SIDE, WIDTH - _SIDE, log=min(ratios) * 4 < max(ratios))
    marks = sorted({*x.marks(), 1.0})
    parts, top = list[Markup](), 0.0
    for effect in effects:
        row = _Row(effect, x)
        parts += row.parts(top, marks)
        top += row.height
    top -= _ROW - _BAND - _REACH - 8
    parts += _axis(x, marks, top)
    return Plot("Latency by axis", top + _BOTTOM, parts)


def _axis(x: Scale, marks: Sequence[float], top: float) -> Iterator[Markup]:
    texts = [f"{value:g}x" for value in marks]
    places = [
        min(max(x.at(value), width(said) / 2), WIDTH - width(said) / 2)
        for value, said in zip(marks, texts, strict=True)
    ]
    for at in fitting([width(said) for said in texts], places, [marks.index(1.0)]):
        yield text(texts[at], places[at], top + 10, "middle")
    said = "latency over that with the first value of the axis (open dot); to the left is faster"
    yield text(said, WIDTH / 2, top + 32, "middle")


class _Row:
    """One axis: its name and swing, the labels of its values, and a band with a dot for each of them."""

    def __init__(self, effect: Effect, x: Scale) -> None:
        self._effect = effect
        self._x = x
        known = [(x.at(ratio), value) for value, ratio in effect.ratios.items() if ratio is not None]
        known.sort(key=lambda each: each[0])
        self._places = [place for place, _ in known]
        self._values = [value for _, value in known]
        self._texts = [cut(value_text(effect.axis, value), 220) for value in self._values]
        widths = [width(said) for said in self._texts]
        room = WIDTH - 2 * GAP
        numbers = range(len(widths))
        if len(kept(widths, room)) == len(widths):
            self._above, self._below = list(numbers), list[int]()
        else:
            halves = [numbers[::2], numbers[1::2]]
            self._above, self._below = ([half[at] for at in kept([widths[n] for n in half], room)] for half in halves)

    @property
    def height(self) -> float:
        """The height of the row, in pixels."""
        return _ROW + (_BELOW if self._below else 0)

    def parts(self, top: float, marks: Sequence[float]) -> Iterator[Markup]:
        """Yields the elements of the row, which begins at *top*; *marks* are the values with a line."""
        yield from self._head(top)
        middle = top + _BAND
        upper, lower = middle - _REACH, middle + _REACH
        yield element("rect", x=0, y=upper, width=WIDTH, height=2 * _REACH, rx=4, class_="band")
        for ratio in marks:
            place = self._x.at(ratio)
            yield line(place, upper, place, lower, "first" if ratio == 1.0 else "rule")
        yield line(self._places[0], middle, self._places[-1], middle, "front")
        yield from self._labels(self._above, top + 30, top + 34, upper + 4)
        yield from self._labels(self._below, lower + 26, lower + 15, lower - 4)
        first = next(iter(value for value, ratio in self._effect.ratios.items() if ratio is not None))
        dots = sorted(zip(self._places, self._values, strict=True), key=lambda dot: dot[1] == first)
        for place, value in dots:  # the first value is drawn last, because dots of its latency lie on it
            said = f"{self._effect.axis} {value}: {self._effect.ratios[value]:.4g}x"
            yield mark(place, middle, 5, "open" if value == first else "best", said)

    def _head(self, top: float) -> Iterator[Markup]:
        swing = f"swing {self._effect.swing:.3f}x"
        hidden = len(self._values) - len(self._above) - len(self._below)
        swing += f"; {hidden} of {len(self._values)} values are without a label" if hidden else ""
        name = cut(named(self._effect.axis), (WIDTH - width(swing) - GAP) / 1.1)
        yield text(name, 0, top + 12, style="name")
        yield text(swing, WIDTH, top + 12, "end")

    def _labels(self, numbers: Sequence[int], baseline: float, near: float, far: float) -> Iterator[Markup]:
        """Yields labels on one line, each with a line from *near* to its dot, which begins at *far*."""
        widths = [width(self._texts[at]) for at in numbers]
        middles = spread(widths, [self._places[at] for at in numbers], 0, WIDTH)
        for at, middle in zip(numbers, middles, strict=True):
            place = self._places[at]
            if abs(place - middle) > 1:
                yield line(middle, near, place, far, "leader")
            yield text(self._texts[at], middle, baseline, "middle")
