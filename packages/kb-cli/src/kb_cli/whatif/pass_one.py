"""Pass 1 alone: the time of a run on a chip, without log and data."""

from __future__ import annotations

import gc
from time import perf_counter
from typing import NamedTuple

from kb_cli.benchmark.author_calls import inputs_of, launch
from kb_cli.benchmark.setup import Setup
from kb_cli.run.captures import CaptureCollector
from kb_cli.run.metrics import Use, uses_of
from kb_cli.run.progress import RunProgress
from kb_cli.run.timed_host import TimedHost
from kb_cli.run.usage import Usage
from kb_dataexec import MemoryLogWriter
from kb_engine import Engine
from kb_engine.observe import Observer
from kb_messages import KernelError


class PassOne(NamedTuple):
    """Picoseconds of a run: `latency_ps` from the first kernel's start to the last one's end, added up over launches.

    `uses` says how busy the blocks of each kind were.
    """

    latency_ps: int
    uses: dict[str, Use]


class OutOfTime(BaseException):
    """The seconds for a measurement are over. No code of an author catches it by catching Exception."""


class _Deadline(Observer):
    """Ends a run when `perf_counter` has passed a time."""

    def __init__(self, end_s: float) -> None:
        self._end_s = end_s

    def on_housekeeping(self) -> None:
        """As `Observer.on_housekeeping`. Raises OutOfTime."""
        if perf_counter() > self._end_s:
            raise OutOfTime


def pass_one(setup: Setup, progress: RunProgress, end_s: float | None = None) -> PassOne:
    """Simulate *setup*. Raises OutOfTime when `perf_counter` passes *end_s*, and KbErrors as a run does.

    A kernel that asks for values while it runs (`tl.materialize`) needs the log, so it gets one in memory. What it
    captures or prints is not computed, and dropped.
    """
    try:
        return _simulated(setup, progress, None, end_s)
    except KernelError:  # without a log there are no values; any other error comes again
        return _simulated(setup, progress, MemoryLogWriter(), end_s)


def _simulated(setup: Setup, progress: RunProgress, writer: MemoryLogWriter | None, end_s: float | None) -> PassOne:
    usage = Usage()
    watching: list[Observer] = [usage, CaptureCollector(), *([_Deadline(end_s)] if end_s is not None else [])]
    try:
        engine = Engine(setup.topology, writer, watching)
        host = TimedHost(engine, setup.loaded.root, progress)
        launch(setup, host, inputs_of(setup))
        latency_ps = sum(each.end_ps - each.start_ps for each in host.launches)
        return PassOne(latency_ps, uses_of(usage.busy_ps, latency_ps))
    finally:
        gc.collect()  # an engine is full of reference cycles, which keep the memories of its chip alive
