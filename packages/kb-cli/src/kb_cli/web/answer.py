"""Answers of the server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

TEXT, JSON, BINARY = "text/plain; charset=utf-8", "application/json", "application/octet-stream"
"""Content types of answers that are no file of the page."""


class WebAnswer(NamedTuple):
    """An answer of one piece. `head` has more headers."""

    body: bytes
    kind: str = TEXT
    status: int = 200
    head: Mapping[str, str] = {}


class WebEvents(NamedTuple):
    """An answer that goes on: each of `texts` is an event, and None means that nothing is new."""

    texts: Iterator[bytes | None]


def json_answer(value: Any) -> WebAnswer:
    """Returns *value*, a Struct or plain JSON values, as an answer."""
    return WebAnswer(json_bytes(value), JSON)


def json_bytes(value: Any) -> bytes:
    r"""Returns *value*, a Struct or plain JSON values, as JSON.

    Half of a surrogate pair, which names of files may have and UTF-8 lacks, is escaped as in `\\udcff`.
    """
    import msgspec  # loaded with the first answer, so that the server starts at once

    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_escaped(msgspec.to_builtins(value)))


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_escaped(name): _escaped(each) for name, each in value.items()}
    return [_escaped(each) for each in value] if isinstance(value, list | tuple) else value


def sentence(text: str, status: int) -> WebAnswer:
    """Returns an answer whose *text* explains an error."""
    return WebAnswer(f"{text}\n".encode("utf-8", "backslashreplace"), TEXT, status)
