"""Remedy: one change that makes a run faster, with its gain, as JSON and sentences have it."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import UNSET, Struct, UnsetType

LEAST_GAIN: Final = 0.01
"""The smallest gain of a remedy that is told."""


class Remedy(Struct, frozen=True, kw_only=True):
    """One change of a kernel or of a chip, and the share of the latency (0 to 1) that the change saves.

    `rule` is the name of the rule or lever that found it. `part` names the slow part: a PE, a memory, a link, a tensor.
    `flaw` is a clause on what is slow, with its figures. `change` is a clause on what to do. `gain` is `measured` by
    another simulation, or `estimated` from the log. `line` is the kernel line to change, "" where no line is the cause.
    `best` is the gain at best, by the path of the run, and missing where it is not known or was passed.
    """

    rule: str
    part: str
    flaw: str
    change: str
    gain: float
    basis: Literal["measured", "estimated"]
    line: str = ""
    best: float | UnsetType = UNSET
