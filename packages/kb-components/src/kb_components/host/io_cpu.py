"""IO_CPU: takes messages from the host, gives a launch one start for all PEs, and sends messages on to cubes."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from kb_components.cost_fields import time_ns
from kb_engine.block import CommandDispatcher, MessagePart, ps_from_ns, split_message
from kb_messages import HostMessage, KernelLaunch


class IoCpuSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`overhead_ns`: the time to read a message and route it. Source: assumed, unless the topology says.

    `launch_nbytes`: the bytes of a launch on the links to a cube or SIP. The start of a launch is computed for 0 bytes,
    so with more bytes the launch reaches PEs after its start.

    `queue_depth`: the most launches of a stream that the host sends before one of them is answered: one runs, and the
    others wait here. With 1, each launch waits for the host. Source: assumed.
    """

    overhead_ns: Annotated[float, time_ns(("io_cpu",), "overhead")] = 0.0
    launch_nbytes: Annotated[int, Meta(ge=0)] = 0
    queue_depth: Annotated[int, Meta(ge=1)] = 16


class IoCpu(CommandDispatcher[IoCpuSpec]):
    """Takes messages from the host. There is one IO_CPU for each SIP.

    The host sends to the IO_CPU of the lowest SIP, and this IO_CPU sends on the parts for other SIPs.
    """

    spec_type = IoCpuSpec

    def overhead_ps(self) -> int:
        """The time to read a message: `overhead_ns` in picoseconds, rounded up."""
        return ps_from_ns(self.spec.overhead_ns)

    @property
    def stream_depth(self) -> int:
        """The most launches of a stream that the host sends before one of them is answered, from `queue_depth`."""
        return self.spec.queue_depth

    def part_nbytes(self, message: HostMessage) -> int:
        """The bytes of a part on the links: `launch_nbytes` for a launch, 0 for other messages."""
        return self.spec.launch_nbytes if isinstance(message, KernelLaunch) else 0

    def stamped(self, message: HostMessage) -> HostMessage:
        """*message* with the start of its launch: the time at which the launch reaches its last PE.

        A launch that already has a start, and any other message, stays as it is.
        """
        if isinstance(message, KernelLaunch) and message.target_start_ps is None:
            return replace(message, target_start_ps=self.clock.now_ps + self.reach_ps(message))
        return message

    def parts(self, message: HostMessage) -> list[MessagePart]:
        """One part for each cube of the own SIP, and one for the IO_CPU of every other SIP."""
        directory = self.context.directory
        mine = directory.sip_of(self.node_id)
        found = []
        for sip, part in split_message(message, lambda cube: cube[0], self._cube_of):
            if sip != mine:
                found.append(MessagePart(directory.io_cpu(sip, self.node_id), part))
                continue
            for cube, smaller in split_message(part, lambda cube: cube, self._cube_of):
                found.append(MessagePart(directory.m_cpu(cube, self.node_id), smaller))
        return found

    def _cube_of(self, pe_id: str) -> tuple[int, int]:
        return self.context.directory.cube_of(pe_id, self.node_id)
