"""Budget: the time for measuring levers."""

from __future__ import annotations

from time import perf_counter, thread_time

from kb_engine.observe import Observer

MOST_S = 30.0
"""The longest time for measuring, in seconds."""
MOST_WORKLOAD_S = 600.0
"""The longest time for measuring levers of a workload that were asked for, in seconds. A block of a model takes some
10 s on two cores. Source: assumed."""
LEAST_S = 2.0
"""The shortest time for measuring after a run without being asked, in seconds. Most runs need less to settle."""
REPORT_S = 0.5
"""The time for measuring within a report without being asked, in seconds."""


class Budget:
    """The seconds for measuring: *within_s* from now on, and at most *work_s* of them at work, if given.

    The work of this thread alone counts, so other programs on the machine do not change how much is measured.
    """

    def __init__(self, within_s: float = MOST_S, work_s: float | None = None) -> None:
        self._end_s = perf_counter() + within_s
        self._work_end_s = None if work_s is None else thread_time() + work_s

    @classmethod
    def asked(cls, is_workload: bool) -> Budget:
        """Returns the budget for levers that a user asked for."""
        return cls(MOST_WORKLOAD_S if is_workload else MOST_S)

    @property
    def is_short(self) -> bool:
        """Whether the budget is for measuring without being asked."""
        return self._work_end_s is not None

    @property
    def is_over(self) -> bool:
        """Whether the time is over."""
        return perf_counter() >= self._end_s or (self._work_end_s is not None and thread_time() >= self._work_end_s)


class OutOfTime(BaseException):
    """Raised when the time for a measurement is over. Code of an author that catches Exception does not catch it."""


class Deadline(Observer):
    """Ends a run when a budget is over."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def on_housekeeping(self) -> None:
        """Raises OutOfTime when the time is over."""
        if self._budget.is_over:
            raise OutOfTime
