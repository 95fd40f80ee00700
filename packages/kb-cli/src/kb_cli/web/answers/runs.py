"""The list of runs, and how far those are that go on."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic, sleep
from typing import Final

from msgspec import Struct

from kb_cli.web.answer import WebAnswer, WebEvents, json_answer, json_bytes
from kb_cli.web.run_index import IndexedRun, RunIndex
from kb_cli.web.web_request import WebRequest

_LOOK_S: Final = 0.25
"""Seconds between two looks. Runs tell how far they are as often."""
_SIGN_OF_LIFE_S: Final = 1.0
"""Seconds without news until something is written. The second write fails when the page was closed."""


class RunList(Struct, frozen=True, kw_only=True):
    """All runs below `folder`."""

    folder: str
    runs: list[IndexedRun]


def runs(asked: WebRequest) -> WebAnswer:
    """The list as it is now."""
    return json_answer(_list(asked.shelf))


def live(asked: WebRequest) -> WebEvents:
    """The list now, and again whenever it changes."""
    return WebEvents(_changes(asked.shelf))


def _list(shelf: RunIndex) -> RunList:
    return RunList(folder=shelf.title, runs=shelf.runs())


def _changes(shelf: RunIndex) -> Iterator[bytes | None]:
    before, told_s = b"", monotonic()
    while True:
        now = json_bytes(_list(shelf))
        if now != before:
            before, told_s = now, monotonic()
            yield now
        elif monotonic() - told_s >= _SIGN_OF_LIFE_S:
            told_s = monotonic()
            yield None
        sleep(_LOOK_S)
