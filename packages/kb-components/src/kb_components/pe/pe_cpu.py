"""PE_CPU: runs the kernel in order. Every command costs the same to issue."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from kb_components.cost_fields import time_ns
from kb_engine.block import CommandIssuer, Context, ps_from_ns
from kb_messages import Command


class PeCpuSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`issue_ns`: from a call in the kernel to the submission queue. Source: assumed, unless the topology says.

    `issue`: with `blocking`, a call returns when its command is done. With `scoreboard`, it returns when the command is
    issued, and a command is issued when no earlier command conflicts with its operands. With `decoupled`, it returns
    when the command is in the queue of its engine: DMA reads, DMA writes or compute. Commands wait there for their
    operands, in order, while commands of other engines pass. `engine_queue_depth` commands wait in each queue. Source:
    assumed.

    `program_ns`: the time to begin a program of a grid, that is to take its number and set up the kernel's registers.
    Other launches do not pay it. Source: assumed, unless the topology says; some tens of instructions at 1 GHz.

    `startup_ns`: from the arrival of a launch, or its target if that is later, to the start of the PE's first program.
    Source: the topology, where it is not 0.
    """

    issue_ns: Annotated[float, time_ns(("pe_cpu: issue",), "issue time")]
    issue: Literal["blocking", "scoreboard", "decoupled"] = "blocking"
    engine_queue_depth: Annotated[int, Meta(ge=1)] = 8
    program_ns: Annotated[float, time_ns(("pe_cpu: program",), "program time")] = 20.0
    startup_ns: Annotated[float, time_ns(("pe_cpu: startup",), "start-up time")] = 0.0


class PeCpu(CommandIssuer[PeCpuSpec]):
    """An in-order core that only issues commands."""

    __slots__ = ("_issue_ps",)

    spec_type = PeCpuSpec

    def __init__(self, spec: PeCpuSpec, context: Context) -> None:
        super().__init__(spec, context)
        self._issue_ps = ps_from_ns(spec.issue_ns)

    @property
    def issues_ahead(self) -> bool:
        """Whether `issue` is `scoreboard` or `decoupled`."""
        return self.spec.issue != "blocking"

    @property
    def engine_queue_depth(self) -> int | None:
        """The depth of each engine's queue if `issue` is `decoupled`, else None."""
        return self.spec.engine_queue_depth if self.spec.issue == "decoupled" else None

    def program_ps(self) -> int:
        """`program_ns` in picoseconds, rounded up."""
        return ps_from_ns(self.spec.program_ns)

    def startup_ps(self) -> int:
        """`startup_ns` in picoseconds, rounded up."""
        return ps_from_ns(self.spec.startup_ns)

    def call_ps(self) -> int:
        """`issue_ns` in picoseconds, rounded up."""
        return self._issue_ps

    def issue_ps(self, command: Command) -> int:
        """`issue_ns` in picoseconds, rounded up, for every command."""
        return self._issue_ps
