"""Tables of `kb run` for one run."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from kb_cli.report.data.performance import SPACES, choices_text, known_roofs, performance_rows
from kb_cli.report.elements.shared_tables import (
    chosen_tile_tables,
    remedy_tables,
    roof_tables,
    value_wait_tables,
    where_table,
)
from kb_cli.report.elements.stream_tables import stream_tables
from kb_cli.report.elements.verdicts import (
    failed_line,
    failure_causes,
    sanitizer_texts,
    verdict_cell,
    verdict_style,
)
from kb_cli.report.tables.op_tables import op_tables
from kb_cli.run.base.fidelity_band import Fidelity, fidelity_text
from kb_cli.run.base.frame_text import frame_text
from kb_cli.run.base.model_text import model_rows
from kb_cli.run.base.result import RunResult, Sanitized, Traffic
from kb_cli.run.base.workload_result import ModelTimes
from kb_cli.run.observe.stage_tally import QUEUE_FULL, SERVICE
from kb_cli.terminal.output import BAD, WARNING, new_table, styled
from kb_cli.terminal.units import PS_PER_NS, bandwidth, duration, percent, quantity, value_text
from kb_dataexec.analysis import RaceReport

_WHOLE = "from the call of the first launch to the last answer"
_COLUMNS = {
    SERVICE: "in service",
    "channel": "block busy",
    "register_file": "registers full",
    "tcm_port": "TCM port busy",
    QUEUE_FULL: "next queue full",
}


def run_tables(result: RunResult, sentence: str) -> list[Any]:
    """Returns the summary, tables of blocks, memories, counters, stages and the path, and the closing *sentence*.

    The last line of a run that failed says so.
    """
    parts: list[Any] = [_title(result), _summary(result)]
    parts += op_tables(result.workload_ops, result.model, result.whole_ps)
    parts += stream_tables(result.launches)
    parts += [_blocks(result), _memories(result)]
    parts += roof_tables(known_roofs(result), result.latency_ps)
    if result.counters:
        parts.append(_counters(result))
    if result.stages_ps:
        parts.append(_times(result.stages_ps))
    if isinstance(result.where, list):
        parts.append(where_table(result.where))
    parts += remedy_tables(result.remedies)
    parts += chosen_tile_tables(result.chosen_tiles)
    parts += value_wait_tables(result.value_waits)
    parts += sanitizer_texts(result)
    failed = [styled(line, BAD) for line in failed_line(failure_causes(result))]
    return [*(part for table in parts for part in (table, "")), sentence, *failed]


def _title(result: RunResult) -> str:
    params = " ".join(f"{name}={value_text(value)}" for name, value in result.params.items())
    return f"{result.benchmark} on {result.topology}: {params} (seed {result.seed})"


def _summary(result: RunResult) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("latency", _latency(result))
    if isinstance(result.startup_ns, float):
        table.add_row("start-up", _startup(result, result.startup_ns))
    if isinstance(result.whole_ns, float) and (result.host is not None or len(result.launches) > 1):
        table.add_row("whole time", f"{duration(result.whole_ns * PS_PER_NS)} {_WHOLE}")
    if isinstance(result.model, ModelTimes):
        for name, text in model_rows(result.model):
            table.add_row(name, text)
    if text := frame_text(result):
        table.add_row("frame", text)
    late = [each for each in result.launches if each.late_pes]
    if late:
        worst = max(each.late_ns for each in late) * PS_PER_NS
        pes = f"{sum(each.late_pes for each in late)} of {sum(each.pes for each in result.launches)} PEs"
        text = f"{pes} were reached after their target and began up to {duration(worst)} late"
        table.add_row("late", styled(text, WARNING))
    if isinstance(result.chose, dict):
        table.add_row("chose", choices_text(result.chose))
    for name, text in performance_rows(result):
        table.add_row(name, text)
    table.add_row("verified", styled(verdict_cell(result), verdict_style(result.verified)))
    if isinstance(result.sanitizer, Sanitized):
        found = result.sanitizer.texts
        text = f"FAILED, {len(found)} found" if found else "clean"
        table.add_row("sanitizer", styled(text, verdict_style(not found)))
    if isinstance(result.races, RaceReport) and result.races.races:
        text = f"FAILED, {len(result.races.races)} found"
        table.add_row("races", styled(text, verdict_style(False)))
    if isinstance(result.wall_s, dict):
        table.add_row("simulated in", _speed(result, result.wall_s))
    kept = f" ({result.keep.missing})" if result.keep.missing else ""
    table.add_row("run folder", styled(f"{result.run_dir}{kept}", WARNING if kept else ""))
    return table


def _latency(result: RunResult) -> str:
    """Returns the time of the kernels and its fidelity; with several launches, their number."""
    several = f" in the kernels of {len(result.launches)} launches" if len(result.launches) > 1 else ""
    return f"{duration(result.latency_ps)}{several}{fidelity_text(result.fidelity)}"


def _startup(result: RunResult, startup_ns: float) -> str:
    """Returns the start-up of the kernels, which the latency leaves out, and why a band counts it."""
    text = f"{duration(startup_ns * PS_PER_NS)} before the first kernel, not in the latency"
    n_launches, found = len(result.launches), result.fidelity
    if n_launches > 1:
        text += f", {duration(startup_ns * PS_PER_NS / n_launches)} for each launch"
    if isinstance(found, Fidelity) and found.band_ns is not None and found.startup_ns:
        text += f"; in the band, whose rows are {found.times or 'times with start-up'}"
    return text


def _speed(result: RunResult, wall_s: dict[str, float]) -> str:
    timing = wall_s["timing"]
    speed = f"{timing:.2f} s ({quantity(result.tile_stages / timing, '').rstrip()} tile stages/s)" if timing else "0 s"
    return f"{speed}, data {wall_s['data']:.2f} s, verification {wall_s['verify']:.2f} s"


def _blocks(result: RunResult) -> Table:
    table = new_table("block", "count", "busy", "busiest", "which", left=1, text=("which",))
    for kind, mean in result.utilization.items():
        top = result.busiest[kind]
        table.add_row(
            kind, str(top.count), percent(mean), percent(top.utilization), top.node if top.utilization else "-"
        )
    return table


def _memories(result: RunResult) -> Table:
    table = new_table("memory", "read", "written", "rate", "of bandwidth", left=1)
    roofs = {each.kind: each for each in known_roofs(result)}
    for space, traffic in result.bytes.items():
        gbs, limit = _rate(traffic, result), result.bandwidth_gbs.get(space)
        roof = roofs.get(space)
        if roof is not None and roof.gbs is not None and roof.even_ps is not None and result.latency_ps:
            gbs, limit = roof.gbs * roof.even_ps / result.latency_ps, roof.gbs
        share = f"{percent(gbs / limit)} of {bandwidth(limit)}" if limit else "-"
        read, written = quantity(traffic.read, "B"), quantity(traffic.write, "B")
        table.add_row(SPACES.get(space, space), read, written, bandwidth(gbs), share)
    return table


def _rate(traffic: Traffic, result: RunResult) -> float:
    """Returns the GB/s of *traffic*, which is 0 in no time."""
    return (traffic.read + traffic.write) / result.latency_ns if result.latency_ns else 0.0


def _counters(result: RunResult) -> Table:
    """Returns the counters of blocks. Equal blocks share a row: the sum over them, and the range from block to
    block.
    """
    table = new_table("counter of", "counter", "blocks", "sum", "least", "most", left=2)
    for each in result.counters:
        numbers = (f"{number:,}" for number in (each.blocks, each.total, each.least, each.most))
        table.add_row(each.kind, each.counter, *numbers)
    return table


def _times(stages_ps: dict[str, dict[str, int]]) -> Table:
    """Returns the time of the tiles: a row for each stage, in shares of the time of all tiles."""
    used = [column for column in next(iter(stages_ps.values())) if any(times[column] for times in stages_ps.values())]
    total = sum(sum(times.values()) for times in stages_ps.values()) or 1
    names = (_COLUMNS.get(column, column.replace("_", " ")) for column in used)
    table = new_table("time of the tiles", *names, left=1)
    for stage, times in stages_ps.items():
        table.add_row(stage, *(percent(times[column] / total) for column in used))
    return table
