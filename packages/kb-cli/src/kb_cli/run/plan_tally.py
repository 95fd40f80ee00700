"""Adds up the bytes of all plans that kernels issue."""

from __future__ import annotations

from typing import Final

from kb_engine.block import CommandInFlight
from kb_engine.observe import Observer
from kb_messages import PipelinePlan, StageType
from kb_plans import PlanCounts, count

_MOST_COUNTED: Final = 512


class PlanTally(Observer):
    """Bytes by stage type of every plan, the bytes that DMA reads to registers, and the number of tile stages.

    Commands that share a plan move as many bytes, so the plan is counted once.
    """

    def __init__(self) -> None:
        self.nbytes = dict.fromkeys(StageType, 0)
        self.streamed_nbytes = 0
        self.n_stages = 0
        self._counts: dict[int, tuple[PipelinePlan, PlanCounts]] = {}

    def on_issue(self, command: CommandInFlight) -> None:
        """Add the plan of *command*."""
        plan = command.shared_plan
        known = self._counts.get(id(plan))
        if known is None:
            if len(self._counts) >= _MOST_COUNTED:
                self._counts.clear()
            known = self._counts[id(plan)] = plan, count(plan)
        counts = known[1]
        self.n_stages += plan.n_stages
        self.streamed_nbytes += counts.streamed_nbytes
        for stage_type, nbytes in counts.nbytes.items():
            self.nbytes[stage_type] += nbytes
