"""The HTML report of a run: one file of texts and inline pictures, without script, that needs no network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kb_cli.report.data.performance import PORTS
from kb_cli.report.data.roofline_points import point_cells
from kb_cli.report.data.run_report import ReportLine, TimeReport
from kb_cli.report.elements.op_cells import cell_tables, model_figures
from kb_cli.report.elements.page_elements import (
    PLOT_STYLE,
    STYLE,
    Markup,
    bar,
    element,
    folded_table,
    joined,
    section,
    table,
)
from kb_cli.report.elements.shared_tables import (
    REMEDY_HEADERS,
    ROOF_HEADERS,
    ROOFS_TEXT,
    costliest,
    main_shares,
    remedy_cells,
    roof_cells,
)
from kb_cli.report.elements.stage_colours import colours_css
from kb_cli.report.elements.talk_cells import CHANNEL_HEADERS, WAIT_HEADERS, channel_cells, first_rows, wait_cells
from kb_cli.report.elements.verdicts import verdict_word
from kb_cli.report.html.lanes_section import lanes_section
from kb_cli.report.html.pes_section import pes_section
from kb_cli.report.pictures.lanes import Lanes
from kb_cli.report.pictures.roofline_picture import roofline_picture
from kb_cli.report.tables.report_tables import NO_LEVERS
from kb_cli.run.base.remedy import Remedy
from kb_cli.run.base.result import ChosenTile
from kb_cli.run.base.workload_result import ModelTimes
from kb_cli.terminal.units import duration, durations, percent, quantity, value_text
from kb_cli.whatif.lever_chances import TriedLever

_LEVERS, _OPS, _POINTS, _LINES, _TALKS = 6, 10, 6, 12, 6
"""The most levers, ops, points of the roofline, lines, and kinds of waits and channels that are shown at once; the
others open."""
_ABOVE, _BELOW = 3, 1
"""The lines of source that are shown above and below a line with a cost."""


ALL_OPS = 1_000_000
"""More ops than a run has: pages list them all."""


def ops_sections(report: TimeReport) -> list[Markup]:
    """Returns the sections on the ops of a workload and on its model; none for any other benchmark."""
    found = cell_tables(report.workload_ops, report.model, report.whole_ps, ALL_OPS)
    return [
        section(each.title, each.text, folded_table(each.headers, each.rows, _OPS, wide=each.wide)) for each in found
    ]


def path_section(report: TimeReport) -> Markup:
    """Returns the section "Where the time went": a bar and a row for each block and its activity."""
    kept, rest = main_shares(report.path)
    times = durations([*(each.ps for each in kept), sum(each.ps for each in rest)])
    rows = [
        [each.block, each.what, bar(("path", each.share)), percent(each.share), time, costliest(each)]
        for each, time in zip(kept, times, strict=False)
    ]
    if rest:
        share = sum(each.share for each in rest)
        rows.append([f"{len(rest)} more", "", bar(("path", share)), percent(share), times[-1], ""])
    text = f"Every picosecond from the host's call to its last answer ({duration(report.total_ps)}) has one row."
    headers = ("block", "what", "", "share", "time", "costliest line")
    return section("Where the time went", text, table(headers, rows, text=3, wide=(5,)))


def speed_section(report: TimeReport) -> Markup:
    """Returns the section "Speed of light": how much each kind of block worked, and how much of that work was
    hidden.
    """
    rows = []
    for each in report.blocks:
        hidden = each.hidden_ps / each.busy_ps if each.busy_ps else 0.0
        peak = each.of_peak
        split = bar() if peak is None else bar(("path", peak * (1 - hidden)), ("hidden", peak * hidden))
        shown_hidden = percent(hidden) if each.busy_ps else "-"
        rows.append([each.block, split, "-" if peak is None else percent(peak), percent(each.share), shown_hidden])
    key = element(
        "p",
        element("span", element("i", class_="path"), "work that others wait for"),
        element("span", element("i", class_="hidden"), "work hidden behind other work, which costs nothing"),
        class_="soft key",
    )
    text = "How much of the time of the kernels all blocks of a kind were at work: the whole bar is the most they can."
    headers = ("block", "", "of its peak", "on the path", "of its work hidden")
    return section("Speed of light", text, key, table(headers, rows, text=2))


def levers_section(levers: list[TriedLever]) -> Markup:
    """Returns the section "Levers": the gain of better values of the chip, each measured by another simulation."""
    text = "Each was measured by running the simulation again with that value."
    lines = [element("p", each.sentence) for each in levers] or [element("p", NO_LEVERS)]
    if len(lines) > _LEVERS + 2:
        rest = element("summary", f"{len(lines) - _LEVERS} more")
        lines = [*lines[:_LEVERS], element("details", rest, *lines[_LEVERS:])]
    return section("Levers", text, *lines)


def remedies_section(remedies: list[Remedy]) -> Markup:
    """Returns the section "Flaws of the kernel": a row for each flaw that a rule found, the most gain first."""
    text = "Rules found these in the log. An estimated gain is the share of the latency that a rewrite saves."
    rows = [[element("div", cell, class_="wrap") for cell in remedy_cells(each)] for each in remedies]
    return section("Flaws of the kernel", text, table(("flaw", *REMEDY_HEADERS[1:]), rows, text=4))


_ELSEWHERE: Final = ("elsewhere", "share", "time on the path", "in flight", "source")


def lines_section(report: TimeReport, source: str) -> Markup:
    """Returns the section "Lines": the costly lines of the benchmark with their neighbours, and lines of other
    files.
    """
    others = [line for line in report.lines if not line.number]
    rows = [
        [line.line or "no line", percent(line.share), duration(line.ps), _flight(line.in_flight_ps), _code(line.text)]
        for line in others
    ]
    own = [line for line in report.lines if line.number]
    dear = sorted(own, key=lambda line: (-line.ps, -(line.in_flight_ps or 0)))[:_LINES]
    parts = [_listing(dear, source)] if own else []
    if len(own) > len(dear):
        rest = element("summary", f"all {len(own)} lines with a cost")
        parts.append(element("details", rest, _listing(own, source)))
    if rows:
        parts.append(folded_table(_ELSEWHERE, rows, _LINES, wide=(4,)))
    text = (
        "The share of the time, the time on the path, and how long commands of the line were in flight, which overlaps."
    )
    return section("Lines", text, *parts)


def _code(text: str) -> Markup:
    return element("code", text)


def chosen_tiles_section(chosen: list[ChosenTile]) -> Markup:
    """Returns the section "Tiles": the tile of each GEMM that left the tile to the chip."""
    rows = [[each.line, each.tile, f"{each.commands:,}"] for each in chosen]
    text = "The chip chose these tiles, M x N x K in elements, for GEMMs that leave their tile open."
    return section("Tiles", text, table(("line", "tile", "GEMMs"), rows))


def talk_sections(report: TimeReport) -> list[Markup]:
    """Returns the sections "Waits for other PEs" and "Channels" of programs that talk, as far as there are any."""
    waits = "The times of all PEs are added up, by line and reason."
    channels = (
        "Channels with equal messages and ways share a row. The way of a message goes from its credit to its doorbell."
    )
    found = []
    for title, text, headers, cells in (
        ("Waits for other PEs", waits, WAIT_HEADERS, wait_cells(report.sync_waits)),
        ("Channels", channels, CHANNEL_HEADERS, channel_cells(report.channels)),
    ):
        rows, more = first_rows(cells)
        rest = [element("p", f"{more} more: see --json", class_="soft")] if more else []
        found += [section(title, text, folded_table(headers, rows, _TALKS, text=2), *rest)] if rows else []
    return found


def _listing(lines: Sequence[ReportLine], source: str) -> Markup:
    return element("div", element("table", *_source_rows(lines, source), class_="source"), class_="scroll")


def _source_rows(lines: Sequence[ReportLine], source: str) -> Iterator[Markup]:
    costs = {line.number: line for line in lines}
    times = dict(zip(costs, durations([line.ps for line in lines]), strict=True))
    flights = dict(zip(costs, durations([line.in_flight_ps or 0 for line in lines]), strict=True))
    texts = source.splitlines()
    near = sorted({at for number in costs for at in range(number - _ABOVE, number + _BELOW + 1)})
    before = 0
    for number in (each for each in near if 1 <= each <= len(texts)):
        if number > before + 1:
            yield element("tr", element("td", "..."), *(element("td", "") for _ in range(5)), class_="gap")
        before, line = number, costs.get(number)
        cells = ["", "", "", ""]
        if line is not None:
            flight = flights[number] if line.in_flight_ps else "-"
            cells = [bar(("path", line.share)), percent(line.share), times[number], flight]
        yield element(
            "tr",
            *(element("td", cell, class_="number") for cell in cells),
            element("td", str(number), class_="number"),
            element("td", texts[number - 1].rstrip()),
            **({"class_": "dear"} if line is not None and line.ps else {}),
        )


def _flight(ps: int | None) -> str:
    return duration(ps) if ps else "-"


def roofline_section(report: TimeReport) -> Markup:
    """Returns the section "Roofline": the picture, its points as a table, and the roofs of the run."""
    spaces = report.roofline.used_spaces
    rows = [[point.label, *point_cells(point, spaces)] for point in report.roofline.points]
    headers = ["", "operations", "rate", *(f"FLOP a byte of {PORTS.get(space, space)}" for space in spaces)]
    text = (
        "The run, each launch of several, and the commands of each kernel line while one of them was in flight. All "
        "their operations and bytes are counted. A math unit has an operation for each lane and cycle."
    )
    roofs = list(roof_cells(report.roofs, report.latency_ps))
    of_parts = [element("p", ROOFS_TEXT, class_="soft"), table(ROOF_HEADERS, roofs, wide=[5])] if roofs else []
    picture = roofline_picture(report.roofline)
    drawn = [] if picture is None else [element("figure", picture)]
    return section("Roofline", text, *drawn, folded_table(headers, rows, _POINTS), *of_parts)


def configuration_section(report: TimeReport) -> Markup:
    """Returns the section "Configuration": the values that repeat the run."""
    rows = [
        [
            "parameters",
            " ".join(f"{name}={value_text(value)}" for name, value in report.params.items()),
        ],
        ["seed", str(report.seed)],
        ["topology", f"{report.topology}, digest {report.topology_digest}"],
        ["benchmark", f"{report.benchmark}, sha256 {report.benchmark_sha256}"],
        ["log digest", report.log_digest or "-"],
        ["versions", ", ".join(f"{name} {number}" for name, number in report.versions.items())],
        ["environment", ", ".join(f"{name} {number}" for name, number in report.environment.items())],
        ["run folder", report.run_dir],
    ]
    wrapped = [[name, element("div", text, class_="wrap")] for name, text in rows]
    return section("Configuration", "", table(("", ""), wrapped, text=2))


POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""The security policy of the page. Even if a text became a tag, the browser would run no script and ask no other
host."""


def report_page(report: TimeReport, source: str, lanes: Lanes | None) -> bytes:
    """Returns the page of *report* in UTF-8. *source* is the benchmark's file. Equal reports give equal bytes."""
    title = f"{report.benchmark} on {report.topology}"
    head = element(
        "head",
        Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        element("title", f"kernbench: {title}"),
        element("style", Markup(colours_css() + STYLE + PLOT_STYLE)),
    )
    parts = [
        element("h1", title),
        element("p", report.sentence, class_="sentence"),
        report_figures(report),
        *([element("p", report.frame, class_="soft")] if report.frame else []),
        *([element("p", f"Latency on a device: {report.band}", class_="soft")] if report.band else []),
        *(element("p", note, class_="note") for note in report.notes),
        *ops_sections(report),
        path_section(report),
        speed_section(report),
        *([remedies_section(report.remedies)] if isinstance(report.remedies, list) and report.remedies else []),
        *([levers_section(report.levers)] if isinstance(report.levers, list) else []),
        lines_section(report, source),
        *([chosen_tiles_section(report.chosen_tiles)] if isinstance(report.chosen_tiles, list) else []),
        *talk_sections(report),
        roofline_section(report),
        *([] if lanes is None else [lanes_section(lanes)]),
        pes_section(report.pes),
        configuration_section(report),
    ]
    page = f"<!doctype html>\n{element('html', head, element('body', *parts), lang='en')}\n"
    return page.encode("utf-8", "backslashreplace")


def report_figures(report: TimeReport) -> Markup:
    """Returns the latency, and how near to its peak the chip came."""
    figures: list[tuple[str, str]] = [("latency of the kernels", duration(report.latency_ps))]
    if report.total_ps != report.latency_ps:
        figures.append(("from call to answer", duration(report.total_ps)))
    if isinstance(report.model, ModelTimes):
        figures += model_figures(report.model)
    if report.flops:
        figures.append(("achieved", quantity(report.achieved_flops, "FLOP/s")))
    if report.speed_of_light:
        figures.append(("speed of light", report.speed_of_light))
    verdict = verdict_word(report.verified, report.by_sample, "not verified")
    cells = [element("div", element("dt", name), element("dd", text)) for name, text in figures]
    shown = element("dd", verdict, class_="bad") if report.verified is False else element("dd", verdict)
    return element("dl", joined(cells), element("div", element("dt", "numbers"), shown), class_="figures")
