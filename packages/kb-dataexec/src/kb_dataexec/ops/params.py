"""The error in the `params` of a record."""

from __future__ import annotations

from collections.abc import Callable

import msgspec


def flaw(decode: Callable[[str], msgspec.Struct], params: str) -> str:
    """Returns the error of *decode* about *params* that it refuses."""
    try:
        return f"{decode(params)} is right"
    except msgspec.MsgspecError as error:
        return str(error)
