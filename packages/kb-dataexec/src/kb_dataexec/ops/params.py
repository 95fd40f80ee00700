"""What is wrong with the `params` of a record."""

from __future__ import annotations

from collections.abc import Callable

import msgspec


def flaw(decode: Callable[[str], msgspec.Struct], params: str) -> str:
    """What *decode* says of *params* that it refuses."""
    try:
        return f"{decode(params)} is right"
    except msgspec.MsgspecError as error:
        return str(error)
