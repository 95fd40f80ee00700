"""Configurations: points of a sweep that share a chip and a way to use it, with their time for a whole workload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from kb_cli.sweep.job import PointResult
from kb_cli.sweep.points import Point


class Configuration(Struct, frozen=True, kw_only=True):
    """The `points`, by number, that agree in `values`, and their figures together.

    `latency_ps` and `flops` are sums. `of_peak` and `of_memory` are shares (0 to 1) of the peak and of the memory's
    bandwidth over that time, and None where a point states none. `verified` is None where a point was not verified.
    Configurations are ranked by `figure_ps`, in picoseconds: the latency, or the latency of an operation.
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


class Together(Struct, frozen=True):
    """Points that agree in all axes but the axes of the workload, and the results of those that succeeded."""

    values: Point
    numbers: list[int]
    results: list[PointResult]

    @property
    def failed(self) -> bool:
        """Whether a point of the group has no result."""
        return len(self.results) < len(self.numbers)


def together(
    points: Sequence[Point], results: Sequence[PointResult | None], over: Sequence[str], repeats_add_up: bool
) -> list[Together]:
    """Returns *points* grouped by their values without the axes *over*, in order.

    Equal points are rows that stand several times in a list. With *repeats_add_up* they belong to one workload, which
    has each of them as often as it stands. Without it, each of them is in a group of its own.
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
        )
        for numbers in groups.values()
    ]


def configuration(group: Together, by_work: bool, costs: list[float]) -> Configuration:
    """Returns the configuration of *group*. With *by_work* it is ranked by the latency of an operation."""
    results = group.results
    latency_ps, flops = sum(each.latency_ps for each in results), sum(each.flops for each in results)
    verdicts = [each.verified for each in results]
    at_peak_ps = [_at_peak_ps(each) for each in results]
    at_bandwidth_ps = [None if each.memory_share is None else each.memory_share * each.latency_ps for each in results]
    return Configuration(
        values=group.values,
        points=group.numbers,
        latency_ps=latency_ps,
        flops=flops,
        figure_ps=latency_ps / flops if by_work else float(latency_ps),
        of_peak=_share(at_peak_ps, latency_ps),
        of_memory=_share(at_bandwidth_ps, latency_ps),
        verified=None if None in verdicts else all(verdicts),
        costs=costs,
    )


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
