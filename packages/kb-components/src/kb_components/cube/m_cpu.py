"""M_CPU: passes the messages of IO_CPU to the PEs of its cube."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

from kb_engine.block import CommandDispatcher, MessagePart, ps_from_ns
from kb_messages import HostMessage, KernelLaunch, Lever


class MCpuSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`overhead_ns`: the time to read a message and pass it on. Source: assumed, unless the topology says."""

    overhead_ns: Annotated[float, Meta(ge=0, extra=Lever(("m_cpu",), "half", "overhead").extra)] = 0.0


class MCpu(CommandDispatcher[MCpuSpec]):
    """Every PE gets the message unchanged."""

    spec_type = MCpuSpec

    def overhead_ps(self) -> int:
        """Picoseconds from `overhead_ns`, rounded up."""
        return ps_from_ns(self.spec.overhead_ns)

    def parts(self, message: HostMessage) -> list[MessagePart]:
        """One part for each PE that *message* is for. `all` means the PEs of `pe_layout`."""
        directory, cube = self.context.directory, self.context.directory.cube_of(self.node_id, self.node_id)
        return [
            MessagePart(directory.pe_cpu(cube, pe, self.node_id), message)
            for pe in dict.fromkeys(self._pes(message, cube))
        ]

    def _pes(self, message: HostMessage, cube: tuple[int, int]) -> Iterable[int]:
        directory = self.context.directory
        if not isinstance(message, KernelLaunch):
            return [directory.pe_number(pe_id, self.node_id) for pe_id in message.pes]
        return [
            pe for target in message.targets for pe in (directory.pes_of(cube) if target.pes == "all" else target.pes)
        ]
