"""The rules on slices of HBM: both estimate from one `SliceLoad`, of which at most one of them finds a flaw."""

from __future__ import annotations

from kb_cli.run.base.remedy import Remedy
from kb_cli.run.rules.placement.one_slice import one_slice
from kb_cli.run.rules.placement.slice_at_a_time import slice_at_a_time
from kb_cli.run.rules.placement.slice_load import slice_load
from kb_cli.run.rules.rule import Rule
from kb_cli.run.rules.run_facts import RunFacts


class UnevenSlices(Rule):
    """Finds runs that load the slices of HBM unevenly, over the whole run or at each time."""

    def remedy(self, facts: RunFacts) -> Remedy | None:
        """Returns the remedy; None where slices are loaded evenly, or nobody waits for them."""
        found = slice_load(facts)
        if found is None:
            return None
        return one_slice(found) if found.is_total else slice_at_a_time(found, facts.sums.slices_of_transfer)
