"""Latency against each cost of a sweep, as SVG: all points, and the points of the Pareto front."""

from __future__ import annotations

from collections.abc import Iterator

from kb_cli.report.elements.page_elements import Markup, element
from kb_cli.report.pictures.scale import Scale, scale
from kb_cli.sweep.sweep import SweepResult
from kb_cli.terminal.units import duration

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 900, 300, 90, 20, 12, 46
_MOST_MARKS = 4000
"""The most points off the front in a picture. A picture of more of them is a blot, and slow to show."""


def front_picture(result: SweepResult) -> Markup | None:
    """Returns a panel for each cost of *result*; None without a front, or where nothing differs."""
    if not result.front or len(result.configurations) < 2:
        return None
    panels = [part for number in range(len(result.costs)) for part in _panel(result, number)]
    height = _HEIGHT * len(result.costs)
    label = "latency against cost"
    return element("svg", *panels, viewBox=f"0 0 {_WIDTH} {height}", role="img", aria_label=label)


def _panel(result: SweepResult, number: int) -> Iterator[Markup]:
    top = number * _HEIGHT
    cost = [abs(each.costs[number]) for each in result.configurations]
    time = [each.figure_ps for each in result.configurations]
    x = scale(cost, _LEFT, _WIDTH - _RIGHT)
    y = scale(time, top + _HEIGHT - _BOTTOM, top + _TOP)
    yield from _frame(x, y, top, result.costs[number], result.by)
    others = sorted(set(range(len(cost))) - set(result.front))
    for at in others[:: 1 + len(others) // _MOST_MARKS]:
        yield element("circle", cx=round(x.at(cost[at]), 1), cy=round(y.at(time[at]), 1), r=2.5, class_="other")
    for at in result.front:
        named = {**result.configurations[at].values, **result.configurations[at].mapping}
        values = ", ".join(f"{axis} {value}" for axis, value in named.items())
        title = element("title", f"{values}: {_time(time[at], result.by)}")
        yield element("circle", title, cx=round(x.at(cost[at]), 1), cy=round(y.at(time[at]), 1), r=5, class_="best")


def _frame(x: Scale, y: Scale, top: float, cost: str, by: str) -> Iterator[Markup]:
    bottom, right = top + _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    for value in x.marks():
        yield element("line", x1=x.at(value), y1=top + _TOP, x2=x.at(value), y2=bottom, class_="rule")
        yield element("text", f"{value:g}", x=x.at(value), y=bottom + 17, text_anchor="middle", class_="soft")
    for value in y.marks():
        yield element("line", x1=_LEFT, y1=y.at(value), x2=right, y2=y.at(value), class_="rule")
        yield element("text", _time(value, by), x=_LEFT - 8, y=y.at(value) + 4, text_anchor="end", class_="soft")
    name = cost.removeprefix("more ").removeprefix("less ")
    dearer = "less is dearer" if cost.startswith("less ") else "more is dearer"
    yield element(
        "text", f"{name} ({dearer})", x=(_LEFT + right) / 2, y=bottom + 36, text_anchor="middle", class_="soft"
    )


def _time(value: float, by: str) -> str:
    if by == "latency":
        return duration(value)
    of = by.removeprefix("latency of ")
    return f"{value:.3g} ps a FLOP" if of == "an operation" else f"{duration(value)} {of}"
