"""The latency over the two axes that move it most, as SVG: a cell for each pair of values, the hotter the slower."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import exp, log
from typing import Final, NamedTuple

from kb_cli.report.elements.page_elements import Markup, element
from kb_cli.report.pictures.plots.labels import GAP, cut, fitting, width
from kb_cli.report.pictures.plots.plot import WIDTH, Plot, line, text
from kb_cli.report.pictures.plots.tick_text import named, one_unit
from kb_cli.sweep.sweep import SweepResult
from kb_cli.terminal.units import duration
from kb_topology.diagram import HEAT_COLOURS, heat_step

_CELL: Final = 34
_TOP: Final = 78
"""The height above the cells: the legend and the name of the axis that goes down."""
_MOST_LEFT: Final = 170
_MOST_VALUES: Final = 24
"""The most values of an axis. Cells of more values would have no room for their numbers."""
_SWATCH: Final = 34


def map_picture(result: SweepResult) -> Plot | None:
    """Returns the map of *result*; None where fewer than two axes have an effect, or an axis has too many values."""
    effects = result.sensitivity.effects
    axes = [effect.axis for effect in effects if effect.swing is not None and effect.axis in result.axes][:2]
    if len(axes) < 2 or max(len(result.axes[axis]) for axis in axes) > _MOST_VALUES:
        return None
    across, down = sorted(axes, key=lambda axis: -len(result.axes[axis]))
    found = _Map(across, down, result.axes[across], result.axes[down], _means(result, across, down))
    failed = {(point.values[across], point.values[down]) for point in result.points if point.error}
    bottom = _TOP + _CELL * len(found.rows)
    columns = list(_columns(found, bottom))
    parts = [*_legend(found), *_rows(found), *_cells(found, failed), *columns]
    height = bottom + _under(found) + 26
    return Plot(f"Latency by {across} and {down}", height, parts)


class _Map(NamedTuple):
    """The two axes, their values, and the logarithm of the latency (of ps) by the values of both."""

    across: str
    down: str
    columns: Sequence[str]
    rows: Sequence[str]
    means: Mapping[tuple[str, str], float]

    @property
    def left(self) -> float:
        """The place where the cells begin, in pixels."""
        return min(max(map(width, self.rows)), _MOST_LEFT) + GAP

    @property
    def column_width(self) -> float:
        """The width of a column, in pixels."""
        return (WIDTH - self.left) / len(self.columns)

    def step(self, mean: float) -> int:
        """The number of the colour of a cell."""
        low, high = min(self.means.values()), max(self.means.values())
        return heat_step((mean - low) / (high - low)) if high > low else 0


def _means(result: SweepResult, across: str, down: str) -> dict[tuple[str, str], float]:
    logs: dict[tuple[str, str], list[float]] = {}
    for each in result.configurations:
        if each.latency_ps:
            logs.setdefault((each.values[across], each.values[down]), []).append(log(each.latency_ps))
    return {place: sum(found) / len(found) for place, found in logs.items()}


def _legend(found: _Map) -> Iterator[Markup]:
    """Yields the colours from fast to slow, with the latency at each end of a colour."""
    low, high = min(found.means.values()), max(found.means.values())
    n = len(HEAT_COLOURS) if high > low else 1
    left, top = WIDTH - n * _SWATCH - 6, 4
    yield text("fast", left - GAP, top + 10, "end")
    unit, texts = one_unit([exp(low + (high - low) * at / n) for at in range(n + 1)])
    for at in range(n):
        x = left + _SWATCH * at
        yield element("rect", x=x, y=top, width=_SWATCH, height=12, class_=f"heat{at}")
    places = [min(left + _SWATCH * at, WIDTH - width(said) / 2) for at, said in enumerate(texts)]
    for at in fitting([width(said) for said in texts], places, [0, n]):
        yield line(left + _SWATCH * at, top + 12, left + _SWATCH * at, top + 16, "first")
        yield text(texts[at], places[at], top + 28, "middle")
    yield text(f"latency, {unit}; slow is hot", 0, top + 10)


def _rows(found: _Map) -> Iterator[Markup]:
    yield text(cut(named(found.down), WIDTH), 0, _TOP - 12, style="name")
    for number, value in enumerate(found.rows):
        said = element("title", f"{found.down} {value}")
        shown = cut(value, _MOST_LEFT)
        y = _TOP + _CELL * number + 21
        yield element("text", shown, said, x=round(found.left - GAP, 1), y=y, text_anchor="end", class_="soft")


def _cells(found: _Map, failed: set[tuple[str, str]]) -> Iterator[Markup]:
    order = list(found.means)
    _, texts = one_unit([exp(found.means[place]) for place in order])
    shown = dict(zip(order, texts, strict=True))
    has_room = max(map(width, texts)) + 4 <= found.column_width
    for row, below in enumerate(found.rows):
        y = _TOP + _CELL * row
        for column, beside in enumerate(found.columns):
            x = found.left + found.column_width * column
            middle = x + found.column_width / 2 - 1
            size = {"x": round(x, 1), "y": y, "width": round(found.column_width - 2, 1), "height": _CELL - 2}
            where = f"{found.across} {beside}, {found.down} {below}"
            mean = found.means.get((beside, below))
            if mean is None:
                what = "failed" if (beside, below) in failed else "not simulated"
                yield element("rect", element("title", f"{where}: {what}"), class_="gap", **size)
                if width(what) + 4 <= found.column_width:
                    yield text(what, middle, y + 20, "middle")
                continue
            step = found.step(mean)
            said = element("title", f"{where}: {duration(exp(mean))}")
            yield element("rect", said, class_=f"heat{step}", **size)
            if has_room:
                yield text(shown[beside, below], middle, y + 20, "middle", f"on-heat{step}")


def _is_turned(found: _Map) -> bool:
    """Whether the values below the columns stand upright, because side by side they would meet."""
    return max(map(width, found.columns)) + GAP > found.column_width


def _under(found: _Map) -> float:
    """The height of the values below the columns."""
    return min(max(map(width, found.columns)), _MOST_LEFT) + 14 if _is_turned(found) else 20


def _columns(found: _Map, bottom: float) -> Iterator[Markup]:
    for number, value in enumerate(found.columns):
        x, said = found.left + found.column_width * (number + 0.5) - 1, element("title", f"{found.across} {value}")
        if not _is_turned(found):
            yield element("text", value, said, x=round(x, 1), y=bottom + 14, text_anchor="middle", class_="soft")
            continue
        turn = f"translate({x + 4:.1f},{bottom + 6}) rotate(-90)"
        yield element("text", cut(value, _MOST_LEFT), said, transform=turn, text_anchor="end", class_="soft")
    middle = (found.left + WIDTH) / 2
    yield text(cut(named(found.across), WIDTH - found.left), middle, bottom + _under(found) + 16, "middle", "name")
