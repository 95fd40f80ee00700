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
    """Returns *value*, a Struct or plain JSON values, as JSON in UTF-8."""
    from kb_messages import encode_json  # loaded with the first answer, so that the server starts at once

    return encode_json(value)


def json_refusal(text: str, command: str, status: int) -> WebAnswer:
    """Returns an answer whose *text* explains an error, with the *command* that mends it."""
    return WebAnswer(json_bytes({"text": text, "command": command}), JSON, status)


def sentence(text: str, status: int) -> WebAnswer:
    """Returns an answer whose *text* explains an error."""
    return WebAnswer(f"{text}\n".encode("utf-8", "backslashreplace"), TEXT, status)
