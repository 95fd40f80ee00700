"""A launch of many waves, of which some are run and the others follow from them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from library_gemm import TileGrid

from kb_engine import LaunchResult

LEAST_WARM: Final = 3
"""Waves until a run can be periodic, where no cache fills. Source: assumed; tested."""
MOST_PERIOD: Final = 4
"""The longest period that is searched for, in waves."""
STEADY: Final = 0.005
"""The part by which two periods may differ."""


class FoldedLaunch(NamedTuple):
    """The picoseconds of a whole launch, and the waves that were not run."""

    took_ps: float
    n_skipped: int


def launch_folded(
    launch: Callable[[int], LaunchResult], grid: TileGrid, n_pes: int, filling_waves: int = 0
) -> FoldedLaunch:
    """Launches a number of programs of *grid* on *n_pes* PEs by *launch*, and returns the time of the whole grid.

    A wave is *n_pes* programs. Few waves run as they are. Of many, the first ones run, and so does the part of the
    last: as many as fill the cache with results, *filling_waves*, and two periods. After a period, programs begin at
    the same tile along M. Each wave in between takes as long as one of the last period: the mean time between the end
    of a program and the end of the one a period before it. Where the two periods differ, twice as many waves run.
    """
    n_waves, period = grid.n_programs // n_pes, _period(grid, n_pes)
    n_run = max(LEAST_WARM, filling_waves + 1) + 2 * period
    while n_waves - n_run >= 2:
        skipped = n_waves - n_run
        result = launch(grid.n_programs - skipped * n_pes)
        ends = sorted(program.end_ps for program in result.programs)
        before, each = (_wave_ps(ends, n_pes, period, last) for last in (n_run - period, n_run))
        if abs(each - before) <= STEADY * each:
            return FoldedLaunch(result.response_ps - result.call_ps + skipped * each, skipped)
        n_run *= 2
    result = launch(grid.n_programs)
    return FoldedLaunch(result.response_ps - result.call_ps, 0)


def _wave_ps(ends: list[int], n_pes: int, period: int, last: int) -> float:
    """The mean time of a wave of the *period* that ends with wave number *last*, counted from 1."""
    programs = range((last - 1) * n_pes, last * n_pes)
    return sum(ends[at] - ends[at - period * n_pes] for at in programs) / (n_pes * period)


def _period(grid: TileGrid, n_pes: int) -> int:
    along_m = grid.splits * grid.m
    return min(MOST_PERIOD, along_m // math.gcd(along_m, n_pes))
