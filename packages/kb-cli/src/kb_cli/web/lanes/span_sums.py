"""SpanSums: the time of spans that may overlap, summed up to any moments."""

from __future__ import annotations

import numpy as np

from kb_cli.trace.protobuf import Ints
from kb_cli.trace.transfers import Floats


class SpanSums:
    """Adds up spans from *start_ps* to *end_ps*, in any order: int64, of one length.

    A sum takes two searches for each moment, however many spans there are.
    """

    def __init__(self, start_ps: Ints, end_ps: Ints) -> None:
        starts, ends = (np.sort(each) for each in (start_ps, end_ps))
        self._sums = [np.concatenate(([0], np.cumsum(each))) for each in (starts, ends)]
        # as float64, which a search for moments would make of them each time
        self._starts, self._ends = starts.astype(np.float64), ends.astype(np.float64)

    def until(self, t_ps: Floats) -> Floats:
        """Returns the picoseconds of all spans before each of *t_ps*."""
        begun = np.searchsorted(self._starts, t_ps, side="right")
        ended = np.searchsorted(self._ends, t_ps, side="right")
        # whole numbers until here: what is left is as small as the result
        found: Floats = (begun - ended) * t_ps - (self._sums[0][begun] - self._sums[1][ended])
        return found

    def between(self, edges: Floats) -> Floats:
        """Returns the picoseconds of all spans between neighbours of *edges*, which ascend."""
        found: Floats = np.maximum(np.diff(self.until(edges)), 0)
        return found


class RateSums:
    """Adds up spans from *start_ps* to *end_ps*, each of which counts *rate* (float64) for each of its picoseconds."""

    def __init__(self, start_ps: Ints, end_ps: Ints, rate: Floats) -> None:
        times = np.concatenate((start_ps, end_ps)).astype(np.float64)
        order = np.argsort(times, kind="stable")
        self._times, slope = times[order], np.cumsum(np.concatenate((rate, -rate))[order])
        self._done = np.concatenate(([0.0], np.cumsum(slope[:-1] * np.diff(self._times)))) if len(times) else times

    def between(self, edges: Floats) -> Floats:
        """Returns the sum of rate times picoseconds between neighbours of *edges*, which ascend."""
        if not len(self._times):
            return np.zeros(len(edges) - 1)
        found: Floats = np.maximum(np.diff(np.interp(edges, self._times, self._done)), 0)
        return found
