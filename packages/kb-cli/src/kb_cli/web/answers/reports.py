"""The views of a run's report: overview, levers, source, roofline, and the comparison with another run."""

from __future__ import annotations

from msgspec import Struct, UnsetType

from kb_cli.compare.comparison import RunComparison, compare
from kb_cli.compare.op_changes import op_changes
from kb_cli.report.data.performance import PORTS
from kb_cli.report.data.roofline import RooflineChart
from kb_cli.report.data.run_report import ReportLine, TimeReport, with_known_levers
from kb_cli.report.elements.op_cells import CellTable, cell_tables, model_figures
from kb_cli.report.elements.shared_tables import ROOF_HEADERS, roof_cells
from kb_cli.report.html.page import ALL_OPS
from kb_cli.report.pictures.roofline_picture import roofline_picture
from kb_cli.run.base.workload_result import ModelTimes
from kb_cli.web.answer import WebAnswer, json_answer
from kb_cli.web.web_request import WebRequest
from kb_cli.whatif.known_levers import known_levers
from kb_cli.whatif.lever_chances import TriedLever
from kb_dataexec.analysis import Channels, SyncWaits


class WebOverview(Struct, frozen=True, kw_only=True):
    """The report of the run, called `name`, whose folder is `folder`.

    Of a workload, `model` has the figures of the model, each a name and a text, and `tables` the tables of its ops.
    """

    name: str
    folder: str
    report: TimeReport
    model: list[tuple[str, str]]
    tables: list[CellTable]


class WebLevers(Struct, frozen=True, kw_only=True):
    """The levers of the run, the costliest first. Those are measured that the run folder has measurements of."""

    latency_ps: int
    levers: list[TriedLever]


def overview(asked: WebRequest) -> WebAnswer:
    """Answers with the report of the run, without what comes from its op log."""
    run = asked.run
    report = with_known_levers(run.first_report, run.files)
    model = list(model_figures(report.model)) if isinstance(report.model, ModelTimes) else []
    tables = cell_tables(report.workload_ops, report.model, report.whole_ps, ALL_OPS)
    found = WebOverview(name=run.place.name, folder=str(run.place.path), report=report, model=model, tables=tables)
    return json_answer(found)


class WebLogReport(Struct, frozen=True, kw_only=True):
    """What the op log adds to an overview: times in flight of `lines`, `sync_waits` and `channels`, and its `notes`."""

    lines: list[ReportLine]
    sync_waits: list[SyncWaits] | UnsetType
    channels: list[Channels] | UnsetType
    notes: list[str]


def of_log(asked: WebRequest) -> WebAnswer:
    """Answers with what comes from the op log of the run."""
    found = asked.run.report
    return json_answer(
        WebLogReport(lines=found.lines, sync_waits=found.sync_waits, channels=found.channels, notes=found.notes)
    )


def levers(asked: WebRequest) -> WebAnswer:
    """Answers with the levers of the run and their bounds. Measuring them runs the benchmark, which a page never
    does.
    """
    found = known_levers(asked.run.files.folder)
    dear = sorted(found.levers, key=lambda each: -each.path_ps)
    return json_answer(WebLevers(latency_ps=found.latency_ps, levers=dear))


class WebSource(Struct, frozen=True, kw_only=True):
    """The benchmark's `file` as `text`, and the cost of its lines, the costliest first, of `total_ps`."""

    file: str
    text: str
    total_ps: int
    lines: list[ReportLine]


def source(asked: WebRequest) -> WebAnswer:
    """Answers with the source of the run."""
    run = asked.run
    found, report = run.source, run.report
    answer = WebSource(file=found.run.benchmark.file, text=found.text, total_ps=report.total_ps, lines=report.lines)
    return json_answer(answer)


class WebRoofline(Struct, frozen=True, kw_only=True):
    """The picture, None where there is nothing to draw, its numbers, the words for the memory spaces in use, and the
    table of roofs.
    """

    svg: str | None
    chart: RooflineChart
    roof_headers: tuple[str, ...]
    roofs: list[tuple[str, ...]]
    spaces: dict[str, str]
    sentence: str
    notes: list[str]


def roofline(asked: WebRequest) -> WebAnswer:
    """Answers with the roofline of the run."""
    report = asked.run.whole_report
    chart = report.roofline
    picture = roofline_picture(chart)
    return json_answer(
        WebRoofline(
            svg=None if picture is None else str(picture),
            chart=chart,
            roof_headers=ROOF_HEADERS,
            roofs=list(roof_cells(report.roofs, report.latency_ps)),
            spaces={space: PORTS.get(space, space) for space in chart.used_spaces},
            sentence=report.sentence,
            notes=report.notes,
        )
    )


class WebComparison(Struct, frozen=True, kw_only=True):
    """The comparison `found`, and whether blocks alone are compared, as for two benchmarks."""

    found: RunComparison
    blocks_alone: bool


def comparison(asked: WebRequest) -> WebAnswer:
    """Answers with the comparison of the run in the field `run` with the earlier one in the field `with`."""
    before, after = asked.run_of("with").side, asked.run.side
    is_other = before.run.benchmark.name != after.run.benchmark.name
    blocks_alone = is_other and not op_changes(before, after)
    found = compare(before, after, blocks_alone)
    return json_answer(WebComparison(found=found, blocks_alone=blocks_alone))
