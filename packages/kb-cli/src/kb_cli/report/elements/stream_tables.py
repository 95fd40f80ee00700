"""The table of the launches of a run by stream."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET
from rich.table import Table

from kb_cli.run.base.result import LaunchTimes
from kb_cli.terminal.output import new_table
from kb_cli.terminal.units import PS_PER_NS, duration


def stream_tables(launches: Sequence[LaunchTimes]) -> list[Table]:
    """Returns a table of *launches* by stream; none where all launches are of one stream, or without one.

    `from` and `to` are since the first call. `alone` is the time in which no launch of another stream ran a kernel.
    """
    streams = sorted({_number(each) for each in launches})
    if len(streams) < 2:
        return []
    began_ns = min(each.call_ns for each in launches)
    table = new_table("stream", "launches", "in kernels", "alone", "from", "to", left=1)
    for number in streams:
        mine = [each for each in launches if _number(each) == number]
        others = [each for each in launches if _number(each) != number]
        spent, shared = _union(mine), _union([*mine, *others])
        alone = shared - _union(others)
        first, last = min(each.start_ns for each in mine), max(each.end_ns for each in mine)
        times = [duration(ns * PS_PER_NS) for ns in (spent, alone, first - began_ns, last - began_ns)]
        table.add_row(str(number) if number >= 0 else "none", str(len(mine)), *times)
    return [table]


def _number(launch: LaunchTimes) -> int:
    return -1 if launch.stream is UNSET else int(launch.stream)


def _union(launches: Sequence[LaunchTimes]) -> float:
    """The nanoseconds in which at least one of *launches* runs kernels."""
    total = until = 0.0
    for start, end in sorted((each.start_ns, each.end_ns) for each in launches):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total
