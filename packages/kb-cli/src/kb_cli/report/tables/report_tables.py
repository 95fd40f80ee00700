"""Tables of `kb report`."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from kb_cli.report.data.performance import PORTS
from kb_cli.report.data.roofline_points import point_cells
from kb_cli.report.data.run_report import TimeReport
from kb_cli.report.elements.equal_pes import part_ranges, part_text, pe_groups
from kb_cli.report.elements.shared_tables import (
    chosen_tile_tables,
    remedy_tables,
    roof_tables,
    value_wait_tables,
    where_table,
)
from kb_cli.report.elements.talk_cells import CHANNEL_HEADERS, WAIT_HEADERS, channel_cells, first_rows, wait_cells
from kb_cli.report.tables.op_tables import op_tables
from kb_cli.run.base.fidelity_band import fidelity_text
from kb_cli.run.base.model_text import model_rows
from kb_cli.run.base.workload_result import ModelTimes
from kb_cli.terminal.output import WARNING, new_table, styled
from kb_cli.terminal.units import duration, percent, quantity

_LINES, _POINTS = 20, 12
"""The most lines, the costliest first, and points of the roofline that the terminal lists; `--json` has all."""
_PES = 8
"""The most groups of PEs that the terminal lists; `-o` and `--json` have all PEs."""

NO_LEVERS = "No value of the chip has 2 % of the critical path."


def report_tables(report: TimeReport) -> list[Any]:
    """Returns the sentence, then the tables: the path, its lines, blocks, roofline and PEs."""
    latency = f"{duration(report.latency_ps)}{fidelity_text(report.fidelity)}"
    title = f"{report.benchmark} on {report.topology}: {latency}, {report.run_dir}"
    tables = [where_table(report.path), *remedy_tables(report.remedies), _lines(report)]
    tables += chosen_tile_tables(report.chosen_tiles)
    tables += [*value_wait_tables(report.value_waits), *_talk_tables(report), _blocks(report)]
    tables += [*roof_tables(report.roofs, report.latency_ps), _roofline(report), _pes(report)]
    ops = op_tables(report.workload_ops, report.model, report.whole_ps)
    frame = [f"frame: {report.frame}"] if report.frame else []
    parts: list[Any] = [title, *frame, "", report.sentence, ""]
    if isinstance(report.levers, list):
        parts += [*([each.sentence for each in report.levers] or [NO_LEVERS]), ""]
    if isinstance(report.model, ModelTimes):
        parts[-1:-1] = [f"{name}: {text}" for name, text in model_rows(report.model)]
    parts += [part for table in [*ops, *tables] for part in (table, "")]
    parts += [styled(note, WARNING) for note in report.notes]
    return parts if report.notes else parts[:-1]


def _lines(report: TimeReport) -> Table:
    table = new_table(
        "line", "on the path", "share", "in flight", "blocks", "source", left=1, text=("blocks", "source")
    )
    for line in report.lines[:_LINES]:
        blocks = ", ".join(f"{block} {percent(ps / line.ps)}" for block, ps in list(line.blocks.items())[:3] if line.ps)
        flight = duration(line.in_flight_ps) if line.in_flight_ps else "-"
        table.add_row(
            line.line or "no line", duration(line.ps), percent(line.share), flight, blocks or "-", line.text[:60]
        )
    if len(report.lines) > _LINES:
        table.add_row(f"{len(report.lines) - _LINES} more: see --json", "", "", "", "", "")
    return table


def _talk_tables(report: TimeReport) -> list[Table]:
    """Returns the table of waits for other PEs and that of channels; none where programs do not talk."""
    shown = ((WAIT_HEADERS, wait_cells(report.sync_waits)), (CHANNEL_HEADERS, channel_cells(report.channels)))
    tables = []
    for headers, (rows, more) in ((headers, first_rows(cells)) for headers, cells in shown if cells):
        table = new_table(*headers, left=2, text=WAIT_HEADERS[-2:])
        for row in rows:
            table.add_row(*row)
        if more:
            table.add_row(f"{more} more: see --json", *[""] * (len(headers) - 1))
        tables.append(table)
    return tables


def _blocks(report: TimeReport) -> Table:
    """Returns the table of blocks. Work off the path is hidden. Work adds up over blocks, which work at the same
    time.
    """
    table = new_table("block", "of peak", "on the path", "work", "hidden work", left=1)
    for each in report.blocks:
        hidden = percent(each.hidden_ps / each.busy_ps) if each.busy_ps else "-"
        peak = "-" if each.of_peak is None else percent(each.of_peak)
        table.add_row(each.block, peak, percent(each.share), duration(each.busy_ps), hidden)
    return table


def _roofline(report: TimeReport) -> Table:
    spaces = report.roofline.used_spaces
    headers = (f"FLOP/B of {PORTS.get(space, space)}" for space in spaces)
    table = new_table("roofline", "operations", "rate", *headers, left=1)
    points = report.roofline.points
    for point in points[:_POINTS]:
        table.add_row(point.label, *point_cells(point, spaces))
    if len(points) > _POINTS:
        table.add_row(f"{len(points) - _POINTS} more: see --json", *[""] * (2 + len(spaces)))
    for peak in report.roofline.peaks:
        table.add_row(f"peak {', '.join(peak.dtypes)}", "", quantity(peak.flops, "FLOP/s"), *("" for _ in spaces))
    if report.roofline.math_flops:
        table.add_row("math units", "", quantity(report.roofline.math_flops, "FLOP/s"), *("" for _ in spaces))
    return table


def _pes(report: TimeReport) -> Table:
    """Returns each group of PEs with the three largest parts of its own time."""
    table = new_table("PE", "first", "second", "third")
    for group in pe_groups(report.pes, _PES):
        parts = [part_text(each) for each in part_ranges(group, report.pes)[:3]]
        table.add_row(group.name, *parts, *[""] * (3 - len(parts)))
    return table
