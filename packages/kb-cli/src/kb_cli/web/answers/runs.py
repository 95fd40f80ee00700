"""The view of all runs, and the progress of the ones that go on."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic, sleep
from typing import Final

from msgspec import Struct

from kb_cli.web.answer import WebAnswer, WebEvents, json_answer, json_bytes
from kb_cli.web.run_index import IndexedRun, RunIndex
from kb_cli.web.web_request import WebRequest

_LOOK_S: Final = 0.25
"""Seconds between two looks at the folder. Runs write their progress equally often."""
_SIGN_OF_LIFE_S: Final = 1.0
"""Seconds without news until something is written. The second write fails when the page was closed."""


class RunList(Struct, frozen=True, kw_only=True):
    """All runs below `folder`."""

    folder: str
    runs: list[IndexedRun]


def runs(asked: WebRequest) -> WebAnswer:
    """Answers with the list as it is now."""
    return json_answer(_list(asked.run_index))


def live(asked: WebRequest) -> WebEvents:
    """Answers with the list now, and again whenever it changes."""
    return WebEvents(_changes(asked.run_index))


def _list(index: RunIndex) -> RunList:
    return RunList(folder=index.title, runs=index.runs())


def _changes(index: RunIndex) -> Iterator[bytes | None]:
    before, sent_s = b"", monotonic()
    while True:
        now = json_bytes(_list(index))
        if now != before:
            before, sent_s = now, monotonic()
            yield now
        elif monotonic() - sent_s >= _SIGN_OF_LIFE_S:
            sent_s = monotonic()
            yield None
        sleep(_LOOK_S)
