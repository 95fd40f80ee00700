"""A sweep: finds the known results of its points, has the others simulated, and combines all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from types import TracebackType
from typing import Final, NamedTuple

import click
import numpy as np
from msgspec import Struct, UnsetType
from msgspec.structs import replace

from kb_cli.run.base.progress import INTERVAL_S
from kb_cli.sweep.axis import TOPOLOGY
from kb_cli.sweep.configuration import Configuration, Mapped, Together, best_mappings, configuration, together
from kb_cli.sweep.costs import Cost
from kb_cli.sweep.definition import Definition
from kb_cli.sweep.front import front
from kb_cli.sweep.job import Answer, Job, PointResult
from kb_cli.sweep.job_list import JobList
from kb_cli.sweep.mix import BENCHMARK
from kb_cli.sweep.point_store import PointStore
from kb_cli.sweep.points import Point
from kb_cli.sweep.sensitivity import Sensitivity, sensitivity
from kb_cli.terminal.cell_line import new_status_line
from kb_cli.terminal.in_notebooks import notebook_html, prompt_text

_ESTIMATE_S: Final = 20.0
"""Seconds of a sweep before its time is estimated on standard error. Source: assumed."""


class SweepProgress:
    """Counts points on the status line: *total* in all, of which *known* need no simulation.

    Leaving the `with` block removes the line.
    """

    def __init__(self, total: int, known: int) -> None:
        self._line = new_status_line()
        self._total, self._known = total, known
        self._done = self._failed = 0
        self._began_s = self._shown_s = monotonic()
        self._has_warned = False

    def __enter__(self) -> SweepProgress:
        self._tell()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._line.clear()
        if error is not None and isinstance(error, KeyboardInterrupt):
            error.add_note(f"{self._known + self._done} of {self._total} points are stored; the same command goes on")

    def add(self, failed: bool) -> None:
        """Counts one more point."""
        self._done += 1
        self._failed += failed
        if monotonic() - self._shown_s >= INTERVAL_S or self._done + self._known == self._total:
            self._tell()

    def _left_s(self) -> float:
        """Returns the seconds that the points to go will take, by those that were done."""
        return (self._total - self._known - self._done) * (self._shown_s - self._began_s) / self._done

    def _warn(self) -> None:
        """Notes once on standard error, which need be no terminal, that the sweep will take hours."""
        self._has_warned = True
        self._line.clear()
        left, hours = self._total - self._known - self._done, self._left_s() / 3600
        said = f"note: {left:,} points are to go, which makes {hours:,.1f} hours; a sweep that is ended goes on later,"
        click.echo(f"{said} and --random draws fewer points", err=True)

    def _tell(self) -> None:
        self._shown_s = monotonic()
        is_known = self._done and self._shown_s - self._began_s >= _ESTIMATE_S
        if is_known and not self._has_warned and self._left_s() >= 3600:
            self._warn()
        parts = [f"sweep: {self._known + self._done:,} of {self._total:,} points"]
        if self._known:
            parts.append(f"{self._known:,} known before")
        if self._failed:
            parts.append(f"{self._failed:,} failed")
        if self._done:
            parts.append(f"{self._left_s():,.0f} s left")
        self._line.show(parts, (self._known + self._done) / self._total if self._total else None)


Workers = Callable[[Sequence[Job]], Iterator[Answer]]
"""Returns the answers to jobs, in any order."""


class SweepPoint(Struct, frozen=True, kw_only=True):
    """A point: the value of each axis, and its result or its error."""

    values: Point
    result: PointResult | None
    error: str


class SweepResult(Struct, frozen=True, kw_only=True):
    """A sweep. `points` are in the order of the axes. `computed` were simulated now and `known` before, where points
    with equal parameters and chips count once. `failed` points have no result.

    `configurations` add up the points that differ in the axes `over` alone, the fastest first, without the ones of
    which a point failed. Of points that differ in the axes `best` alone, the fastest one counts. `by` names the figure
    by which configurations are ranked. `front` has the numbers of the configurations that no other one beats in time
    and in all of `costs`; it is empty without costs. In `costs` of a configuration, smaller is better. Latencies that
    differ by a share of at most `within` count as equal in the front. `failed` of `sensitivity` counts configurations
    of which a point failed.
    """

    benchmark: str
    topology: str
    params: dict[str, str]
    seed: int
    axes: dict[str, list[str]]
    over: list[str]
    points: list[SweepPoint]
    computed: int = 0
    known: int = 0
    failed: int
    by: str
    configurations: list[Configuration]
    costs: list[str]
    front: list[int]
    within: float = 0.0
    sensitivity: Sensitivity
    notes: list[str]
    best: list[str] = []

    _repr_html_ = notebook_html
    __repr__ = prompt_text

    @property
    def chips(self) -> str:
        """The chips that the points ran on, in words: `one_cube`, `one_cube and mine.yaml`, `3 chips`."""
        names = self.axes.get(TOPOLOGY, [self.topology])
        return " and ".join(names) if len(names) < 3 else f"{len(names)} chips"


class SweepSetup(NamedTuple):
    """The setup of a sweep. `name` has the names of its benchmarks, `points` are the points of the definition, and
    `costs` their costs.
    """

    name: str
    definition: Definition
    points: Sequence[Point]
    costs: Sequence[Cost]
    seed: int


def run_sweep(setup: SweepSetup, jobs: JobList, store: PointStore, workers: Workers, again: bool) -> SweepResult:
    """Has *workers* simulate the points that *store* does not know, or all of them if *again*.

    Each answer goes into *store* when it comes, so a sweep that is killed loses only the points under way.
    """
    known: dict[str, Answer] = {}
    if not again:
        known = {key: answer for key in jobs.by_key if (answer := store.find(key)) is not None}
    missing = [job for key, job in jobs.by_key.items() if key not in known]
    answers = dict(known)
    with SweepProgress(len(jobs.by_key), len(known)) as progress:
        for answer in workers(missing) if missing else ():
            answers[answer.key] = answer
            if answer.lasts:
                store.keep(answer, setup.points[jobs.number_of(answer.key)])
            progress.add(failed=answer.result is None)
    points = [_point(values, number, jobs, answers) for number, values in enumerate(setup.points)]
    notes = [f"{store.damaged} stored results could not be read, and were computed again"] if store.damaged else []
    return _together(setup, points, (len(missing), len(known)), notes)


def _point(values: Point, number: int, jobs: JobList, answers: dict[str, Answer]) -> SweepPoint:
    if number in jobs.errors:
        return SweepPoint(values=values, result=None, error=jobs.errors[number])
    answer = answers[jobs.keys[number]]
    return SweepPoint(values=values, result=answer.result, error=answer.error)


def _together(setup: SweepSetup, points: list[SweepPoint], counts: tuple[int, int], notes: list[str]) -> SweepResult:
    definition = setup.definition
    all_groups, mapped = _grouped(definition, points)
    groups = [group for group in all_groups if not group.failed]
    if (definition.over or definition.best) and len(groups) < len(all_groups):
        n_failed = len(all_groups) - len(groups)
        what = "for which no mapping ran" if definition.best else "that failed"
        said = f"{n_failed} of {len(all_groups)} configurations have a point {what}, and are not compared"
        notes = [*notes, said]
    works = {group.work for group in groups}
    by_work = len(works) > 1 and 0 not in works
    found = [
        configuration(
            group,
            by_work,
            [cost.of(points[group.numbers[0]].values) for cost in setup.costs],
            _mapping(definition.best, [points[number] for number in group.numbers]),
            [mapped[number] for number in group.numbers if number in mapped],
        )
        for group in groups
    ]
    axes = _axis_values(definition)
    ranked = sorted(found, key=lambda each: each.figure_ps)
    return SweepResult(
        benchmark=setup.name,
        topology=definition.topology,
        params=dict(definition.fixed),
        seed=setup.seed,
        axes=axes,
        over=list(definition.over),
        points=points,
        computed=counts[0],
        known=counts[1],
        failed=sum(point.result is None for point in points),
        by=f"latency of {_work_name(groups)}" if by_work else "latency",
        configurations=ranked,
        costs=[cost.name for cost in setup.costs],
        front=_front(ranked, definition.within) if setup.costs and ranked else [],
        within=definition.within,
        sensitivity=_sensitivity(definition, all_groups),
        notes=notes,
        best=list(definition.best),
    )


def _work_name(groups: Sequence[Together]) -> str:
    """Returns the unit of the work of *groups* with its article: `an operation`, or `a token` where all are models."""
    models = [result.model for group in groups for result in group.results]
    units = {"" if isinstance(model, UnsetType) else model.unit for model in models}
    return f"a {units.pop().removesuffix('s')}" if len(units) == 1 and "" not in units else "an operation"


def _grouped(definition: Definition, points: Sequence[SweepPoint]) -> tuple[list[Together], dict[int, Mapped]]:
    """Returns the configurations of *points*, and where the best mapping counts, the points that have it by number."""
    values, results = [point.values for point in points], [point.result for point in points]
    if not definition.best:
        counts = [definition.counts.get(each.get(BENCHMARK, ""), 1) for each in values]
        return together(values, results, definition.over, definition.repeats_add_up, counts), {}
    mapped = best_mappings(values, results, definition.best)
    numbers = list(mapped)
    rest = [{axis: text for axis, text in values[at].items() if axis not in definition.best} for at in numbers]
    groups = together(rest, [results[at] for at in numbers], definition.over, definition.repeats_add_up)
    found = [replace(group, numbers=[numbers[at] for at in group.numbers]) for group in groups]
    return found, mapped


def _mapping(best: Sequence[str], points: Sequence[SweepPoint]) -> Point:
    """Returns the values of the parameters *best* at *points*, each value once."""
    return {axis: " / ".join(dict.fromkeys(point.values[axis] for point in points)) for axis in best}


def _front(ranked: Sequence[Configuration], within: float) -> list[int]:
    return front(np.array([[each.figure_ps, *each.costs] for each in ranked]), within)


def _sensitivity(definition: Definition, groups: Sequence[Together]) -> Sensitivity:
    """Returns the effect of each group of axes: axes whose values belong together have one effect. Values are as
    given.
    """
    values: dict[str, list[str]] = {}
    points: list[Point] = [{} for _ in groups]
    for group in definition.groups:
        kept = {
            at: axis.name for at, axis in enumerate(group.axes) if axis.name not in (*definition.over, *definition.best)
        }
        settings = [" / ".join(each.values[name] for name in kept.values()) for each in groups]
        there = set(settings)
        if len(there) > 1:
            name = " / ".join(kept.values())
            given = dict.fromkeys(" / ".join(row[at] for at in kept) for row in group.rows)
            values[name] = [setting for setting in given if setting in there]
            for point, setting in zip(points, settings, strict=True):
                point[name] = setting
    latencies_ps = [None if each.failed else each.latency_ps for each in groups]
    return sensitivity(values, points, latencies_ps)


def _axis_values(definition: Definition) -> dict[str, list[str]]:
    """Returns the values of each axis, in the order in which they were given."""
    return {
        axis.name: list(dict.fromkeys(row[at] for row in group.rows))
        for group in definition.groups
        for at, axis in enumerate(group.axes)
    }
