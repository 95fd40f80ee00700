"""M_CPU: passes the messages of IO_CPU to the PEs of its cube."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Annotated, ClassVar

from msgspec import Struct

from kb_components.cost_fields import time_ns
from kb_engine.block import CommandDispatcher, Context, MessagePart, Receiver, ps_from_ns
from kb_messages import HostMessage, KernelLaunch

Pes = tuple[Hashable, ...]
"""The PEs of a cube in the form in which a message names them."""


class MCpuSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`overhead_ns`: the time to read a message and pass it on. Source: assumed, unless the topology says."""

    overhead_ns: Annotated[float, time_ns(("m_cpu",), "overhead")] = 0.0


class MCpu(CommandDispatcher[MCpuSpec]):
    """Passes every message unchanged to each PE.

    The parts of a message are computed once for the same PEs, because most launches are for the PEs of the launch
    before.
    """

    spec_type = MCpuSpec
    caches: ClassVar[tuple[str, ...]] = ("_reach_ps", "_receivers")

    def __init__(self, spec: MCpuSpec, context: Context) -> None:
        super().__init__(spec, context)
        self._receivers: dict[Pes, list[Receiver]] = {}
        self._reach_ps: dict[Pes, int] = {}

    def overhead_ps(self) -> int:
        """The time to read a message: `overhead_ns` in picoseconds, rounded up."""
        return ps_from_ns(self.spec.overhead_ns)

    def parts(self, message: HostMessage) -> list[MessagePart]:
        """One part for each PE that *message* is for. `all` means the PEs of `pe_layout`."""
        pes = _pes_of(message)
        receivers = self._receivers.get(pes)
        if receivers is None:
            receivers = self._receivers[pes] = self._found(message)
        return [MessagePart(receiver, message) for receiver in receivers]

    def reach_ps(self, message: HostMessage) -> int:
        """Picoseconds from the end of this block's overhead until the last PE has *message*."""
        pes = _pes_of(message)
        reach_ps = self._reach_ps.get(pes)
        if reach_ps is None:
            reach_ps = self._reach_ps[pes] = super().reach_ps(message)
        return reach_ps

    def _found(self, message: HostMessage) -> list[Receiver]:
        directory, cube = self.context.directory, self.context.directory.cube_of(self.node_id, self.node_id)
        if isinstance(message, KernelLaunch):
            named = [directory.pes_of(cube) if target.pes == "all" else target.pes for target in message.targets]
            pes = [pe for each in named for pe in each]
        else:
            pes = [directory.pe_number(pe_id, self.node_id) for pe_id in message.pes]
        return [directory.pe_cpu(cube, pe, self.node_id) for pe in dict.fromkeys(pes)]


def _pes_of(message: HostMessage) -> Pes:
    """The PEs of one cube that *message* is for, in the form in which it names them."""
    if isinstance(message, KernelLaunch):
        return tuple([target.pes if target.pes == "all" else tuple(target.pes) for target in message.targets])
    return tuple(message.pes)
