"""The levers of a finished run before they are measured: better values, and the bounds that follow from the path."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from kb_cli.compare.blocks import block_name
from kb_cli.run.base.files import USAGE, RunFolderError
from kb_cli.run.records.manifest_check import check_written
from kb_cli.run.records.run_json import RunJson
from kb_cli.run.records.usage_file import UsageTable
from kb_cli.run.records.where_time import where_of
from kb_cli.terminal.units import duration, percent, signed_percent
from kb_cli.whatif.bound import bound_ps, busiest_ps, by_kind, moved_ps
from kb_cli.whatif.chip_levers import chip_levers, moved
from kb_dataexec.analysis import Where
from kb_dataexec.files import file_in, read_json
from kb_messages import TopologyError
from kb_topology import Topology, format_path, loads_topology, with_values

LEAST_SHARE = 0.02
"""The smallest share of the path for which a lever is tried."""
BUSY = 0.6
"""The smallest share of the time for which a busy block bounds a run."""


class TriedLever(Struct, frozen=True, kw_only=True):
    """A lever, and its gain. `set` has the new values by place, as `kb whatif --set` takes them.

    `path_ps` are the picoseconds of the critical path that scale with it, `share` (0 to 1) of the latency. `bound_ps`
    is the latency at best. `latency_ps` is the measured latency, and `gain` (0 to 1) the saved share; both are None
    when the time for measuring was over before. `then` is the busiest block of the faster run, and `then_busy` the
    share of the time (0 to 1) in which it works.
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


class LeverChance(NamedTuple):
    """A lever before it is measured, and the chip with the better value."""

    lever: TriedLever
    topology: Topology


def lever_chances(folder: Path, run: RunJson, topology: Topology) -> Iterator[LeverChance]:
    """Yields every lever of *topology*, the chip of *run* in *folder*, with its bound. No code of the folder is run.

    Values beyond the limits of the file format are left out. Raises RunFolderError for a folder that does not say where
    its time went, or whose usage.json is not as the run wrote it, and TopologyError for a block that is not installed.
    """
    latency_ps = run.results.latency_ps
    where, busy = by_kind(path_of(folder, run), topology), list(busy_of(folder, run, topology))
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
        yield LeverChance(lever, changed)


def path_of(folder: Path, run: RunJson) -> Where:
    """Returns the time of *run* by cause. Raises RunFolderError when its folder does not have it."""
    found = where_of(folder, run)
    if found is None:
        got = "a run that does not say where its time went" if run.flags.log else "a run without an op log"
        fix = "run it again" if run.flags.log else "run it again without --no-log"
        raise RunFolderError(str(folder), got, "one", fix)
    return found


def busy_of(folder: Path, run: RunJson, topology: Topology) -> Iterator[tuple[str, int]]:
    """Returns the busiest block of each kind in *run*, as (block, picoseconds)."""
    check_written(folder, run, (USAGE,))
    table = read_json(file_in(folder, USAGE, RunFolderError), UsageTable, RunFolderError)
    return busiest_ps(table, topology)
