"""Tables of `kb sweep`: the fastest points, the Pareto front, the effect of each axis, and failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from rich.table import Table

from kb_cli.report.data.performance import rate
from kb_cli.report.elements.model_points import model_axes, model_cells, model_headers
from kb_cli.sweep.configuration import Configuration
from kb_cli.sweep.sensitivity import Effect
from kb_cli.sweep.sweep import SweepPoint, SweepResult
from kb_cli.terminal.output import BAD, WARNING, new_table, styled
from kb_cli.terminal.units import duration, listed, percent

MOST_FAILURES = 10
"""The most sentences about failed points in a table."""
MOST_VALUES = 40
"""The most values of an axis in the table of effects."""


def sweep_tables(result: SweepResult, most: int) -> Iterator[Any]:
    """Yields the tables of *result*, with at most *most* points in each table."""
    yield f"{heading(result)}, {result.computed:,} simulated now, {result.known:,} known before"
    yield from (styled(note, WARNING) for note in result.notes)
    if models := list(model_cells(result)):
        yield f"\nthe model at {_counted(len(models), most, 'points')}"
        yield _models(result, models[:most])
    if result.configurations:
        yield f"\n{_counted(len(result.configurations), most, f'fastest {what(result)}')}, by {result.by}"
        yield configurations_table(result, result.configurations[:most])
    if result.front:
        yield f"\nPareto front, {_counted(len(result.front), most, what(result))}. {front_sentence(result)}"
        yield configurations_table(result, [result.configurations[at] for at in result.front[:most]])
    if result.sensitivity.effects and result.configurations:
        yield "\nlatency by axis, against its first value"
        yield _effects(result.sensitivity.effects)
        yield explained_sentence(result)
    if result.failed:
        yield styled(f"\n{result.failed} of {len(result.points)} points failed", BAD)
        yield _failures(result)


def _models(result: SweepResult, cells: Sequence[tuple[str, ...]]) -> Table:
    table = new_table(*model_headers(result), left=0, text=[*model_axes(result), "costliest op"])
    for row in cells:
        table.add_row(*row)
    return table


def front_sentence(result: SweepResult) -> str:
    """Returns the sentence that defines the Pareto front."""
    within = f", within {percent(result.within)}," if result.within else ""
    return f"No other is as fast{within} for the same or less of everything that costs ({', '.join(result.costs)})."


def explained_sentence(result: SweepResult) -> str:
    """Returns how much of the latency the axes explain one by one, and what has no part in it.

    With the best mapping of each chip, a mapping that failed takes no part from another one.
    """
    if result.sensitivity.explained is not None:
        explained = percent(max(result.sensitivity.explained, 0.0))
        said = f"Axis by axis, this explains {explained} of the variance of log(latency)."
        said += " The rest are interactions of axes."
    elif all(effect.swing is None for effect in result.sensitivity.effects):
        said = f"No two {what(result)} differ in one axis alone, so no effect is known. Sweep all combinations."
    else:
        said = "All points take the same time."
    if result.failed and not result.best:
        said += f" {_failed_sentence(result)}"
    return said


def _failed_sentence(result: SweepResult) -> str:
    """Returns how many points failed, and the error of most of them."""
    errors = Counter(point.error for point in result.points if point.result is None)
    error, count = errors.most_common(1)[0]
    others = f", and {result.failed - count} of other reasons" if count < result.failed else ""
    return f"{result.failed} of {len(result.points)} points failed, and have no part in a ratio: {error}{others}"


def figures(found: Configuration) -> list[str]:
    """Returns the cells of *found* after its values, in the order of `figure_names`."""
    of_peak = found.of_peak if found.flops else None
    shares = ["-" if share is None else percent(share) for share in (of_peak, found.of_memory)]
    verdict: list[str] = {None: [], True: ["ok"], False: ["FAILED"]}[found.verified]
    tried = [f"{found.failed} of {found.tried}"] if found.tried else []
    return [duration(found.latency_ps), rate(found.flops, found.latency_ps), *shares, *verdict, *tried]


def figure_names(result: SweepResult) -> list[str]:
    """Returns the headers of `figures`."""
    verified = any(each.verified is not None for each in result.configurations)
    return [
        "latency",
        "achieved",
        "of peak",
        "of memory",
        *(["verified"] if verified else []),
        *(["mappings failed"] if result.best else []),
    ]


def what(result: SweepResult) -> str:
    """Returns the word for the ranked items."""
    return "configurations" if result.over or result.best else "points"


def moving_axes(result: SweepResult) -> list[str]:
    """Returns the axes of configurations that have several values; the first one if there is none."""
    axes = {axis: values for axis, values in result.axes.items() if axis not in (*result.over, *result.best)}
    return [axis for axis, values in axes.items() if len(values) > 1] or list(axes)[:1]


def row_axes(result: SweepResult) -> list[str]:
    """Returns the axes of a row of configurations: `moving_axes`, and the parameters of the best mapping."""
    return [*moving_axes(result), *result.best]


def configurations_table(result: SweepResult, found: Sequence[Configuration]) -> Table:
    """Returns a table with a row for each of *found*, configurations of *result*."""
    axes = row_axes(result)
    table = new_table(*axes, *figure_names(result), left=0, text=axes)
    for cells in configuration_cells(result, found):
        table.add_row(*cells)
    return table


def configuration_cells(result: SweepResult, found: Sequence[Configuration]) -> list[list[str]]:
    """Returns for each of *found* the cells of `row_axes` and of `figure_names`."""
    axes = row_axes(result)
    return [[*({**each.values, **each.mapping}[axis] for axis in axes), *figures(each)] for each in found]


def failure_cells(result: SweepResult, most: int) -> list[list[str]]:
    """Returns for each of the first *most* failed points the cells of all axes, and the error."""
    failed = (point for point in result.points if point.result is None)
    return [[*(point.values[axis] for axis in result.axes), point.error] for point in islice(failed, most)]


def heading(result: SweepResult) -> str:
    """Returns the swept benchmark and chips, and the number of points."""
    fixed = "".join(f", {name}={value}" for name, value in result.params.items())
    count = len(result.points)
    over = f", added up over {' and '.join(result.over)}" if result.over else ""
    best = f", with the best {listed(result.best)}" if result.best else ""
    return f"{result.benchmark} on {result.chips}{fixed}: {count:,} point{'s' * (count != 1)}{over}{best}"


def _counted(count: int, most: int, what: str) -> str:
    if count > most:
        return f"the {most} first of {count:,} {what}"
    return f"{count} {what.removesuffix('s') if count == 1 else what}"


def _effects(effects: Iterable[Effect]) -> Table:
    table = new_table("axis", "swing", "latency by value", left=1, text=["latency by value"], wrapped=[2])
    for effect in effects:
        swing = "no pairs" if effect.swing is None else f"{effect.swing:.3f}x"
        shown = islice(effect.ratios.items(), MOST_VALUES)
        parts = [f"{value}: {_ratio(effect, value, ratio)}" for value, ratio in shown]
        if len(effect.ratios) > MOST_VALUES:
            parts.append(f"and {len(effect.ratios) - MOST_VALUES:,} more; --json has all")
        table.add_row(effect.axis, swing, "  ".join(parts) if effect.swing is not None or effect.failed else "")
    return table


def _ratio(effect: Effect, value: str, ratio: float | None) -> str:
    """Returns the ratio of *value* and the number of its failed points, as text."""
    shown = "-" if ratio is None else f"{ratio:.3f}x"
    return f"{shown} ({effect.failed[value]} failed)" if value in effect.failed else shown


def _failures(result: SweepResult) -> Table:
    """Returns a table of failed points. Points with the same error share a row."""
    by_sentence: dict[str, list[SweepPoint]] = {}
    for point in result.points:
        if point.result is None:
            by_sentence.setdefault(point.error, []).append(point)
    table = new_table("points", "first of them", "why", left=0, text=["first of them", "why"], wrapped=[1, 2])
    axes = list(result.axes)
    for sentence, points in list(by_sentence.items())[:MOST_FAILURES]:
        first = " ".join(f"{axis}={points[0].values[axis]}" for axis in axes)
        table.add_row(str(len(points)), first, sentence)
    if len(by_sentence) > MOST_FAILURES:
        table.add_row("", "", f"and {len(by_sentence) - MOST_FAILURES} more sentences; --json has all")
    return table
