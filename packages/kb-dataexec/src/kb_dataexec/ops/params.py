"""The error in the `params` of a record."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kb_dataexec.files import UnreadableJsonError


def flaw(decode: Callable[[str], msgspec.Struct], params: str) -> str:
    """Returns the error of *decode* about *params* that it refuses."""
    try:
        return f"{decode(params)} is right"
    except UnreadableJsonError as error:
        return str(error)
