"""The report of a finished run as data: its time by block, line and PE, its roofline, and its configuration."""

from __future__ import annotations

import os
from typing import Any

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from kb_cli.report.data.performance import known_roofs, speed_of_light
from kb_cli.report.data.roofline import RooflineChart, roofline_chart
from kb_cli.report.data.roofline_points import in_flight_ps
from kb_cli.report.data.run_source import RunSource, read_run_source
from kb_cli.run.base.fidelity_band import Fidelity
from kb_cli.run.base.files import LEVERS, folder_path
from kb_cli.run.base.frame_text import frame_text
from kb_cli.run.base.remedy import Remedy
from kb_cli.run.base.result import Busiest, ChosenTile, Roof, ValueWait, remedies_of, was_sampled
from kb_cli.run.base.workload_result import ModelTimes, OpResult
from kb_cli.run.observe.bounded_by import bounded_by
from kb_cli.run.observe.closing_sentence import Timed, best_first, closing_sentence
from kb_cli.terminal.in_notebooks import notebook_html, prompt_text
from kb_cli.whatif.known_levers import Levers, known_levers, ranked
from kb_cli.whatif.lever_chances import TriedLever
from kb_cli.whatif.op_levers import with_op_levers
from kb_dataexec.analysis import (
    BlockShare,
    Channels,
    PathShare,
    PeShares,
    SyncWaits,
    block_shares,
    channels,
    line_shares,
    path_shares,
    pe_shares,
    sync_waits,
)
from kb_dataexec.analysis import total_ps as total_ps_of
from kb_messages import KbError, int_of

_KINDS = {"links": ("link",), "pe_dma": ("pe_dma_read", "pe_dma_write")}
"""The kinds of blocks whose utilization belongs to a block of the path, where the names differ."""


class ReportLine(Struct, frozen=True, kw_only=True):
    """A kernel line: `ps` picoseconds of the critical path, `share` of the time, and `blocks`, the same by block.

    `number` counts lines of the benchmark's file from 1; it is 0 for a line of another file, and for work of no line.
    `text` is that line of the benchmark's file, or of a file or notebook cell that the run kept beside it, and else "".
    `in_flight_ps` is the time in which a command of the line was in flight on any PE. Such times overlap. It is None
    without a log.
    """

    line: str
    number: int
    text: str
    ps: int
    share: float
    blocks: dict[str, int]
    in_flight_ps: int | None


class ReportBlock(Struct, frozen=True, kw_only=True):
    """A kind of block, beside its speed of light.

    `path_ps` and `share` are its time on the critical path. `busy_ps` is all its work, added up over the blocks of the
    kind, and `hidden_ps` the part of it that is on no PE's own path. `of_peak` is its work over the time of the kernels
    on all blocks of the kind (0 to 1), and None where it is not measured; a DMA has the busier of its two channels.
    """

    block: str
    path_ps: int
    share: float
    busy_ps: int
    hidden_ps: int
    of_peak: float | None


class TimeReport(Struct, frozen=True, kw_only=True):
    """The report of the run in the folder `run_dir`.

    `latency_ps` is the time of the kernels, and `total_ps` the time of the launches, from the host's call to its last
    answer. The `ps` of `path` add up to `total_ps`; so do the `ps` of `lines`, and the shares of each of `pes` that
    took part in all launches. Shares are 0 to 1. `speed_of_light` says how near the run came to the limit of its
    roofline, and is empty on a chip that states no limits. `by_sample` says that an output was checked by sample.
    `notes` name the parts that the report lacks. `remedies` are changes of the kernel, and missing in folders of an
    older kb. `workload_ops` are the ops of a workload, `model` is the time of its model, and `whole_ps` the time from
    the first call to the last answer. `sentence` is `bounded_by` with the `remedies` and `levers` that gain most.
    `levers` are missing where none were tried. `frame` says what the latency counts, and `band` is `fidelity` in words;
    both are empty for folders of an older version. `roofs` are those of the run, and none there.
    """

    run_dir: str
    benchmark: str
    topology: str
    params: dict[str, Any]
    seed: int
    sentence: str
    bounded_by: str = ""
    notes: list[str]
    latency_ps: int
    frame: str = ""
    fidelity: Fidelity | UnsetType = UNSET
    band: str = ""
    total_ps: int
    verified: bool | None
    by_sample: bool
    flops: int
    achieved_flops: float
    peak_flops: float | None
    speed_of_light: str
    path: list[PathShare]
    blocks: list[ReportBlock]
    lines: list[ReportLine]
    roofline: RooflineChart
    roofs: list[Roof] = []
    pes: list[PeShares]
    ties: int
    benchmark_sha256: str
    topology_digest: str
    log_digest: str | None
    versions: dict[str, str]
    environment: dict[str, str]
    value_waits: list[ValueWait] | UnsetType = UNSET
    chosen_tiles: list[ChosenTile] | UnsetType = UNSET
    remedies: list[Remedy] | UnsetType = UNSET
    levers: list[TriedLever] | UnsetType = UNSET
    sync_waits: list[SyncWaits] | UnsetType = UNSET
    channels: list[Channels] | UnsetType = UNSET
    workload_ops: list[OpResult] | UnsetType = UNSET
    model: ModelTimes | UnsetType = UNSET
    whole_ps: int = 0

    _repr_html_ = notebook_html
    __repr__ = prompt_text


def read_report(folder: str | os.PathLike[str]) -> TimeReport:
    """Returns the report of the run in *folder*, a run folder or a row of a shapes run.

    The report has the levers that were measured before; no code of the folder is run. Raises RunFolderError when
    *folder* is not the folder of one run, when a file is not as the run wrote it, or when the run had no op log, and
    LogError for a damaged one.
    """
    source = read_run_source(folder_path(folder))
    return with_known_levers(make_report(source), source)


_NO_ROOFLINE = RooflineChart(peaks=[], bandwidth_gbs={}, points=[])


def make_report(source: RunSource, with_roofline: bool = True) -> TimeReport:
    """Returns the report of *source*. Without *with_roofline*, which needs the chip and all operands, it has an empty
    roofline.
    """
    run, results, where = source.run, source.run.results, source.where
    path = path_shares(where)
    chart, notes = roofline_chart(source) if with_roofline else (_NO_ROOFLINE, [])
    return TimeReport(
        run_dir=str(source.folder),
        benchmark=run.benchmark.name,
        topology=run.topology.name,
        params=run.params,
        seed=run.seed,
        sentence=closing_sentence(
            _bound(source, path), Timed.of(results.latency_ps, results.workload_ops), remedies_of(results)
        ),
        bounded_by=_bound(source, path),
        notes=[*source.notes, *notes],
        latency_ps=results.latency_ps,
        frame=frame_text(results),
        fidelity=results.fidelity,
        band=str(results.fidelity or ""),
        total_ps=total_ps_of(where),
        verified=results.verified,
        by_sample=was_sampled(results.outputs),
        flops=results.flops,
        achieved_flops=results.achieved_flops,
        peak_flops=results.peak_flops,
        speed_of_light=speed_of_light(results),
        path=path,
        blocks=[_block(each, results.utilization, results.busiest) for each in block_shares(where)],
        lines=_lines(source),
        roofline=chart,
        roofs=known_roofs(results),
        pes=pe_shares(where),
        ties=sum(launch.ties for launch in where.launches),
        benchmark_sha256=run.benchmark.sha256,
        topology_digest=run.topology.digest,
        log_digest=run.log_digest,
        versions=run.versions,
        environment=run.environment,
        value_waits=results.value_waits,
        chosen_tiles=results.chosen_tiles,
        remedies=results.remedies,
        sync_waits=UNSET if source.log is None else sync_waits(source.log) or UNSET,
        channels=UNSET if source.log is None else channels(source.log) or UNSET,
        workload_ops=results.workload_ops,
        model=results.model,
        whole_ps=results.whole_ps,
    )


def _bound(source: RunSource, path: list[PathShare]) -> str:
    """Returns the sentence on the largest share of the time; that of the run where the log has no launches, and for a
    workload.
    """
    results = source.run.results
    is_of_run = not source.where.launches or not isinstance(results.workload_ops, UnsetType)
    return results.bounded_by if is_of_run else bounded_by(path, {})


def with_levers(report: TimeReport, found: Levers) -> TimeReport:
    """Returns *report* with the levers *found*. Its sentence then names the best of them, too."""
    remedies = best_first([*found.remedies, *(report.remedies or ())])
    ops = report.workload_ops
    timed = Timed.of(report.latency_ps, ops)
    sentence = closing_sentence(report.bounded_by, timed, remedies, found.tried, report.run_dir)
    if not isinstance(ops, UnsetType):
        ops = with_op_levers(ops, found.levers)
    return replace(report, levers=ranked(found.levers), sentence=sentence, workload_ops=ops)


def with_known_levers(report: TimeReport, source: RunSource) -> TimeReport:
    """Returns *report* with the levers of the folder that were measured before, if any. An error becomes a note."""
    if not (source.folder / LEVERS).exists():
        return report
    try:
        found = known_levers(source.folder)
    except KbError as error:
        return without_levers(report, error)
    return with_levers(report, found) if found.measured else report


def without_levers(report: TimeReport, error: KbError) -> TimeReport:
    """Returns *report* with a note that *error* left it without levers."""
    return replace(report, notes=[*report.notes, f"{report.run_dir}: got no levers: {error}"])


def _block(share: BlockShare, utilization: dict[str, float], busiest: dict[str, Busiest]) -> ReportBlock:
    of_peak = [utilization[kind] for kind in _KINDS.get(share.block, (share.block,)) if kind in busiest]
    return ReportBlock(
        block=share.block,
        path_ps=share.path_ps,
        share=share.share,
        busy_ps=share.busy_ps,
        hidden_ps=share.hidden_ps,
        of_peak=max(of_peak, default=None),
    )


def _lines(source: RunSource) -> list[ReportLine]:
    """Returns all lines that are on the path or had commands, the costliest first."""
    in_flight = None if source.log is None else in_flight_ps(source.log)
    files = {source.run.benchmark.file: source.text.splitlines()}
    found = []
    shares = {each.line: each for each in line_shares(source.where)}
    for line in dict.fromkeys((*shares, *sorted(in_flight or ()))):
        file = line.rpartition(":")[0]
        if file not in files:
            files[file] = source.text_of(file).splitlines()
        place = line_number(line, file, len(files[file]))
        share = shares.get(line)
        found.append(
            ReportLine(
                line=line,
                number=place if file == source.run.benchmark.file else 0,
                text=files[file][place - 1].strip() if place else "",
                ps=share.ps if share else 0,
                share=share.share if share else 0.0,
                blocks=share.blocks if share else {},
                in_flight_ps=None if in_flight is None else in_flight.get(line, 0),
            )
        )
    return found


def line_number(line: str, file: str, most: int) -> int:
    """Returns the number in *line*, like `gemm.py:29`, when it is a line of *file*, which has *most* lines;
    otherwise 0.
    """
    name, _, number = line.rpartition(":")
    found = int_of(number) or 0
    return found if name == file and found <= most else 0
