"""Levers: which value of a chip would make a finished run faster, and by how much. Each is measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from kb_cli.compare.names import block_name
from kb_cli.run.claims import check_written
from kb_cli.run.files import USAGE, RunFolderError
from kb_cli.run.identity import versions
from kb_cli.run.metrics import Use
from kb_cli.run.progress import PASS_1, RunProgress
from kb_cli.run.usage_file import UsageTable
from kb_cli.run.where_time import where_of
from kb_cli.terminal.units import duration, percent, signed_percent
from kb_cli.whatif.bound import bound_ps, busiest_ps, by_kind, moved_ps
from kb_cli.whatif.chip_levers import chip_levers, moved
from kb_cli.whatif.pass_one import OutOfTime, pass_one
from kb_cli.whatif.ran_setup import RanSetup, read_setup
from kb_dataexec.analysis import Where
from kb_dataexec.files import file_in, read_json
from kb_messages import TopologyError
from kb_topology import Topology, format_path, loads_topology, with_values

DMA = "pe_dma"
LEAST_SHARE = 0.02
"""A lever whose classes have a smaller share of the path is not tried."""
BUSY = 0.6
"""A block that is busy for a smaller share of the time does not bound a run."""


class TriedLever(Struct, frozen=True, kw_only=True):
    """A lever, and what it gained. `set` has the new values by place, as `kb whatif --set` takes them.

    `path_ps` are the picoseconds of the critical path that scale with it, `share` (0 to 1) of the latency. `bound_ps`
    is the latency at best. `latency_ps` was measured, and `gain` (0 to 1) is its share of the latency that went; both
    are None when the time for measuring was over before. `then` is the busiest block of the faster run, and
    `then_busy` the share of the time (0 to 1) in which it works.
    """

    name: str
    block: str
    field: str
    set: dict[str, str]
    path_ps: int
    share: float
    bound_ps: int
    latency_ps: int | None = None
    gain: float | None = None
    then: str | None = None
    then_busy: float | None = None

    @property
    def sentence(self) -> str:
        """The lever in one sentence: `Twice the bandwidth of HBM: 327.506 us (-15.6 %); then GEMM bounds it.`"""
        if self.latency_ps is None or self.gain is None or self.then is None or self.then_busy is None:
            return f"{self.name}: {duration(self.bound_ps)} at best; not measured."
        text = f"{self.name}: {duration(self.latency_ps)} ({signed_percent(-self.gain)})"
        if self.then_busy >= BUSY:
            return f"{text}; then {self.then} bounds it."
        return f"{text}; then no block is busy {percent(BUSY)} of the time."


class Levers(Struct, frozen=True, kw_only=True):
    """The levers of a run, the most gain first, then those that were not measured, the dearest first."""

    latency_ps: int
    levers: list[TriedLever]


def levers(
    folder: Path,
    most: int | None = None,
    within_s: float = 30.0,
    progress: RunProgress | None = None,
    only_bundled: bool = False,
) -> Levers:
    """Try the levers of the run in *folder* that have at least 2 % of its path, the dearest first.

    At most *most* are tried, and no measurement goes on after *within_s* seconds. Runs the benchmark of the folder;
    with *only_bundled*, one that does not come with kb is a RunFolderError.
    Raises RunFolderError for a folder that is none of one run, that has been changed, or whose run has no log or is of
    another version of kb with other times, and KbErrors of the benchmark.
    """
    end_s = perf_counter() + within_s
    ran, told = read_setup(folder, only_bundled), progress or RunProgress()
    chances = [each for each in _chances(ran) if each.lever.share >= LEAST_SHARE]
    chances = sorted(chances, key=lambda each: -each.lever.path_ps)[:most]
    check_baseline(ran, told)
    tried: list[TriedLever] = []
    for number, chance in enumerate(chances):
        told.begin(PASS_1, f"lever {number + 1} of {len(chances)}")
        tried.append(_measured(ran, chance, told, end_s))
    return Levers(
        latency_ps=ran.run.results.latency_ps,
        levers=sorted(tried, key=lambda each: (each.gain is None, -(each.gain or 0.0))),
    )


def check_baseline(ran: RanSetup, progress: RunProgress) -> None:
    """Raise RunFolderError unless this version of kb takes the time of *ran*. Equal versions do."""
    if ran.run.versions == versions():
        return
    progress.begin(PASS_1, "the unchanged chip")
    found, needed = pass_one(ran.setup, progress).latency_ps, ran.run.results.latency_ps
    if found != needed:
        got = f"{found} ps for the unchanged chip with this version of kb"
        raise RunFolderError(str(ran.folder), got, f"{needed} ps, as the run took", "run it again")


class _Chance(NamedTuple):
    """A lever before it is measured, and the chip with the better value."""

    lever: TriedLever
    topology: Topology


def _chances(ran: RanSetup) -> Iterator[_Chance]:
    """Every lever of the chip that has a part of the path. Values beyond the limits of the file format are left out."""
    topology, latency_ps = ran.setup.topology, ran.run.results.latency_ps
    where, busy = by_kind(path_of(ran), topology), list(busy_of(ran))
    every = chip_levers(topology)
    for each in every:
        better = each.better
        pulled = moved(every, each.values, {path: float(text) for path, text in better.items()})
        path_ps = moved_ps(where, pulled)
        try:
            changed = loads_topology(with_values(topology.source, better).text, topology.source.path)
        except TopologyError:
            continue
        lever = TriedLever(
            name=f"{each.lever.better.capitalize()} the {each.lever.noun} of {block_name(each.block)}",
            block=each.block,
            field=each.field,
            set={format_path(path): text for path, text in better.items()},
            path_ps=path_ps,
            share=path_ps / latency_ps if latency_ps else 0.0,
            bound_ps=bound_ps(where, busy, pulled),
        )
        yield _Chance(lever, changed)


def path_of(ran: RanSetup) -> Where:
    """Where the time of *ran* went. Raises RunFolderError when its folder does not say."""
    found = where_of(ran.folder, ran.run)
    if found is None:
        got = "a run that does not say where its time went" if ran.run.flags.log else "a run without an op log"
        fix = "run it again" if ran.run.flags.log else "run it again without --no-log"
        raise RunFolderError(str(ran.folder), got, "one", fix)
    return found


def busy_of(ran: RanSetup) -> Iterator[tuple[str, int]]:
    """The busiest block of each kind in *ran*."""
    check_written(ran.folder, ran.run, (USAGE,))
    table = read_json(file_in(ran.folder, USAGE, RunFolderError), UsageTable, RunFolderError)
    return busiest_ps(table, ran.setup.topology)


def _measured(ran: RanSetup, chance: _Chance, progress: RunProgress, end_s: float) -> TriedLever:
    """The lever of *chance* with what it gained, or as it is when the time is over."""
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
    """The kind of block that was busiest. DMAs are left out, because they are busy while they wait for memories."""
    return max((kind for kind in uses if not kind.startswith(DMA)), key=lambda kind: uses[kind].busiest)
