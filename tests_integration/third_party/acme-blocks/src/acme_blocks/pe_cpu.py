"""A PE_CPU of another make: transfers are cheaper to issue than compute."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from kb_engine.block import CommandIssuer, ps_from_ns
from kb_messages import Command, LoadCommand, StoreCommand


class AcmeCpuSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`move_ns` to issue a load or a store, `compute_ns` to issue any other command."""

    move_ns: Annotated[float, Meta(ge=0)]
    compute_ns: Annotated[float, Meta(ge=0)]


class AcmeCpu(CommandIssuer[AcmeCpuSpec]):
    """A core that writes longer descriptors for compute."""

    spec_type = AcmeCpuSpec

    def issue_ps(self, command: Command) -> int:
        """`move_ns` or `compute_ns`. Source: assumed."""
        moves = isinstance(command, LoadCommand | StoreCommand)
        return ps_from_ns(self.spec.move_ns if moves else self.spec.compute_ns)
