"""How far the server is with a run that a page waits for."""

from __future__ import annotations

from msgspec import Struct

from kb_cli.web.answer import WebAnswer, json_answer
from kb_cli.web.opened_runs import ReadingStep
from kb_cli.web.web_request import WebRequest


class WebLoading(Struct, frozen=True, kw_only=True):
    """The parts of a run that were asked for, in the order of the first requests."""

    steps: list[ReadingStep]


def loading(asked: WebRequest) -> WebAnswer:
    """Answers with the parts of the run that are read or being read. Nothing is read for this answer."""
    return json_answer(WebLoading(steps=asked.run.steps))
