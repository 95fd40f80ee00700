"""The time in which kernels of launches run. Launches of streams may run at the same time, which counts once."""

from __future__ import annotations

from collections.abc import Iterable

from kb_engine import LaunchResult


def kernel_ps(launches: Iterable[LaunchResult]) -> int:
    """Returns the picoseconds in which at least one of *launches* is between the start of its first kernel and the end
    of its last one."""
    total = until = 0
    for start, end in sorted((each.start_ps, each.end_ps) for each in launches):
        total += max(0, end - max(start, until))
        until = max(until, end)
    return total
