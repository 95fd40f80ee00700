"""The rule `all in one slice`: a few slices of HBM hold what all PEs use, and others are idle."""

from __future__ import annotations

from typing import Final

from kb_cli.run.base.remedy import Remedy
from kb_cli.run.rules.placement.slice_load import SliceLoad
from kb_cli.terminal.units import percent

_NAME: Final = "all in one slice"
_MOST_BYTES: Final = 0.5
"""The part of HBM's bytes that the loaded slices serve at least. Source: assumed."""
_LEAST_GAIN: Final = 0.05
"""The smallest gain that is told. Source: assumed; less is within the error of windows of time."""


def one_slice(found: SliceLoad) -> Remedy | None:
    """Returns the remedy for operands that lie in a few slices of HBM, for which PEs wait; None for few of the bytes,
    and for little gain.
    """
    if found.hot_share < _MOST_BYTES or found.gain < _LEAST_GAIN:
        return None
    n_slices = len(found.slices)
    names = found.hot[0] if len(found.hot) == 1 else f"{len(found.hot)} slices ({found.hot[0]} to {found.hot[-1]})"
    verb = "serves" if len(found.hot) == 1 else "serve"
    return Remedy(
        rule=_NAME,
        part=found.hot[0],
        flaw=f"{names} of {n_slices} {verb} {percent(found.hot_share)} of HBM's bytes, and PEs wait for them",
        change=f"shard the operands over all {n_slices} slices, each part near the PE that uses it",
        gain=found.gain,
        basis="estimated",
        line=found.line,
    )
