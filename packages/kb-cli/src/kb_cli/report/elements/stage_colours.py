"""The colours of stages and blocks, which reports share with the page of `kb web`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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
    """Returns the colour of the stage or block *name* as a value of CSS; OTHERS for one without its own."""
    return usual_colours().get(name, OTHERS)


def stage_colours(names: Sequence[str]) -> dict[str, str]:
    """Returns a colour for each of *names*. Names without one of their own take turns in the colours that are left."""
    usual = usual_colours()
    taken = {usual.get(name) for name in names}
    every = sorted(set(re.findall(r"--(colour-\d+)", colours_css())))
    free = [each for each in (f"var(--{name})" for name in every) if each not in taken] or [OTHERS]
    others = [name for name in dict.fromkeys(names) if name not in usual]
    turns = {name: free[at % len(free)] for at, name in enumerate(others)}
    return {name: usual.get(name) or turns[name] for name in names}
