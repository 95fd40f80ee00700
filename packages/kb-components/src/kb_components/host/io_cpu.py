"""IO_CPU: takes messages from the host, stamps launches with one start for all PEs, and spreads them over cubes."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from kb_engine.block import CommandDispatcher, MessagePart, ps_from_ns, split_message
from kb_messages import HostMessage, KernelLaunch


class IoCpuSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`overhead_ns`: to read a message and decide where it goes. Source: assumed, unless the topology says.

    `launch_nbytes`: what a launch on its way to a cube or SIP puts on the links. With more than 0 bytes PEs are reached
    later than the start they were told, which counts on 0.
    """

    overhead_ns: Annotated[float, Meta(ge=0)] = 0.0
    launch_nbytes: Annotated[int, Meta(ge=0)] = 0


class IoCpu(CommandDispatcher[IoCpuSpec]):
    """One for each SIP. The host sends to that of the lowest SIP; it passes on what is for other SIPs to theirs."""

    spec_type = IoCpuSpec

    def overhead_ps(self) -> int:
        """Picoseconds from `overhead_ns`, rounded up."""
        return ps_from_ns(self.spec.overhead_ns)

    def part_nbytes(self, message: HostMessage) -> int:
        """`launch_nbytes` for a launch."""
        return self.spec.launch_nbytes if isinstance(message, KernelLaunch) else 0

    def stamped(self, message: HostMessage) -> HostMessage:
        """A launch with its start: when the last PE that it is for will know of it. A stamped one stays as it is."""
        if isinstance(message, KernelLaunch) and message.target_start_ps is None:
            return replace(message, target_start_ps=self.clock.now_ps + self.reach_ps(message))
        return message

    def parts(self, message: HostMessage) -> list[MessagePart]:
        """One for each cube of the own SIP, and one for the io_cpu of every other SIP."""
        directory, mine = self.context.directory, self._sip
        found = []
        for sip, part in split_message(message, lambda cube: cube[0], self._cube_of):
            if sip != mine:
                found.append(MessagePart(directory.io_cpu(sip, self.node_id), part))
                continue
            for cube, smaller in split_message(part, lambda cube: cube, self._cube_of):
                found.append(MessagePart(directory.m_cpu(cube, self.node_id), smaller))
        return found

    @property
    def _sip(self) -> int:
        return self.context.directory.sip_of(self.node_id)

    def _cube_of(self, pe_id: str) -> tuple[int, int]:
        return self.context.directory.cube_of(pe_id, self.node_id)
