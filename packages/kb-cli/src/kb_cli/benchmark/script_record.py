"""What a run folder keeps of the script that made a launch under `kb exec`, so that the launch can be repeated."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class RecordedScript(Struct, frozen=True, kw_only=True):
    """Launch number `launch` of the script in the file `path`, which has the bytes of `sha256`.

    `path` is as the user wrote it. The script runs with `arguments`, under `options` of its front end.
    """

    front_end: str
    path: str
    sha256: str
    arguments: list[str]
    options: dict[str, Any]
    launch: int
