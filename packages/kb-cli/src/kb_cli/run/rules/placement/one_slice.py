"""The rule `all in one slice`: a few slices of HBM hold what all PEs use, and others are idle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kb_cli.run.base.remedy import Remedy
from kb_cli.run.rules.placement.slice_load import slice_load
from kb_cli.run.rules.rule import Rule
from kb_cli.terminal.units import percent

if TYPE_CHECKING:
    from kb_cli.run.rules.run_facts import RunFacts

_NAME: Final = "all in one slice"
_MOST_BYTES: Final = 0.5
"""The part of HBM's bytes that the loaded slices serve at least. Source: assumed."""
_LEAST_GAIN: Final = 0.05
"""The smallest gain that is told. Source: assumed; less is within the error of windows of time."""


class OneSlice(Rule):
    """Finds runs whose operands lie in a few slices of HBM, for which PEs wait. `slice_load` estimates the gain."""

    def remedy(self, facts: RunFacts) -> Remedy | None:
        """Returns the remedy; None where the loads of slices over the whole run are even, or nobody waits for them."""
        found = slice_load(facts)
        if found is None or not found.is_total or found.hot_share < _MOST_BYTES or found.gain < _LEAST_GAIN:
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
