"""What the server answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

TEXT, JSON, BINARY = "text/plain; charset=utf-8", "application/json", "application/octet-stream"
"""Content types of answers that are no file of the page."""


class WebAnswer(NamedTuple):
    """An answer of one piece. `head` has further headers."""

    body: bytes
    kind: str = TEXT
    status: int = 200
    head: Mapping[str, str] = {}


class WebEvents(NamedTuple):
    """An answer that goes on: each of `texts` is an event, and None says that nothing is new."""

    texts: Iterator[bytes | None]


def json_answer(value: Any) -> WebAnswer:
    """*value*, a Struct or what JSON has, as an answer."""
    import msgspec  # loaded with the first answer, so that the server starts at once

    return WebAnswer(msgspec.json.encode(value), JSON)


def sentence(text: str, status: int) -> WebAnswer:
    """An answer that says in *text* what was wrong."""
    return WebAnswer(f"{text}\n".encode("utf-8", "backslashreplace"), TEXT, status)
