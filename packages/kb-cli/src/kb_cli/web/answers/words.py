"""The words for reasons and edges, so that the page has the same ones as the terminal."""

from __future__ import annotations

from kb_cli.terminal.cause_words import REASONS, VIA
from kb_cli.web.answer import WebAnswer, json_answer
from kb_cli.web.web_request import WebRequest


def words(asked: WebRequest) -> WebAnswer:
    """Answers with all words."""
    return json_answer({"reasons": dict(REASONS), "via": dict(VIA)})
