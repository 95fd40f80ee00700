"""Configurations: points of a sweep that share a chip and a way to use it, with their time for a whole workload.

A way to use a chip may be chosen for each chip and each part of the workload: the best mapping.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import Struct, UnsetType

from kb_cli.sweep.job import PointModel, PointResult
from kb_cli.sweep.points import Point
from kb_messages import BenchmarkError


class Configuration(Struct, frozen=True, kw_only=True):
    """The `points`, by number, that agree in `values`, and their figures together.

    `latency_ps` and `flops` are sums. `of_peak` and `of_memory` are shares (0 to 1) of the peak and of the memory's
    bandwidth over that time, and None where a point states none. `verified` is None where a point was not verified.
    Configurations are ranked by `figure_ps`, in picoseconds: the latency, or the latency of an operation or of an item.

    Where a sweep looks for the best mapping, `points` have the best ones, `mapping` their values (several with ` / `
    between, in the order of the points), and `tried` and `failed` count all mappings of these points.
    """

    values: Point
    points: list[int]
    latency_ps: int
    flops: int
    figure_ps: float
    of_peak: float | None
    of_memory: float | None
    verified: bool | None
    costs: list[float]
    mapping: Point = {}
    tried: int = 0
    failed: int = 0


class Mapped(NamedTuple):
    """The fastest of some points that differ in their mapping alone: its number, and counts of all and of failed
    ones. Where all failed, it is the first.
    """

    number: int
    tried: int
    failed: int


def best_mappings(
    points: Sequence[Point], results: Sequence[PointResult | None], axes: Sequence[str]
) -> dict[int, Mapped]:
    """Returns the point with the least latency of each group of *points* that differ in *axes* alone, of equals the
    first, by its number and in the order of the groups.

    Equal points, which are rows that stand several times in a list, are in groups of their own. Raises BenchmarkError
    for points of a group that do different work, because their latencies do not compare.
    """
    groups: dict[tuple[object, ...], list[int]] = {}
    seen: Counter[tuple[str, ...]] = Counter()
    for number, point in enumerate(points):
        whole = tuple(point.values())
        repeat, seen[whole] = seen[whole], seen[whole] + 1
        others = (text for axis, text in point.items() if axis not in axes)
        groups.setdefault((repeat, *others), []).append(number)
    found = {}
    for numbers in groups.values():
        known = [(result.latency_ps, number) for number in numbers if (result := results[number]) is not None]
        works = sorted({work_of(result) for number in numbers if (result := results[number]) is not None})
        if len(works) > 1:
            got = f"points that do different work ({works[0]:,} and {works[-1]:,} FLOPs)"
            fix = "take such a parameter as an axis of its own"
            raise BenchmarkError(f"--best {','.join(axes)}", got, "parameters that leave the work as it is", fix)
        best = min(known)[1] if known else numbers[0]
        found[best] = Mapped(best, len(numbers), len(numbers) - len(known))
    return found


def work_of(result: PointResult) -> int:
    """Returns the items of the model of *result*; of any other result the operations."""
    return result.flops if isinstance(result.model, UnsetType) else result.model.items


class Together(Struct, frozen=True):
    """Points that agree in all axes but the axes of the workload, and the results of those that succeeded, each of
    which counts as often as `counts` says.
    """

    values: Point
    numbers: list[int]
    results: list[PointResult]
    counts: list[int]

    @property
    def failed(self) -> bool:
        """Whether a point of the group has no result."""
        return len(self.results) < len(self.numbers)

    @property
    def work(self) -> int:
        """The work of the group: the items of its models, and operations where a point is no model."""
        is_models = all(isinstance(each.model, PointModel) for each in self.results)
        return self.total(work_of if is_models else lambda each: each.flops)

    @property
    def latency_ps(self) -> int:
        """The picoseconds of all results."""
        return self.total(lambda each: each.latency_ps)

    def total(self, figure: Callable[[PointResult], int]) -> int:
        """Returns the sum of *figure* over all results, each as often as it counts."""
        return sum(count * figure(each) for each, count in zip(self.results, self.counts, strict=True))

    def times(self, figure: Callable[[PointResult], float | None]) -> list[float | None]:
        """Returns *figure* of each result, as often as it counts; None where it is not known."""
        found = [(figure(each), count) for each, count in zip(self.results, self.counts, strict=True)]
        return [None if ps is None else ps * count for ps, count in found]


def together(
    points: Sequence[Point],
    results: Sequence[PointResult | None],
    over: Sequence[str],
    repeats_add_up: bool,
    counts: Sequence[int] = (),
) -> list[Together]:
    """Returns *points* grouped by their values without the axes *over*, in order.

    Equal points are rows that stand several times in a list. With *repeats_add_up* they belong to one workload, which
    has each of them as often as it stands. Without it, each of them is in a group of its own. *counts* says how often
    each point counts, () for once.
    """
    groups: dict[tuple[object, ...], list[int]] = {}
    seen: Counter[tuple[str, ...]] = Counter()
    for number, point in enumerate(points):
        repeat = 0
        if not repeats_add_up:
            whole = tuple(point.values())
            repeat, seen[whole] = seen[whole], seen[whole] + 1
        groups.setdefault((repeat, *(text for axis, text in point.items() if axis not in over)), []).append(number)
    return [
        Together(
            {axis: text for axis, text in points[numbers[0]].items() if axis not in over},
            numbers,
            [result for number in numbers if (result := results[number]) is not None],
            [counts[number] if counts else 1 for number in numbers if results[number] is not None],
        )
        for numbers in groups.values()
    ]


def configuration(
    group: Together, by_work: bool, costs: list[float], mapping: Point | None = None, mapped: Sequence[Mapped] = ()
) -> Configuration:
    """Returns the configuration of *group*. With *by_work* it is ranked by the latency of an operation, or of an item
    of its models.

    *mapping* has the values of the best mappings of its points, which are *mapped*.
    """
    latency_ps, flops = group.latency_ps, group.total(lambda each: each.flops)
    verdicts = [each.verified for each in group.results]
    at_peak_ps = group.times(_at_peak_ps)
    at_bandwidth_ps = group.times(_at_bandwidth_ps)
    return Configuration(
        values=group.values,
        points=group.numbers,
        latency_ps=latency_ps,
        flops=flops,
        figure_ps=latency_ps / group.work if by_work else float(latency_ps),
        of_peak=_share(at_peak_ps, latency_ps),
        of_memory=_share(at_bandwidth_ps, latency_ps),
        verified=None if None in verdicts else all(verdicts),
        costs=costs,
        mapping=mapping or {},
        tried=sum(each.tried for each in mapped),
        failed=sum(each.failed for each in mapped),
    )


def _at_bandwidth_ps(result: PointResult) -> float | None:
    """Returns the time of the bytes at the memory's bandwidth; None where the share is not known."""
    return None if result.memory_share is None else result.memory_share * result.latency_ps


def _at_peak_ps(result: PointResult) -> float | None:
    """Returns the time of the stated operations at the peak.

    None without a peak, and for more operations than the chip can do in the time of the run.
    """
    at_peak_ps = result.flops / result.peak_flops * 1e12 if result.peak_flops else None
    return None if at_peak_ps is None or at_peak_ps > result.latency_ps else at_peak_ps


def _share(least_ps: list[float | None], latency_ps: int) -> float | None:
    """Returns the time at the limit over *latency_ps*. *least_ps* has each point's time at its peak or memory
    bandwidth.
    """
    known = [each for each in least_ps if each is not None]
    return sum(known) / latency_ps if latency_ps and len(known) == len(least_ps) else None
