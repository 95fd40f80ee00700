"""Reads wall.json: how long the passes of a run took on the machine that ran it."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from kb_cli.run.base.files import WALL
from kb_dataexec.files import read_json
from kb_messages import KbError


class _Wall(Struct):
    timing: float


def timing_s(folder: Path) -> float | None:
    """Returns the seconds that pass 1 of the run in *folder* took; None where the folder does not say so.

    No hash covers the file, so nothing but the choice of what to do now may depend on it.
    """
    try:
        return read_json(folder / WALL, _Wall).timing
    except KbError:
        return None
