"""The latency over the two axes that move it most, as SVG: a cell for each pair of values."""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, log

from kb_cli.report.elements.page_elements import Markup, element, shortened
from kb_cli.sweep.sweep import SweepResult
from kb_cli.terminal.units import duration

_WIDTH, _LEFT, _TOP, _CELL, _BOTTOM = 900, 140, 10, 34, 48
_MOST_VALUES = 24
"""The most values of an axis. Cells of more values would have no room for their numbers."""


def map_picture(result: SweepResult) -> Markup | None:
    """Returns the map of *result*; None where fewer than two axes have an effect, or an axis has too many values."""
    effects = result.sensitivity.effects
    axes = [effect.axis for effect in effects if effect.swing is not None and effect.axis in result.axes][:2]
    if len(axes) < 2 or max(len(result.axes[axis]) for axis in axes) > _MOST_VALUES:
        return None
    across, down = sorted(axes, key=lambda axis: -len(result.axes[axis]))
    logs: dict[tuple[str, str], list[float]] = {}
    for each in result.configurations:
        if each.latency_ps:
            place = each.values[across], each.values[down]
            logs.setdefault(place, []).append(log(each.latency_ps))
    means = {place: sum(found) / len(found) for place, found in logs.items()}
    parts = [*_cells(result, (across, down), means)]
    height = _TOP + _CELL * len(result.axes[down]) + _BOTTOM
    label = f"latency by {across} and {down}"
    return element("svg", *parts, viewBox=f"0 0 {_WIDTH} {height}", role="img", aria_label=label)


def _cells(result: SweepResult, axes: tuple[str, str], means: dict[tuple[str, str], float]) -> Iterator[Markup]:
    across, down = axes
    width = (_WIDTH - _LEFT - 10) / len(result.axes[across])
    low, high = min(means.values()), max(means.values())
    bottom = _TOP + _CELL * len(result.axes[down])
    for row, below in enumerate(result.axes[down]):
        y = _TOP + _CELL * row
        yield element("text", shortened(below, 18), x=_LEFT - 10, y=y + 21, text_anchor="end", class_="soft")
        for column, beside in enumerate(result.axes[across]):
            mean = means.get((beside, below))
            if mean is None:
                continue
            share = (mean - low) / (high - low) if high > low else 0.0
            x, title = _LEFT + width * column, f"{across} {beside}, {down} {below}: {duration(exp(mean))}"
            yield element(
                "rect",
                element("title", title),
                x=round(x, 1),
                y=y,
                width=round(width - 2, 1),
                height=_CELL - 2,
                fill_opacity=round(0.08 + 0.72 * share, 3),
                class_="cell",
            )
            if width > 62:
                middle = round(x + width / 2 - 1, 1)
                yield element("text", duration(exp(mean)), x=middle, y=y + 20, text_anchor="middle")
    for column, beside in enumerate(result.axes[across]):
        x = _LEFT + width * (column + 0.5)
        yield element("text", shortened(beside, 14), x=round(x, 1), y=bottom + 16, text_anchor="middle", class_="soft")
    yield element("text", across, x=(_LEFT + _WIDTH) / 2, y=bottom + 36, text_anchor="middle")
    yield element("text", down, x=6, y=_TOP + 12)
