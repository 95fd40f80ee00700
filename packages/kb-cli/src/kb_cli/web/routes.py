"""Maps each request to the function that answers it. A module is imported ahead of its first request, or with it."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from importlib import import_module
from typing import Final

from kb_cli.terminal.failure import failure_text
from kb_cli.terminal.streams import say
from kb_cli.web.answer import WebAnswer, WebEvents, json_refusal, sentence
from kb_cli.web.web_request import NoViewError, WebRequest
from kb_messages import KbError

_ANSWERS: Final = {
    "runs": "runs:runs",
    "live": "runs:live",
    "loading": "loading:loading",
    "overview": "reports:overview",
    "of_log": "reports:of_log",
    "levers": "reports:levers",
    "lanes": "timeline:lanes",
    "window": "timeline:window",
    "edge": "timeline:edge",
    "sums": "window_sums:sums",
    "find": "timeline:find",
    "arrows": "messages:arrows",
    "slice": "slices:one_slice",
    "facts": "service_facts:facts",
    "cause": "service_facts:cause",
    "why": "slices:why",
    "source": "reports:source",
    "stalls": "stalls:stalls",
    "topology": "chip:topology",
    "roofline": "reports:roofline",
    "compare": "reports:comparison",
    "words": "words:words",
    "sweeps": "sweeps:sweeps",
    "sweep": "sweeps:sweep",
}
"""The module of the room `answers` and its function, by the name of the request."""


def answer_to(name: str, asked: WebRequest, is_over: Callable[[], bool]) -> WebAnswer | WebEvents:
    """Returns the answer to the request *name*; a sentence for a request that cannot be answered.

    *is_over* says whether the server has ended. Python then takes away objects that threads need, so they may fail.
    """
    try:
        return _function(name)(asked)
    except KbError as error:
        status = getattr(error, "status", HTTPStatus.BAD_REQUEST)
        command = getattr(error, "command", None)
        return sentence(str(error), status) if command is None else json_refusal(str(error), command, status)
    except Exception as error:  # noqa: BLE001 -- the page goes on, and the terminal says what happened
        if is_over():
            return sentence("kb web has ended", HTTPStatus.SERVICE_UNAVAILABLE)
        say(failure_text(error, ["web", "(page)", name]))
        return sentence("kb itself failed; the terminal of kb web says more", HTTPStatus.INTERNAL_SERVER_ERROR)


def load_answers() -> None:
    """Imports the modules of all requests, the ones of a run's first picture before the others."""
    for place in ("runs", "timeline", *_ANSWERS.values()):
        import_module(f"kb_cli.web.answers.{place.partition(':')[0]}")


def _function(name: str) -> Callable[[WebRequest], WebAnswer | WebEvents]:
    place = _ANSWERS.get(name)
    if place is None:
        raise NoViewError(f"/api/{name[:40]}", "a request of no view", f"one of {', '.join(_ANSWERS)}")
    module, _, function = place.partition(":")
    answers = import_module(f"kb_cli.web.answers.{module}")
    found: Callable[[WebRequest], WebAnswer | WebEvents] = getattr(answers, function)
    return found
