"""Results as an engineer reads them: tables of one run, and of the runs over a file of shapes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from kb_cli.benchmark.shapes import SIZES
from kb_cli.run.result import HostTime, RunResult
from kb_cli.run.sanitizer import Sanitized
from kb_cli.run.tally import QUEUE_FULL, SERVICE
from kb_cli.terminal.output import new_table
from kb_cli.terminal.units import PS_PER_NS, bandwidth, duration, percent, quantity

_SPACES = {"hbm": "HBM", "sram": "SRAM", "tcm": "TCM", "reg": "registers (TCM port)"}
_COLUMNS = {
    SERVICE: "in service",
    "channel": "block busy",
    "register_file": "registers full",
    "tcm_port": "TCM port busy",
    QUEUE_FULL: "next queue full",
}


def run_tables(result: RunResult) -> list[Any]:
    """What `kb run` prints for one run."""
    parts: list[Any] = [_title(result), _summary(result), _blocks(result), _memories(result)]
    if result.stages_ps:
        parts.append(_times(result.stages_ps))
    parts += _sanitizer_texts(result)
    return [part for table in parts for part in (table, "")] + [result.bounded_by]


def shapes_tables(results: Sequence[RunResult]) -> list[Any]:
    """What `kb run --shapes` prints: a row a run, and the totals."""
    first = results[0]
    labels = list(first.shape) if isinstance(first.shape, dict) else []
    table = new_table(*labels, "latency", "TFLOP/s", "of peak", "HBM GB/s", "verified", "max error")
    for column in table.columns[len(labels) :]:
        column.justify = "right"
    for column, label in zip(table.columns, labels, strict=False):
        column.no_wrap = label in SIZES  # names give way where a terminal is narrow, numbers do not
    for result in results:
        cells = list(result.shape.values()) if isinstance(result.shape, dict) else []
        table.add_row(*map(str, cells), *_shape_cells(result))
    failed = [result for result in results if result.verified is False]
    total_ps = sum(result.latency_ps for result in results)
    flops = sum(result.flops for result in results)
    achieved = quantity(flops / (total_ps / 1e12), "FLOP/s") if total_ps else "-"
    count = "1 shape" if len(results) == 1 else f"{len(results)} shapes"
    text = f"{count} on {first.topology}: {duration(total_ps)} in all, {achieved} achieved"
    lines = [table, "", f"{text}, {_verified_count(results)}"]
    lines += [f"FAILED {_where(result)}: {sentence}" for result in failed for sentence in _sentences(result)]
    lines += [f"{_where(result)}: {text}" for result in results for text in _sanitizer_texts(result)]
    missing = [result for result in results if not result.keep.data]
    if missing:
        lines.append(f"data kept for {len(results) - len(missing)} of {len(results)} shapes: {missing[0].keep.why}")
    return [*lines, f"run folder {Path(str(first.run_dir)).parent}"]


def _verified_count(results: Sequence[RunResult]) -> str:
    checked = [result for result in results if result.verified is not None]
    return (
        f"{sum(result.verified is True for result in checked)} of {len(checked)} verified"
        if checked
        else "not verified"
    )


def _title(result: RunResult) -> str:
    params = " ".join(f"{name}={'none' if value is None else value}" for name, value in result.params.items())
    return f"{result.benchmark} on {result.topology}: {params} (seed {result.seed})"


def _summary(result: RunResult) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_row("latency", duration(result.latency_ps))
    if result.host is not None:
        table.add_row("host", _host(result.host))
    late = [each for each in result.launches if each.late_pes]
    if late:
        worst = max(each.late_ns for each in late) * PS_PER_NS
        pes = f"{sum(each.late_pes for each in late)} of {sum(each.pes for each in result.launches)} PEs"
        table.add_row("late", f"{pes} were reached after their target and began up to {duration(worst)} late")
    table.add_row("achieved", _achieved(result))
    table.add_row("verified", _verification(result))
    if isinstance(result.sanitizer, Sanitized):
        table.add_row("sanitizer", f"FAILED, {len(found)} found" if (found := result.sanitizer.texts) else "clean")
    if isinstance(result.wall_s, dict):
        table.add_row("simulated in", _speed(result, result.wall_s))
    kept = "" if result.keep.data else f" (no data kept: {result.keep.why})"
    table.add_row("run folder", f"{result.run_dir}{kept}")
    return table


def _host(host: HostTime) -> str:
    """The time outside of kernels."""
    before, after = duration(host.launch_ns * PS_PER_NS), duration(host.response_ns * PS_PER_NS)
    parts = [f"launch {before} before the first kernel, {after} after the last"]
    for name, ns in (("writes", host.write_ns), ("reads", host.read_ns), ("page maps", host.map_ns)):
        if ns:
            parts.append(f"{name} {duration(ns * PS_PER_NS)}")
    return "; ".join(parts)


def _achieved(result: RunResult) -> str:
    text = quantity(result.achieved_flops, "FLOP/s")
    if not result.peak_flops:
        return text
    share = percent(result.achieved_flops / result.peak_flops)
    return f"{text}, {share} of the peak of {quantity(result.peak_flops, 'FLOP/s')}"


def _verification(result: RunResult) -> str:
    if result.verified is None:
        return "not done"
    return "\n".join(_sentences(result)) if result.verified else "FAILED\n" + "\n".join(_sentences(result))


def _sentences(result: RunResult) -> list[str]:
    return (
        [result.refusal] if result.refusal else [check.text for check in result.outputs if check.ok == result.verified]
    )


def _sanitizer_texts(result: RunResult) -> list[str]:
    return result.sanitizer.texts if isinstance(result.sanitizer, Sanitized) else []


def _speed(result: RunResult, wall_s: dict[str, float]) -> str:
    timing = wall_s["timing"]
    speed = f"{timing:.2f} s ({quantity(result.tile_stages / timing, '').rstrip()} tile stages/s)" if timing else "0 s"
    return f"{speed}, data {wall_s['data']:.2f} s, verification {wall_s['verify']:.2f} s"


def _blocks(result: RunResult) -> Table:
    table = new_table("block", "count", "busy", "busiest", "which")
    for column in table.columns[1:4]:
        column.justify = "right"
    for kind, mean in result.utilization.items():
        top = result.busiest[kind]
        table.add_row(
            kind, str(top.count), percent(mean), percent(top.utilization), top.node if top.utilization else "-"
        )
    return table


def _memories(result: RunResult) -> Table:
    table = new_table("memory", "read", "written", "rate", "of bandwidth")
    for column in table.columns[1:]:
        column.justify = "right"
    for space, traffic in result.bytes.items():
        gbs = (traffic.read + traffic.write) / result.latency_ns if result.latency_ns else 0.0
        limit = result.bandwidth_gbs.get(space)
        share = f"{percent(gbs / limit)} of {bandwidth(limit)}" if limit else "-"
        read, written = quantity(traffic.read, "B"), quantity(traffic.write, "B")
        table.add_row(_SPACES.get(space, space), read, written, bandwidth(gbs), share)
    return table


def _times(stages_ps: dict[str, dict[str, int]]) -> Table:
    """Where the tiles' time went: a row a stage, shares of all their time."""
    used = [column for column in next(iter(stages_ps.values())) if any(times[column] for times in stages_ps.values())]
    total = sum(sum(times.values()) for times in stages_ps.values()) or 1
    table = new_table("time of the tiles", *(_COLUMNS.get(column, column.replace("_", " ")) for column in used))
    for column in table.columns[1:]:
        column.justify = "right"
    for stage, times in stages_ps.items():
        table.add_row(stage, *(percent(times[column] / total) for column in used))
    return table


def _shape_cells(result: RunResult) -> Iterable[str]:
    peak = percent(result.achieved_flops / result.peak_flops) if result.peak_flops else "-"
    hbm = result.bytes.get("hbm")
    gbs = f"{(hbm.read + hbm.write) / result.latency_ns:.1f}" if hbm and result.latency_ns else "-"
    verified = {None: "-", True: "ok", False: "FAILED"}[result.verified]
    error = "-" if result.max_abs_err is None else f"{result.max_abs_err:.3g}"
    return duration(result.latency_ps), f"{result.achieved_flops / 1e12:.3f}", peak, gbs, verified, error


def _where(result: RunResult) -> str:
    return " ".join(f"{name}={value}" for name, value in result.shape.items()) if isinstance(result.shape, dict) else ""
