"""PE_CPU: runs the kernel in order; every command costs the same to issue, and is waited for or tracked."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from kb_engine.block import CommandIssuer, ps_from_ns
from kb_messages import Command


class PeCpuSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`issue_ns`: from a call in the kernel to the submission queue. Source: assumed, unless the topology says.

    `issue`: a call returns when its command is done (`blocking`), or when it is issued, which waits for its operands
    (`scoreboard`).
    """

    issue_ns: Annotated[float, Meta(ge=0)]
    issue: Literal["blocking", "scoreboard"] = "blocking"


class PeCpu(CommandIssuer[PeCpuSpec]):
    """An in-order core that does nothing but issue commands."""

    spec_type = PeCpuSpec

    @property
    def issues_ahead(self) -> bool:
        """Whether `issue` is `scoreboard`."""
        return self.spec.issue == "scoreboard"

    def issue_ps(self, command: Command) -> int:
        """Picoseconds from `issue_ns`, rounded up, whatever the command."""
        return ps_from_ns(self.spec.issue_ns)
