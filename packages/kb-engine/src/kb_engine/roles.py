"""What the engine needs of the two blocks it talks to itself: the PE's CPU and its scheduler."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from kb_engine.component import ComponentBase, SpecT
from kb_engine.pipeline import PipelineContext
from kb_messages.commands import Command, SubmittedCommand
from kb_messages.plan import PipelinePlan


class CommandIssuer(ComponentBase[SpecT]):
    """PE_CPU: runs the kernel; its commands reach the scheduler's submission queue and nothing else."""

    @abstractmethod
    def issue_ps(self, command: Command) -> int:
        """Picoseconds between a command's call in the kernel and its arrival at the submission queue. Pure."""


class CommandScheduler(ComponentBase[SpecT]):
    """PE_SCHEDULER: plans commands, owns the in-flight table and the tile buffers, feeds tiles to the first blocks."""

    @property
    @abstractmethod
    def reserved_nbytes(self) -> int:
        """TCM bytes, from offset 0 on, that only this block's tile buffers use."""

    @abstractmethod
    def plan(self, submitted: SubmittedCommand) -> PipelinePlan:
        """The plan for a command. Pure. Raises PlanError when no plan fits this PE."""

    @property
    @abstractmethod
    def has_room(self) -> bool:
        """Whether the submission queue takes another command."""

    @abstractmethod
    def submit(self, context: PipelineContext) -> None:
        """Put a planned command into the submission queue; the caller has checked `has_room`."""

    @abstractmethod
    def when_room(self, call: Callable[[], None]) -> None:
        """Call *call* once, when the submission queue has room again; first come, first served."""

    @abstractmethod
    def waiting_for(self) -> list[str]:
        """For a deadlock report: one sentence for every command in flight."""
