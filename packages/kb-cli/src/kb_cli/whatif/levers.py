"""Levers: which value of a chip would make a finished run faster, and by how much. Each is measured by pass 1."""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping
from time import perf_counter
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from kb_cli.benchmark.author_calls import inputs_of, launch
from kb_cli.benchmark.setup import Setup
from kb_cli.compare.blocks import block_name
from kb_cli.run.base.files import RunFolderError, folder_path
from kb_cli.run.base.progress import PASS_1, RunProgress
from kb_cli.run.folders.identity import versions
from kb_cli.run.observe.metrics import Use, uses_of
from kb_cli.run.observe.timed_host import TimedHost
from kb_cli.run.observe.usage import Usage
from kb_cli.run.records.captures import CaptureCollector
from kb_cli.whatif.lever_chances import LEAST_SHARE, LeverChance, TriedLever, lever_chances
from kb_cli.whatif.ran_setup import RanSetup, read_setup
from kb_dataexec import MemoryLogWriter
from kb_engine import Engine
from kb_engine.observe import Observer
from kb_messages import KernelError


class PassOne(NamedTuple):
    """The times of a run: `latency_ps` from the first kernel's start to the last one's end, added up over launches.

    `uses` says how busy the blocks of each kind were.
    """

    latency_ps: int
    uses: dict[str, Use]


class OutOfTime(BaseException):
    """Raised when the seconds for a measurement are over. Code of an author that catches Exception does not catch
    it.
    """


class _Deadline(Observer):
    """Ends a run when `perf_counter` has passed a time."""

    def __init__(self, end_s: float) -> None:
        self._end_s = end_s

    def on_housekeeping(self) -> None:
        """Raises OutOfTime when the time is over."""
        if perf_counter() > self._end_s:
            raise OutOfTime


def pass_one(setup: Setup, progress: RunProgress, end_s: float | None = None) -> PassOne:
    """Simulates *setup* without data. Raises OutOfTime when `perf_counter` passes *end_s*, and KbErrors as a run does.

    A kernel that asks for values while it runs (`tl.materialize`) needs the log, so it gets one in memory. Its captures
    and prints are dropped.
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


DMA = "pe_dma"


class Levers(Struct, frozen=True, kw_only=True):
    """The levers of a run, the most gain first, then the ones that were not measured, the costliest first."""

    latency_ps: int
    levers: list[TriedLever]


def levers(
    folder: str | os.PathLike[str],
    most: int | None = None,
    within_s: float = 30.0,
    progress: RunProgress | None = None,
    only_bundled: bool = False,
) -> Levers:
    """Tries the levers of the run in *folder* that have at least 2 % of its path, the costliest first.

    At most *most* are tried, and no measurement goes on after *within_s* seconds. Runs the benchmark of the folder;
    with *only_bundled*, a benchmark that does not come with kb raises RunFolderError.

    Raises RunFolderError for a folder that is none of one run, that has been changed, or whose run has no log or is of
    another version of kb with other times, and KbErrors of the benchmark.
    """
    end_s = perf_counter() + within_s
    ran, shown = read_setup(folder_path(folder), only_bundled), progress or RunProgress()
    chances = [
        each for each in lever_chances(ran.folder, ran.run, ran.setup.topology) if each.lever.share >= LEAST_SHARE
    ]
    chances = sorted(chances, key=lambda each: -each.lever.path_ps)[:most]
    check_baseline(ran, shown)
    tried: list[TriedLever] = []
    for number, chance in enumerate(chances):
        shown.begin(PASS_1, f"lever {number + 1} of {len(chances)}")
        tried.append(_measured(ran, chance, shown, end_s))
    return Levers(
        latency_ps=ran.run.results.latency_ps,
        levers=sorted(tried, key=lambda each: (each.gain is None, -(each.gain or 0.0))),
    )


def check_baseline(ran: RanSetup, progress: RunProgress) -> None:
    """Raises RunFolderError unless this version of kb gives the time of *ran*. Equal versions do."""
    if ran.run.versions == versions(ran.setup.topology):
        return
    progress.begin(PASS_1, "the unchanged chip")
    found, needed = pass_one(ran.setup, progress).latency_ps, ran.run.results.latency_ps
    if found != needed:
        got = f"{found} ps for the unchanged chip with this version of kb"
        raise RunFolderError(str(ran.folder), got, f"{needed} ps, as the run took", "run it again")


def _measured(ran: RanSetup, chance: LeverChance, progress: RunProgress, end_s: float) -> TriedLever:
    """Returns the lever of *chance* with its measured gain, or unchanged when the time is over."""
    if perf_counter() >= end_s:
        return chance.lever
    try:
        found = pass_one(ran.setup._replace(topology=chance.topology), progress, end_s)
    except OutOfTime:
        return chance.lever
    before_ps, block = ran.run.results.latency_ps, busiest(found.uses)
    return replace(
        chance.lever,
        latency_ps=found.latency_ps,
        gain=1 - found.latency_ps / before_ps if before_ps else 0.0,
        then=block_name(block),
        then_busy=found.uses[block].busiest,
    )


def busiest(uses: Mapping[str, Use]) -> str:
    """Returns the busiest kind of block. DMAs are left out, because they are busy while they wait for memories."""
    return max((kind for kind in uses if not kind.startswith(DMA)), key=lambda kind: uses[kind].busiest)
