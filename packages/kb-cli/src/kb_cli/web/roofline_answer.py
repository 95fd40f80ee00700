"""The roofline of a run, as the report has it."""

from __future__ import annotations

from msgspec import Struct

from kb_cli.report.performance import PORTS
from kb_cli.report.roofline_chart import RooflineChart
from kb_cli.report.roofline_picture import roofline_picture
from kb_cli.web.answer import WebAnswer, json_answer
from kb_cli.web.web_request import WebRequest


class WebRoofline(Struct, frozen=True, kw_only=True):
    """The picture, None where there is nothing to draw, its numbers, and the words for the memory spaces in use."""

    svg: str | None
    chart: RooflineChart
    spaces: dict[str, str]
    sentence: str
    notes: list[str]


def roofline(asked: WebRequest) -> WebAnswer:
    """The roofline of the run."""
    report = asked.run.report
    chart = report.roofline
    picture = roofline_picture(chart)
    return json_answer(
        WebRoofline(
            svg=None if picture is None else str(picture),
            chart=chart,
            spaces={space: PORTS.get(space, space) for space in chart.used_spaces},
            sentence=report.sentence,
            notes=report.notes,
        )
    )
