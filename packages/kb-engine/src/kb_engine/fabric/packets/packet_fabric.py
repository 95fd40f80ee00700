"""PacketFabric: the fabric of a chip with buffers of a size, on which packets hold links (`held_link`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from typing import Any, ClassVar

from kb_engine.block.component import ComponentBase
from kb_engine.block.fabric_roles import BufferedComponent
from kb_engine.fabric.fabric import Fabric
from kb_engine.fabric.packets.held_link import HeldLink, PacketTrain
from kb_engine.fabric.paths import Hop, OnLinks
from kb_engine.fabric.sharing.arrival_curve import SteadyPace
from kb_engine.fabric.transfer import Transfer
from kb_engine.fabric.transfer_rows import TransferRows
from kb_engine.timing.clock import Clock
from kb_messages import FabricTransfer
from kb_topology import AddressMap, Graph


class PacketFabric(Fabric):
    """A Fabric of packets of *packet_nbytes*, with header.

    All links of the chip carry packets, also links with unlimited room behind them. Nothing is reserved ahead, because
    a packet that comes later can hold up the way back. The end of a way takes every packet, and packets that wait at
    its begin fill no buffer: each transfer waits there by itself.
    """

    is_foreseen: ClassVar[bool] = False

    def __init__(
        self,
        clock: Clock,
        graph: Graph,
        address_map: AddressMap,
        on_transfer: Callable[[FabricTransfer], None] | None,
        rows: TransferRows | None,
        on_links: OnLinks,
        packet_nbytes: int,
    ) -> None:
        super().__init__(clock, graph, address_map, on_transfer, rows, on_links)
        self._packet_nbytes = packet_nbytes
        self._buffers: dict[str, BufferedComponent[Any]] = {}
        self._held: dict[int, HeldLink] = {}
        self._ways: dict[int, tuple[HeldLink, ...]] = {}
        self._numbers = count()

    def attach(self, components: Mapping[str, ComponentBase[Any]]) -> None:
        """Gives the fabric the block at each node, before the first transfer."""
        super().attach(components)
        self.wait_for_requests()
        self._buffers = {name: block for name, block in components.items() if isinstance(block, BufferedComponent)}

    def _travel(self, transfer: Transfer) -> None:
        """Sends *transfer* in packets. Without bytes or links, the transfer goes as a whole."""
        flow = transfer.flow
        if not flow.nbytes or not flow.hops:
            super()._travel(transfer)
            return
        way = self._ways.get(id(flow.hops))
        if way is None:
            way = self._ways[id(flow.hops)] = tuple(map(self._held_link, flow.hops))
        sizes, times_ps = (flow.nbytes, self._packet_nbytes), (transfer.head_ps, transfer.tail_ps)
        comes = partial(self._packet_comes, transfer)
        first = PacketTrain(next(self._numbers), comes, way, sizes, times_ps).packet(0)
        self._at(transfer.head_ps, way[0].ask, first)

    def _packet_comes(self, transfer: Transfer, first_byte: int, nbytes: int, head_ps: int, tail_ps: int) -> None:
        """*nbytes* of *transfer* from byte *first_byte* on come to the end of the leg from *head_ps* to *tail_ps*."""
        if transfer.incoming is not None:
            transfer.incoming.comes(head_ps, SteadyPace(head_ps, tail_ps, nbytes), 0, -float(first_byte))
        if first_byte + nbytes == transfer.flow.nbytes:
            self._clock.call_at(tail_ps, self._deliver, transfer)

    def _held_link(self, hop: Hop) -> HeldLink:
        """The link of *hop*, which is one object for all legs."""
        held = self._held.get(id(hop.state))
        if held is None:
            link = hop.state.link
            block = None if link.src == link.dst else self._buffers.get(link.dst)
            room = (None, 0) if block is None else (block.buffer_nbytes, block.credit_ps())
            held = self._held[id(hop.state)] = HeldLink(self._clock, hop.state, hop.after_ps, *room)
        return held
