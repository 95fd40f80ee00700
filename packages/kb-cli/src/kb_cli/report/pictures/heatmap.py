"""Heat maps of matrices as SVG: a panel for each quantity, with a coloured cell for each pair and a legend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

import numpy as np
from msgspec import Struct

from kb_cli.report.elements.page_elements import Markup, element
from kb_cli.report.pictures.heat_image import heat_images, heat_ramp
from kb_cli.report.pictures.plots.labels import GAP, cut, fitting, width
from kb_cli.report.pictures.plots.plot import WIDTH, Plot, alone, line, text
from kb_cli.report.pictures.plots.scale import Scale
from kb_cli.report.pictures.png import Values
from kb_topology.diagram import heat_step

_HEAD: Final = 52
"""The height of the title and the legend of a panel."""
_RAMP: Final = 200
"""The width of a legend."""
_LEAST: Final = 15.0
"""The least distance of two labels on an axis, in pixels."""
_MOST_CELLS: Final = 16
"""The most rows and columns with a text in each cell. Larger matrices are images."""
_MOST_LABEL: Final = 150


class HeatMapPanel(Struct, frozen=True, kw_only=True):
    """One quantity: `values[row, column]` in `unit`, NaN for no value. `hot` says which end of the values is hot."""

    title: str
    unit: str
    values: Values
    hot: Literal["high", "low"]


class Tick(Struct, frozen=True):
    """A label for the rows or columns from `start` up to the next tick. One with `begins` starts a group."""

    start: int
    text: str
    begins: bool = False


def heat_map(
    title: str, said: str, panels: Sequence[HeatMapPanel], rows: Sequence[Tick], columns: Sequence[Tick]
) -> str:
    """Returns an SVG file with the panels one below the other. *rows* and *columns* are the labels of the cells."""
    parts, top = list[Markup](), 0.0
    for panel in panels:
        drawn = _Panel(panel, top, rows, columns)
        parts += drawn.parts()
        top += drawn.height
    return f"{alone(Plot(title, top, parts), said)}\n"


class _Panel:
    """The cells of one quantity, with the labels of rows and columns, and a legend."""

    def __init__(self, panel: HeatMapPanel, top: float, rows: Sequence[Tick], columns: Sequence[Tick]) -> None:
        self._panel = panel
        self._rows, self._columns = rows, columns
        n_rows, n_columns = panel.values.shape
        self._left = min(max(width(tick.text) for tick in rows), _MOST_LABEL) + GAP
        self._cells_width = WIDTH - self._left
        self._cell = self._cells_width / n_columns
        self._row = min(34.0, max(self._cell, 18.0)) if n_rows <= _MOST_CELLS else self._cells_width / n_rows
        self._top = top + _HEAD
        self._bottom = self._top + self._row * n_rows
        self._is_turned = max(width(tick.text) for tick in columns) + GAP > self._cell or n_columns > _MOST_CELLS
        self._under = min(max(width(tick.text) for tick in columns), _MOST_LABEL) + 14 if self._is_turned else 22
        self.height = _HEAD + self._row * n_rows + self._under + 24

    def parts(self) -> Iterator[Markup]:
        """Yields the elements of the panel."""
        known = self._panel.values[np.isfinite(self._panel.values)]
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
        shares = _shares(self._panel, low, high)
        yield from self._legend(low, high, known.size < self._panel.values.size)
        box = {"x": round(self._left, 1), "y": self._top, "width": round(self._cells_width, 1)}
        yield element("rect", class_="band", height=round(self._bottom - self._top, 1), **box)
        if max(shares.shape) <= _MOST_CELLS:
            yield from self._cells(shares)
        else:
            yield from heat_images(shares, height=round(self._bottom - self._top, 1), **box)
        yield from self._axes()

    def _legend(self, low: float, high: float, has_gaps: bool) -> Iterator[Markup]:
        top = self._top - _HEAD
        yield text(self._panel.title, 0, top + 12, style="name")
        said = f"{self._panel.unit}; {self._panel.hot} is hot" + ("; blank: no path" if has_gaps else "")
        yield text(said, width(self._panel.title) * 1.15 + GAP, top + 12)
        left = WIDTH - _RAMP - 8.0
        yield from heat_ramp(self._panel.hot == "low", x=left, y=top + 2, width=_RAMP, height=12)
        if low == high:
            yield text(f"{low:.4g}", left + _RAMP / 2, top + 28, "middle")
            return
        scale = Scale(low, high, left, left + _RAMP, _is_log(low, high))
        marks = [low, high, *(value for value in scale.marks() if low < value < high)]
        texts = [f"{value:.4g}" for value in marks]
        places = [min(scale.at(value), WIDTH - width(said) / 2) for value, said in zip(marks, texts, strict=True)]
        for at in fitting([width(said) for said in texts], places):
            yield line(scale.at(marks[at]), top + 14, scale.at(marks[at]), top + 18, "first")
            yield text(texts[at], places[at], top + 30, "middle")

    def _cells(self, shares: Values) -> Iterator[Markup]:
        texts = [[f"{value:.4g}" for value in row] for row in self._panel.values]
        has_room = max(width(said) for row in texts for said in row) + 4 <= self._cell
        for (row, column), share in np.ndenumerate(shares):
            if not np.isfinite(share):
                continue
            x, y = self._left + self._cell * column, self._top + self._row * row
            said = f"{self._rows[row].text}, {self._columns[column].text}: {texts[row][column]} {self._panel.unit}"
            size = {"width": round(self._cell - 1, 1), "height": round(self._row - 1, 1)}
            css = f"heat{heat_step(float(share))}"
            yield element("rect", element("title", said), x=round(x, 1), y=round(y, 1), class_=css, **size)
            if has_room:
                yield text(texts[row][column], x + self._cell / 2, y + self._row / 2 + 4, "middle", f"on-{css}")

    def _axes(self) -> Iterator[Markup]:
        for tick, begin, middle in _labels(self._rows, self._row, self._panel.values.shape[0], self._top):
            if tick.begins:
                yield line(0, begin, WIDTH, begin, "cut")
            yield _label(tick.text, "end", x=round(self._left - GAP, 1), y=round(middle + 4, 1))
        for tick, begin, middle in _labels(self._columns, self._cell, self._panel.values.shape[1], self._left):
            if tick.begins:
                yield line(begin, self._top, begin, self._bottom + self._under, "cut")
            if self._is_turned:
                turn = f"translate({middle + 4:.1f},{self._bottom + 6:.1f}) rotate(-90)"
                yield _label(tick.text, "end", transform=turn)
            else:
                yield _label(tick.text, "middle", x=round(middle, 1), y=round(self._bottom + 15, 1))


def _label(said: str, anchor: str, **place: str | float) -> Markup:
    """Returns a label of an axis. A reader who points at a label sees the whole of it."""
    title = element("title", said)
    return element("text", cut(said, _MOST_LABEL), title, text_anchor=anchor, class_="soft", **place)


def _is_log(low: float, high: float) -> bool:
    """Whether colours follow the logarithm, because a few large values would leave one colour to all others."""
    return low > 0 and high / low > 4


def _shares(panel: HeatMapPanel, low: float, high: float) -> Values:
    """Returns how hot each value is, from 0 to 1; 0.5 where all are equal."""
    if low == high:
        return panel.values * 0 + 0.5
    values = (
        np.log(panel.values / low) / np.log(high / low) if _is_log(low, high) else (panel.values - low) / (high - low)
    )
    return values if panel.hot == "high" else 1 - values


def _labels(ticks: Sequence[Tick], cell: float, count: int, start: float) -> Iterator[tuple[Tick, float, float]]:
    """Yields the ticks that have room, the pixel where their cells begin, and the middle of these cells.

    In each group the first tick is shown, then every second, fourth, eighth, ...
    """
    ends = [*(tick.start for tick in ticks[1:]), count]
    least = min(end - tick.start for tick, end in zip(ticks, ends, strict=True)) * cell
    step = 1
    while step * least < _LEAST and step < len(ticks):
        step *= 2
    number = 0
    for tick, end in zip(ticks, ends, strict=True):
        number = 0 if tick.begins else number
        if number % step == 0:
            yield tick, start + tick.start * cell, start + (tick.start + end) / 2 * cell
        number += 1
