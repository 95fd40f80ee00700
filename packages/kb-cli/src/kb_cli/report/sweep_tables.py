"""What `kb sweep` prints: the fastest points, the Pareto front, what each axis does, and what failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.table import Table

from kb_cli.sweep.sensitivity import Effect
from kb_cli.sweep.sweep import SweepPoint, SweepResult
from kb_cli.terminal.output import BAD, WARNING, new_table, styled
from kb_cli.terminal.units import duration, percent, quantity

MOST_FAILURES = 10
"""Sentences about failed points that a table has."""


def sweep_tables(result: SweepResult, most: int) -> Iterator[Any]:
    """Renderables for *result*, with at most *most* points in each table."""
    yield f"{heading(result)}, {result.computed:,} simulated now, {result.known:,} known before"
    yield from (styled(note, WARNING) for note in result.notes)
    if result.ranks:
        yield f"\n{_counted(len(result.ranks), most, 'fastest points')}, by {result.by}"
        yield points_table(result, result.ranks[:most])
    if result.front:
        yield f"\nPareto front, {_counted(len(result.front), most, 'points')}. {front_sentence(result)}"
        yield points_table(result, result.front[:most])
    if result.sensitivity.effects and result.ranks:
        yield "\nlatency by axis, against its first value"
        yield _effects(result.sensitivity.effects)
        yield explained_sentence(result)
    if result.failed:
        yield styled(f"\n{result.failed} of {len(result.points)} points failed", BAD)
        yield _failures(result)


def front_sentence(result: SweepResult) -> str:
    """What the points of the front have in common."""
    return f"No other point is as fast for the same or less of everything that costs ({', '.join(result.costs)})."


def explained_sentence(result: SweepResult) -> str:
    """How much of the latency the axes explain one by one."""
    if result.sensitivity.explained is None:
        return "All points take the same time."
    told = percent(max(result.sensitivity.explained, 0.0))
    return f"Axis by axis, this explains {told} of the variance of log(latency). The rest is what axes do together."


def figures(point: SweepPoint) -> list[str]:
    """The cells of *point*, which has a result, after its values: see `figure_names`."""
    found = point.result
    assert found is not None, "ranks and fronts have points with a result"
    peak = percent(found.achieved_flops / found.peak_flops) if found.peak_flops else "-"
    memory = "-" if found.memory_share is None else percent(found.memory_share)
    verdict: list[str] = {None: [], True: ["ok"], False: ["FAILED"]}[found.verified]
    return [duration(found.latency_ps), quantity(found.achieved_flops, "FLOP/s"), peak, memory, *verdict]


def figure_names(result: SweepResult) -> list[str]:
    """The columns of `figures`."""
    verified = any(point.result is not None and point.result.verified is not None for point in result.points)
    return ["latency", "achieved", "of peak", "of memory", *(["verified"] if verified else [])]


def moving_axes(result: SweepResult) -> list[str]:
    """The axes with several values; the first one if there is none."""
    moving = [axis for axis, values in result.axes.items() if len(values) > 1]
    return moving or list(result.axes)[:1]


def points_table(result: SweepResult, numbers: Sequence[int]) -> Table:
    """The points of *result* that have the *numbers*."""
    axes = moving_axes(result)
    table = new_table(*axes, *figure_names(result), left=0, text=axes)
    for number in numbers:
        point = result.points[number]
        table.add_row(*(point.values[axis] for axis in axes), *figures(point))
    return table


def heading(result: SweepResult) -> str:
    """What was swept, and how many points there are."""
    fixed = "".join(f", {name}={value}" for name, value in result.params.items())
    count = len(result.points)
    return f"{result.benchmark} on {result.topology}{fixed}: {count:,} point{'s' * (count != 1)}"


def _counted(count: int, most: int, what: str) -> str:
    return f"the {most} first of {count} {what}" if count > most else f"{count} {what}"


def _effects(effects: Iterable[Effect]) -> Table:
    table = new_table("axis", "swing", "latency by value", left=1, text=["latency by value"], wrapped=[2])
    for effect in effects:
        swing = "not told apart" if effect.swing is None else f"{effect.swing:.3f}x"
        parts = [f"{value}: {'-' if ratio is None else f'{ratio:.3f}x'}" for value, ratio in effect.ratios.items()]
        table.add_row(effect.axis, swing, "  ".join(parts) if effect.swing is not None else "")
    return table


def _failures(result: SweepResult) -> Table:
    """Failed points, those with one sentence together."""
    by_sentence: dict[str, list[SweepPoint]] = {}
    for point in result.points:
        if point.result is None:
            by_sentence.setdefault(point.error, []).append(point)
    table = new_table("points", "first of them", "why", left=0, text=["first of them", "why"], wrapped=[1, 2])
    axes = moving_axes(result)
    for sentence, points in list(by_sentence.items())[:MOST_FAILURES]:
        first = " ".join(f"{axis}={points[0].values[axis]}" for axis in axes)
        table.add_row(str(len(points)), first, sentence)
    if len(by_sentence) > MOST_FAILURES:
        table.add_row("", "", f"and {len(by_sentence) - MOST_FAILURES} more sentences; --json has all")
    return table
