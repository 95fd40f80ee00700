"""The rule `one slice at a time`: PEs walk through memory in step, so all of them want the same slice of HBM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kb_cli.run.base.remedy import Remedy
from kb_cli.run.rules.placement.slice_load import slice_load

if TYPE_CHECKING:
    from kb_cli.run.rules.run_facts import RunFacts
    from kb_dataexec import OpLog

_NAME: Final = "one slice at a time"
_UNEVEN: Final = 1.9
"""The peak from which on a run has the flaw. Source: assumed; requests that come at random reach 1.3, and requests for
half of the slices at a time 1.8, with gains that other waits may replace."""
_LEAST_GAIN: Final = 0.1
"""The smallest gain that is told. Source: assumed; less is within the error of windows of time."""


class SliceAtATime:
    """Finds runs in which requests meet at one slice of HBM after the other, although all slices serve as many bytes
    in the end. `slice_load` estimates the gain.
    """

    def look(self, chunk: OpLog) -> None:
        """Takes nothing: bytes and waits are among the sums that rules share."""

    def remedy(self, facts: RunFacts) -> Remedy | None:
        """Returns the remedy; None where slices are loaded evenly at each time, or nobody waits for them."""
        found = slice_load(facts)
        if found is None or found.is_total or found.peak < _UNEVEN or found.gain < _LEAST_GAIN:
            return None
        n_slices = len(found.slices)
        return Remedy(
            rule=_NAME,
            part=found.hot[0],
            flaw=f"at each time one slice of HBM has {found.peak:.1f} times the mean load of {n_slices} slices, and in "
            f"all {found.total_peak:.1f} times",
            change="let each program begin its loop at another block, or interleave the operands over the slices",
            gain=found.gain,
            basis="estimated",
            line=found.line,
        )
