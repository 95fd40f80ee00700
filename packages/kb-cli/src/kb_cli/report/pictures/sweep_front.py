"""Latency against each cost of a sweep, as SVG: all points, and the points of the Pareto front with a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from kb_cli.report.elements.page_elements import Markup, element
from kb_cli.report.pictures.plots.labels import cut, fitting, width
from kb_cli.report.pictures.plots.placed_labels import Box, Segment
from kb_cli.report.pictures.plots.plot import WIDTH, Plot, line, mark, text
from kb_cli.report.pictures.plots.scale import Scale, scale
from kb_cli.report.pictures.plots.tick_text import binary_text, named, plain, time_text, value_text
from kb_cli.report.pictures.sweep_front_labels import front_names
from kb_cli.sweep.sweep import SweepResult
from kb_cli.terminal.units import duration, listed

_HEIGHT, _RIGHT, _TOP, _BOTTOM = 300, 24, 30, 48
_MOST_MARKS: Final = 4000
"""The most points off the front in a picture. A picture of more of them is a blot, and slow to show."""
_MOST_VALUES: Final = 10
"""The most values of a cost that are the marks of its axis. Where there are more, round numbers are."""


def front_picture(result: SweepResult) -> Plot | None:
    """Returns a panel for each cost of *result*; None without a front, or where nothing differs."""
    if not result.front or len(result.configurations) < 2:
        return None
    groups = _alike(result)
    panels = [part for at, group in enumerate(groups) for part in _panel(result, group, at * _HEIGHT)]
    costs = listed([_axis_of(cost) for cost in result.costs])
    return Plot(f"Pareto front: {result.by} against {costs}", _HEIGHT * len(groups), panels)


def _alike(result: SweepResult) -> list[list[int]]:
    """Returns the numbers of the costs. Costs that order all points alike, such as axes of one list, share a panel."""
    found: dict[tuple[int, ...], list[int]] = {}
    for number in range(len(result.costs)):
        costs = [each.costs[number] for each in result.configurations]
        places = {cost: place for place, cost in enumerate(sorted(set(costs)))}
        found.setdefault(tuple(places[cost] for cost in costs), []).append(number)
    return list(found.values())


class _Frame(NamedTuple):
    """The two scales of a panel, and the rectangle between its axes."""

    x: Scale
    y: Scale
    left: float
    top: float
    bottom: float


def _panel(result: SweepResult, alike: Sequence[int], top: float) -> Iterator[Markup]:
    number = alike[0]
    cost = [_shown(result, number, each.costs[number]) for each in result.configurations]
    time = [each.figure_ps for each in result.configurations]
    y = scale(time, top + _HEIGHT - _BOTTOM, top + _TOP)
    left = max(width(_time_mark(value, result.by)) for value in y.marks() or [max(time)]) + 14
    frame = _Frame(scale(cost, left + 8, WIDTH - _RIGHT), y, left, top + _TOP, top + _HEIGHT - _BOTTOM)
    yield from _head(frame, result.by)
    yield from _times(frame, result.by)
    yield from _costs(frame, result, alike, cost)
    dots = [(frame.x.at(each), frame.y.at(ps)) for each, ps in zip(cost, time, strict=True)]
    others = sorted(set(range(len(cost))) - set(result.front))
    for at in others[:: 1 + len(others) // _MOST_MARKS]:
        yield mark(*dots[at], 3, "other", _said(result, at))
    steps = _steps(frame, [(cost[at], time[at]) for at in result.front], _is_less(result.costs[number]))
    drawn = "L".join(f"{x:.1f} {y:.1f}" for x, y in steps)
    yield element("path", d=f"M{drawn}", class_="front")
    for at in result.front:
        yield mark(*dots[at], 5, "best", _said(result, at))
    axes = [_axis_of(result.costs[each]) for each in alike]
    rules = [Segment(frame.left, frame.y.at(value), WIDTH - _RIGHT, frame.y.at(value)) for value in frame.y.marks()]
    pieces = [Segment(*begin, *end) for begin, end in pairwise(steps)]
    within = Box(frame.left, frame.top - 4, WIDTH, frame.bottom)
    yield from front_names(result, axes, dots, [*rules, *pieces], within)


def _head(frame: _Frame, by: str) -> Iterator[Markup]:
    """Yields the name of the upright axis, and what the dots are."""
    yield text(f"{by} (less is better)", 0, frame.top - 14)
    right = float(WIDTH - _RIGHT)
    for said, style, radius in (("other points", "other", 3.0), ("Pareto front", "best", 5.0)):
        yield text(said, right, frame.top - 14, "end")
        right -= width(said) + 2
        yield mark(right, frame.top - 18, radius, style)
        right -= 18


def _times(frame: _Frame, by: str) -> Iterator[Markup]:
    for value in frame.y.marks():
        place = frame.y.at(value)
        yield line(frame.left, place, WIDTH - _RIGHT, place, "rule")
        yield text(_time_mark(value, by), frame.left - 6, place + 4, "end")


def _costs(frame: _Frame, result: SweepResult, alike: Sequence[int], cost: Sequence[float]) -> Iterator[Markup]:
    number = alike[0]
    axis = _axis_of(result.costs[number])
    marks = _cost_marks(result, number, axis, cost, frame.x)
    places = [frame.x.at(value) for value in marks]
    texts = list(marks.values())
    for value, place in zip(marks, places, strict=True):
        title = element("title", f"{axis} {marks[value]}")
        ends = {"x1": round(place, 1), "x2": round(place, 1), "y1": frame.bottom, "y2": frame.bottom + 5}
        yield element("line", title, class_="first", **ends)
    middles = [min(place, WIDTH - width(said) / 2) for place, said in zip(places, texts, strict=True)]
    for at in fitting([width(said) for said in texts], middles, [0, len(texts) - 1]):
        yield text(texts[at], middles[at], frame.bottom + 18, "middle")
    said = f"{named(axis)}, {'less' if _is_less(result.costs[number]) else 'more'} is dearer"
    if len(alike) > 1:
        said += f"; {listed([_axis_of(result.costs[each]) for each in alike[1:]])} change with it"
    yield text(cut(said, WIDTH - frame.left), (frame.left + WIDTH - _RIGHT) / 2, frame.bottom + 38, "middle")


def _cost_marks(result: SweepResult, number: int, axis: str, cost: Sequence[float], x: Scale) -> dict[float, str]:
    """Returns the marks of the axis, in order, with their texts: the values of the axis where they are few."""
    if len(set(cost)) > _MOST_VALUES:
        is_bytes = axis in result.axes and all(text.endswith("B") for text in result.axes[axis])
        marks = x.binary_marks() if is_bytes else x.marks()
        return {value: binary_text(value) if is_bytes else value_text(axis, plain(value)) for value in marks}
    shown = {_shown(result, number, each.costs[number]): each.values.get(axis) for each in result.configurations}
    return {
        value: plain(value) if (given := shown[value]) is None else value_text(axis, given) for value in sorted(shown)
    }


def _steps(frame: _Frame, front: Sequence[tuple[float, float]], less: bool) -> list[tuple[float, float]]:
    """Returns the least time at each cost, as corners: level up to the next dearer point, then down to its time."""
    ways: list[tuple[float, float]] = []
    for cost, time in sorted(front, key=lambda each: (-each[0] if less else each[0], each[1])):
        if not ways or time < ways[-1][1]:
            ways.append((cost, time))
    at = [(frame.x.at(cost), frame.y.at(time)) for cost, time in ways]
    corners = [(at[0][0], frame.top), at[0]]
    for (_, before), (x, y) in pairwise(at):
        corners += [(x, before), (x, y)]
    return [*corners, (frame.left if less else float(WIDTH - _RIGHT), at[-1][1])]


def _shown(result: SweepResult, number: int, cost: float) -> float:
    """Returns *cost* as its axis has it: a cost of which less is dearer counts with the other sign."""
    return -cost if _is_less(result.costs[number]) else cost


def _is_less(cost: str) -> bool:
    return cost.startswith("less ")


def _axis_of(cost: str) -> str:
    """Returns the axis or the formula of *cost*."""
    return cost.removeprefix("more ").removeprefix("less ")


def _said(result: SweepResult, at: int) -> str:
    found = result.configurations[at]
    values = ", ".join(f"{axis} {value}" for axis, value in {**found.values, **found.mapping}.items())
    return f"{values}: {_time(found.figure_ps, result.by)}"


def _time(value: float, by: str) -> str:
    of = by.removeprefix("latency").removeprefix(" of ")
    return f"{value:.3g} ps a FLOP" if of == "an operation" else f"{duration(value)} {of}".rstrip()


def _time_mark(value: float, by: str) -> str:
    return f"{value:.3g} ps" if by == "latency of an operation" else time_text(value)
