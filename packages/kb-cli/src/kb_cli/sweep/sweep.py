"""A sweep: finds what is known of its points, has the others simulated, and puts all together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from kb_cli.benchmark.load import LoadedBenchmark
from kb_cli.sweep.costs import Cost
from kb_cli.sweep.definition import Definition
from kb_cli.sweep.front import front
from kb_cli.sweep.job import Answer, Job, PointResult
from kb_cli.sweep.job_list import JobList
from kb_cli.sweep.point_store import PointStore
from kb_cli.sweep.points import Point
from kb_cli.sweep.sensitivity import Sensitivity, sensitivity
from kb_cli.sweep.sweep_progress import SweepProgress

Workers = Callable[[Sequence[Job]], Iterator[Answer]]
"""Gives the answers to jobs, in any order."""


class SweepPoint(Struct, frozen=True, kw_only=True):
    """A point: the value of each axis, and its result or the sentence that says why there is none."""

    values: Point
    result: PointResult | None
    error: str


class SweepResult(Struct, frozen=True, kw_only=True):
    """A sweep. `points` are in the order of the axes. `computed` were simulated now and `known` before, where
    points with equal parameters and chips count once. `failed` points have no result.

    `front` has the numbers of the points that no other point beats in time and in all of `costs`, the fastest first; it
    is empty without costs. `ranks` has all points with a result, the fastest first. Time is the latency, or where
    points do different work the latency of an operation; `by` says which. `times` has it in picoseconds, None for a
    point without result, and `point_costs` each of the costs of each point; smaller is better.
    """

    benchmark: str
    topology: str
    params: dict[str, str]
    seed: int
    axes: dict[str, list[str]]
    points: list[SweepPoint]
    computed: int
    known: int
    failed: int
    by: str
    times: list[float | None]
    ranks: list[int]
    costs: list[str]
    point_costs: list[list[float]]
    front: list[int]
    sensitivity: Sensitivity
    notes: list[str]


class SweepSetup(NamedTuple):
    """What a sweep is of. `points` are those of the definition, and `costs` say what each of them costs."""

    loaded: LoadedBenchmark
    definition: Definition
    points: Sequence[Point]
    costs: Sequence[Cost]
    seed: int


def run_sweep(setup: SweepSetup, jobs: JobList, store: PointStore, workers: Workers, again: bool) -> SweepResult:
    """Have *workers* simulate the points that *store* does not know, or all of them if *again*.

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
    done = [(number, point.result) for number, point in enumerate(points) if point.result is not None]
    works = {result.flops for _, result in done}
    by_work = len(works) > 1 and 0 not in works
    times = np.array([result.latency_ps / (result.flops if by_work else 1) for _, result in done])
    axes = _axis_values(definition)
    moving = {axis: texts for axis, texts in axes.items() if len(texts) > 1}
    costs = [[cost.of(point.values) for cost in setup.costs] for point in points]
    order = np.argsort(times, kind="stable") if done else np.empty(0, int)
    return SweepResult(
        benchmark=setup.loaded.name,
        topology=definition.topology,
        params=dict(definition.fixed),
        seed=setup.seed,
        axes=axes,
        points=points,
        computed=counts[0],
        known=counts[1],
        failed=len(points) - len(done),
        by="latency of an operation" if by_work else "latency",
        times=_spread(len(points), [number for number, _ in done], times),
        ranks=[done[at][0] for at in order],
        costs=[cost.name for cost in setup.costs],
        point_costs=costs,
        front=_front(costs, [number for number, _ in done], times),
        sensitivity=sensitivity(
            moving, [setup.points[number] for number, _ in done], [result.latency_ps for _, result in done]
        ),
        notes=notes,
    )


def _spread(count: int, numbers: list[int], times: npt.NDArray[np.float64]) -> list[float | None]:
    """*times* at the *numbers* of a list of *count*."""
    found: list[float | None] = [None] * count
    for number, time in zip(numbers, times.tolist(), strict=True):
        found[number] = time
    return found


def _front(costs: list[list[float]], numbers: list[int], times: npt.NDArray[np.float64]) -> list[int]:
    if not numbers or not costs[0]:
        return []
    figures = np.column_stack([times, np.array([costs[number] for number in numbers])])
    return [numbers[at] for at in front(figures)]


def _axis_values(definition: Definition) -> dict[str, list[str]]:
    """The values of each axis, in the order in which they were given."""
    return {
        axis.name: list(dict.fromkeys(row[at] for row in group.rows))
        for group in definition.groups
        for at, axis in enumerate(group.axes)
    }
