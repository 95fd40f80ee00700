"""The overview of a run: what `kb report` computes, and how much better values of the chip could gain at best."""

from __future__ import annotations

from msgspec import Struct

from kb_cli.report.run_report import TimeReport
from kb_cli.web.answer import WebAnswer, json_answer
from kb_cli.web.web_request import WebRequest
from kb_cli.whatif.lever_chances import LEAST_SHARE, TriedLever, lever_chances


class WebOverview(Struct, frozen=True, kw_only=True):
    """The report of the run, called `name`, whose folder is `folder`."""

    name: str
    folder: str
    report: TimeReport


class WebLevers(Struct, frozen=True, kw_only=True):
    """Values of the chip with a part of the path, the dearest first. None of them was measured."""

    latency_ps: int
    levers: list[TriedLever]


def overview(asked: WebRequest) -> WebAnswer:
    """The report of the run."""
    run = asked.run
    return json_answer(WebOverview(name=run.place.name, folder=str(run.place.path), report=run.report))


def levers(asked: WebRequest) -> WebAnswer:
    """The levers of the run with their bounds. Measuring them runs the benchmark, which a page never does."""
    run = asked.run
    source = run.source
    chances = [each.lever for each in lever_chances(source.folder, source.run, source.chip)]
    dear = [each for each in chances if each.share >= LEAST_SHARE]
    return json_answer(
        WebLevers(latency_ps=source.run.results.latency_ps, levers=sorted(dear, key=lambda each: -each.path_ps))
    )
