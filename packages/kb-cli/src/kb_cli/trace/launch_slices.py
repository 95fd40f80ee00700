"""The launches of a run as slices: from the host's call to its answer, and from the first kernel to the last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kb_cli.run.launch_times import LaunchTimes
from kb_cli.terminal.units import PS_PER_NS
from kb_cli.trace.arrange import LAUNCHES
from kb_cli.trace.tracks import Slices, TrackPlace

_PLACES = (TrackPlace(LAUNCHES, "call to answer"), TrackPlace(LAUNCHES, "kernels"))


def launch_slices(launches: Sequence[LaunchTimes]) -> Slices:
    """Both tracks of *launches*. A slice has its exact picoseconds and the number of PEs."""
    n = len(launches)
    spans = [(each.call_ns, each.response_ns) for each in launches] + [
        (each.start_ns, each.end_ns) for each in launches
    ]
    start, end = np.array([[_ps(start), _ps(end)] for start, end in spans], np.int64).reshape(-1, 2).T
    arguments = {"start_ps": start, "end_ps": end, "pes": np.array([each.pes for each in launches] * 2, np.int64)}
    names = [f"launch {number}" for number in range(n)]
    return Slices(_PLACES, np.repeat([0, 1], n), start, end, np.tile(np.arange(n), 2), names, arguments)


def _ps(ns: float) -> int:
    """Whole picoseconds: run.json has them divided by 1000, and the product is nearer than half a picosecond."""
    return round(ns * PS_PER_NS)
