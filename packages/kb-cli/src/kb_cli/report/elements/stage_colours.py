"""The colours of stages and blocks, which reports share with the page of `kb web`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Final

OTHERS: Final = "var(--colour-others)"
"""The colour of stages and blocks without one of their own."""


@cache
def colours_css() -> str:
    """Returns the style sheet with all colours, light and dark."""
    return files(__package__).joinpath("colours.css").read_text(encoding="utf-8")


@cache
def usual_colours() -> Mapping[str, str]:
    """Returns the colour of each stage and block that has one of its own, as a value of CSS."""
    found = re.findall(r"--of-(\w+): (\d+)", colours_css())
    return MappingProxyType({name: f"var(--colour-{number})" for name, number in found})


def colour_of(name: str) -> str:
    """Returns the colour of the stage or block *name* as a value of CSS."""
    return usual_colours().get(name, OTHERS)
