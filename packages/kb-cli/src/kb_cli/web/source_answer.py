"""The source of a benchmark with what each line costs."""

from __future__ import annotations

from msgspec import Struct

from kb_cli.report.run_report import ReportLine
from kb_cli.web.answer import WebAnswer, json_answer
from kb_cli.web.web_request import WebRequest


class WebSource(Struct, frozen=True, kw_only=True):
    """The benchmark's `file` as `text`, and what lines cost, the dearest first, of `total_ps`."""

    file: str
    text: str
    total_ps: int
    lines: list[ReportLine]


def source(asked: WebRequest) -> WebAnswer:
    """The source of the run."""
    run = asked.run
    found, report = run.source, run.report
    answer = WebSource(file=found.run.benchmark.file, text=found.text, total_ps=report.total_ps, lines=report.lines)
    return json_answer(answer)
