"""The rule `one slice at a time`: PEs walk through memory in step, so all of them want the same slice of HBM."""

from __future__ import annotations

from typing import Final

from kb_cli.run.base.remedy import Remedy
from kb_cli.run.rules.placement.slice_load import SliceLoad

_NAME: Final = "one slice at a time"
_STAGGER: Final = "let each program begin its loop at another block, so that programs are at different slices"
_LAY_OUT: Final = "lay out each block of a load as one piece, so that it lies over all slices"
_FEW: Final = 1.5
"""The slices of a transfer below which blocks are as good as in one slice each. Source: assumed."""
_UNEVEN: Final = 1.9
"""The peak from which on a run has the flaw. Source: assumed; requests that come at random reach 1.3, and requests for
half of the slices at a time 1.8, with gains that other waits may replace."""
_MOST_HIDDEN: Final = 0.2
"""The work that may be hidden, as a share of the time: a fifth, the error that estimates of rules are held to."""
_LEAST_GAIN: Final = 0.1
"""The smallest gain that is told. Source: assumed; less is within the error of windows of time."""


def slice_at_a_time(found: SliceLoad, slices_of_transfer: float) -> Remedy | None:
    """Returns the remedy for requests that meet at one slice of HBM after the other, although all slices serve as many
    bytes in the end; None where slices are loaded evenly at each time, and for little gain.

    *slices_of_transfer* is the number of slices over which the bytes of a transfer lie. Where work is hidden behind
    transfers, nobody knows what faster transfers gain, and there is no remedy.
    """
    if found.peak < _UNEVEN or found.hidden > _MOST_HIDDEN or found.gain < _LEAST_GAIN:
        return None
    n_slices = len(found.slices)
    return Remedy(
        rule=_NAME,
        part=found.hot[0],
        flaw=f"at each time one slice of HBM has {found.peak:.1f} times the mean load of {n_slices} slices, and in "
        f"all {found.total_peak:.1f} times",
        change=_STAGGER if slices_of_transfer < _FEW else _LAY_OUT,
        gain=found.gain,
        basis="estimated",
        line=found.line,
    )
