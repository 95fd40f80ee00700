"""The HTML report: one file without script that needs no network, of texts and inline pictures."""

from __future__ import annotations

from kb_cli.report.lane_pictures import Lanes
from kb_cli.report.page_elements import Markup, element, joined
from kb_cli.report.page_sections import (
    chosen_tiles_section,
    configuration_section,
    lanes_section,
    levers_section,
    lines_section,
    path_section,
    pes_section,
    roofline_section,
    speed_section,
)
from kb_cli.report.page_style import STYLE
from kb_cli.report.run_report import TimeReport
from kb_cli.report.verification import verdict_word
from kb_cli.terminal.units import duration, quantity

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Even if a text became a tag, the browser would neither run a script nor ask another host."""


def report_page(report: TimeReport, source: str, lanes: Lanes | None) -> bytes:
    """The page of *report* in UTF-8. *source* is the benchmark's file. Equal reports give equal bytes."""
    title = f"{report.benchmark} on {report.topology}"
    head = element(
        "head",
        Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        element("title", f"kernbench: {title}"),
        element("style", Markup(STYLE)),
    )
    parts = [
        element("h1", title),
        element("p", report.sentence, class_="sentence"),
        _figures(report),
        *(element("p", note, class_="note") for note in report.notes),
        path_section(report),
        speed_section(report),
        *([levers_section(report.levers)] if isinstance(report.levers, list) else []),
        lines_section(report, source),
        *([chosen_tiles_section(report.chosen_tiles)] if isinstance(report.chosen_tiles, list) else []),
        roofline_section(report),
        *([] if lanes is None else [lanes_section(lanes)]),
        pes_section(report),
        configuration_section(report),
    ]
    page = f"<!doctype html>\n{element('html', head, element('body', *parts), lang='en')}\n"
    return page.encode("utf-8", "backslashreplace")


def _figures(report: TimeReport) -> Markup:
    """The latency, and how near to its peak the chip came."""
    figures: list[tuple[str, str]] = [("latency of the kernels", duration(report.latency_ps))]
    if report.total_ps != report.latency_ps:
        figures.append(("from call to answer", duration(report.total_ps)))
    if report.flops:
        figures.append(("achieved", quantity(report.achieved_flops, "FLOP/s")))
    if report.speed_of_light:
        figures.append(("speed of light", report.speed_of_light))
    verdict = verdict_word(report.verified, report.by_sample, "not verified")
    cells = [element("div", element("dt", name), element("dd", text)) for name, text in figures]
    shown = element("dd", verdict, class_="bad") if report.verified is False else element("dd", verdict)
    return element("dl", joined(cells), element("div", element("dt", "numbers"), shown), class_="figures")
