"""Adds up the bytes of all plans that kernels issue."""

from __future__ import annotations

from kb_engine.block import CommandInFlight
from kb_engine.observe import Observer
from kb_messages import StageType
from kb_plans import count


class PlanTally(Observer):
    """Bytes by stage type of every plan, the bytes that DMA reads to registers, and the number of tile stages."""

    def __init__(self) -> None:
        self.nbytes = dict.fromkeys(StageType, 0)
        self.streamed_nbytes = 0
        self.n_stages = 0

    def on_issue(self, command: CommandInFlight) -> None:
        """Add the plan of *command*."""
        counts = count(command.plan)
        self.n_stages += command.plan.n_stages
        self.streamed_nbytes += counts.streamed_nbytes
        for stage_type, nbytes in counts.nbytes.items():
            self.nbytes[stage_type] += nbytes
