"""TimedRun: the times of a finished run in which levers are looked for. Ops of a workload count as in its model."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from msgspec import UnsetType
from msgspec.structs import replace

from kb_cli.run.base.files import USAGE, RunFolderError
from kb_cli.run.base.result import RunResult
from kb_cli.run.base.workload_result import OpResult, model_kernels_ps
from kb_cli.run.records.manifest_check import check_written
from kb_cli.run.records.run_json import RunJson
from kb_cli.run.records.usage_file import UsageTable
from kb_cli.run.records.where_time import launches_of, where_of
from kb_cli.terminal.units import PS_PER_NS
from kb_cli.whatif.bound import BusyPart, busy_parts, by_kind, limits_of
from kb_dataexec.analysis import LaunchWhere, Where, WhereRow
from kb_dataexec.files import file_in, read_json
from kb_messages import MemorySpace
from kb_topology import Topology


class TimedRun(NamedTuple):
    """The times of a finished run on the chip `topology`: its latency, its path, and the work of its blocks.

    With `ops` of a workload, `latency_ps` has the kernels of the whole model: each op as often as the model has
    it. `path` and `busy` count that way, too. `hbm_gbs` is then the bandwidth of all HBM, None for none.
    """

    topology: Topology
    latency_ps: int
    where: Where
    usage: UsageTable
    ops: Sequence[OpResult] = ()
    hbm_gbs: float | None = None

    @classmethod
    def of(cls, topology: Topology, result: RunResult, where: Where, usage: UsageTable) -> TimedRun:
        """Returns the times of the run with *result*."""
        ops = result.workload_ops
        if isinstance(ops, UnsetType) or not ops:
            return cls(topology, result.latency_ps, where, usage)
        return cls(topology, model_kernels_ps(ops), where, usage, ops, result.bandwidth_gbs.get(MemorySpace.HBM))

    @property
    def path(self) -> Where:
        """`where` with the kinds of blocks, and with rows of launches that count as often as their op."""
        found = by_kind(self.where, self.topology)
        if all(op.repeats == 1 for op in self.ops):
            return found
        launches = list(found.launches)
        for op in self.ops:
            for number in range(op.first_launch, op.end_launch):
                launches[number] = _times(launches[number], op.repeats)
        return replace(found, launches=launches)

    @property
    def busy(self) -> list[BusyPart]:
        """The busiest parts, by their work in the run. For a workload, it is scaled to the time of the model."""
        parts, run_ps = busy_parts(self.usage, self.topology), sum(op.latency_ps for op in self.ops)
        if not run_ps or run_ps == self.latency_ps:
            return parts
        scale = Fraction(self.latency_ps, run_ps)
        return [
            part._replace(ps=int(part.ps * scale), others_ps=None if part.others_ps is None else part.others_ps * scale)
            for part in parts
        ]

    @property
    def limits(self) -> list[BusyPart]:
        """The parts whose work no run is shorter than. Where ops count unequally, the work of parts by op is not known,
        and only the weights and caches count, which pass through HBM once.
        """
        if len({op.repeats for op in self.ops}) < 2:
            return limits_of(self.busy, self.topology)
        return self._through_hbm(sum(op.repeats * op.floor_nbytes for op in self.ops))

    def path_of(self, op: OpResult) -> Where:
        """Returns the path of the launches of *op*, once."""
        return by_kind(launches_of(self.where, op.first_launch, op.end_launch), self.topology)

    def limits_of(self, op: OpResult) -> list[BusyPart]:
        """Returns the parts whose work *op* cannot do in less time: its weights and caches pass through HBM once."""
        return self._through_hbm(op.floor_nbytes)

    def _through_hbm(self, nbytes: int) -> list[BusyPart]:
        return [BusyPart("hbm", "HBM", int(nbytes / self.hbm_gbs * PS_PER_NS))] if self.hbm_gbs and nbytes else []


def _times(launch: LaunchWhere, count: int) -> LaunchWhere:
    pes = [replace(each, rows=_rows(each.rows, count)) for each in launch.pes]
    return replace(launch, rows=_rows(launch.rows, count), pes=pes)


def _rows(rows: Sequence[WhereRow], count: int) -> list[WhereRow]:
    return [replace(row, ps=row.ps * count) for row in rows]


def timed_run(folder: Path, run: RunJson, topology: Topology) -> TimedRun:
    """Returns the times of *run*, the run in *folder*. No code of the folder is run.

    Raises RunFolderError for a folder that does not say where its time went, or whose usage.json is not as the run
    wrote it.
    """
    return TimedRun.of(topology, run.results, path_of(folder, run), usage_of(folder, run))


def path_of(folder: Path, run: RunJson) -> Where:
    """Returns the time of *run* by cause. Raises RunFolderError when its folder does not have it."""
    found = where_of(folder, run)
    if found is None:
        got = "a run that does not say where its time went" if run.flags.log else "a run without an op log"
        fix = "run it again" if run.flags.log else "run it again without --no-log"
        raise RunFolderError(str(folder), got, "one", fix)
    return found


def usage_of(folder: Path, run: RunJson) -> UsageTable:
    """Returns the usage.json of *run*. Raises RunFolderError when its folder has other bytes than the run wrote."""
    check_written(folder, run, (USAGE,))
    return read_json(file_in(folder, USAGE, RunFolderError), UsageTable, RunFolderError)
