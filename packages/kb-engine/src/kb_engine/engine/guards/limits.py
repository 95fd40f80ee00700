"""Limits on this machine's time and memory, which end work without end: the longest run, and the watchdog of kernels.

No limit changes a time, a value or a row of a log. Work beyond a limit is an error.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from math import inf
from typing import Final, NamedTuple

from kb_dataexec.files import available_nbytes
from kb_engine.program.grid import Grid
from kb_messages import KbError, KernelError

MAX_HOURS: Final = "KB_MAX_HOURS"
"""The environment variable with the most hours that a launch may take by its estimate; 0 for any number of hours."""
WATCHDOG: Final = "KB_WATCHDOG"
"""The environment variable with the seconds that a kernel may run without a command or a wait; 0 for any time."""
_LEAST_PROGRAM_S: Final = 3e-6
"""Seconds that a program takes at least, one that is skipped. Source: measured; 3.3 us for a kernel that does nothing,
37 us for a load and a store."""
_LEAST_PROGRAM_NBYTES: Final = 512
"""Bytes of memory that a program takes at least. Source: measured; 630 to 1,000 bytes, with and without an op log."""


LEAST_FREE_NBYTES: Final = 128 << 20
"""Free bytes, with those of swap, below which a simulation ends before the system ends it. Source: assumed."""


class Limits(NamedTuple):
    """A launch is refused when its estimate is more than `max_hours` of this machine's time.

    A kernel that runs for `watchdog_s` seconds without a command or a wait is stopped. Infinity is no limit.
    """

    max_hours: float = 1.0
    watchdog_s: float = 30.0


def limits_of(environment: Mapping[str, str] = os.environ) -> Limits:
    """Returns the limits that the variables KB_MAX_HOURS and KB_WATCHDOG state. Raises KbError for no number."""
    usual = Limits()
    return Limits(
        positive_or_any(MAX_HOURS, environment.get(MAX_HOURS) or f"{usual.max_hours}"),
        positive_or_any(WATCHDOG, environment.get(WATCHDOG) or f"{usual.watchdog_s}"),
    )


def positive_or_any(where: str, text: str) -> float:
    """Returns the number *text*, with infinity for 0. Raises KbError, which begins with *where*, for another text."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < inf:
        raise KbError(where, repr(text), "a number from 0 on", "0 is for no limit")
    return number or inf


def check_grid(grid: Grid, limits: Limits) -> None:
    """Raises KernelError for a *grid* whose programs take more memory than this machine has left, or more time than
    *limits* allow, whatever they do.
    """
    n, left = grid.n_programs, available_nbytes()
    hours = n * _LEAST_PROGRAM_S / 3600
    got = f"a grid of {n:,} programs"
    fix = "give each program more to do, and launch fewer"
    if left is not None and n * _LEAST_PROGRAM_NBYTES > left:
        got += f", which take {n * _LEAST_PROGRAM_NBYTES / 2**30:,.0f} GiB of memory and {time_text(hours)}, or more"
        raise KernelError("launch", got, f"at most the {left / 2**30:,.1f} GiB that this machine has left", fix)
    if hours > limits.max_hours:
        raise too_long("launch", f"{got}, which take {time_text(hours)} or more", limits, fix)


def too_long(where: str, got: str, limits: Limits, fix: str) -> KernelError:
    """The error of work that takes longer than *limits* allow. *got* is the work with its estimate."""
    needs = f"at most {time_text(limits.max_hours)} of simulation"
    error = KernelError(where, got, needs, f"{fix}; {MAX_HOURS} or --max-hours sets another limit, and 0 none")
    error.__cause__ = TimeoutError(got)  # so a sweep does not keep the error: another machine may be faster
    return error


_UNITS: Final = ((365 * 24.0, "year"), (24.0, "day"), (1.0, "hour"), (1 / 60, "minute"), (1 / 3600, "second"))


def time_text(hours: float) -> str:
    """Returns a duration in words: `3 hours`, `1.5 days`."""
    size, unit = next((each for each in _UNITS if hours >= each[0]), _UNITS[-1])
    number = hours / size
    text = f"{number:.0f}" if number >= 10 or abs(number - round(number)) < 0.05 else f"{number:.1f}"
    return f"{int(text):,} {unit}s" if text.isdigit() and text != "1" else f"{text} {unit}{'' if text == '1' else 's'}"
