"""PE_CPU: runs the kernel in order; every command costs the same to issue."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from kb_engine.roles import CommandIssuer
from kb_engine.units import ps_from_ns
from kb_messages.commands import Command


class PeCpuSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`issue_ns`: from a call in the kernel to the submission queue. Source: assumed, unless the topology says."""

    issue_ns: Annotated[float, Meta(ge=0)]


class PeCpu(CommandIssuer[PeCpuSpec]):
    """An in-order core that does nothing but issue commands."""

    spec_type = PeCpuSpec

    def issue_ps(self, command: Command) -> int:
        """Picoseconds from `issue_ns`, rounded up, whatever the command."""
        return ps_from_ns(self.spec.issue_ns)
