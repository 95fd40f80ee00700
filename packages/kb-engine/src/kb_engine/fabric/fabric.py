"""Fabric: transfers between nodes, over shared links, and the time that they take.

A read is a request leg (0 bytes), the service of the memory and a data leg. A write is a data leg, the service and an
acknowledgement (0 bytes). A message is one leg. The head of a transfer pays the latency of every hop once, and the
bytes pay the bandwidth of each link, cut-through. Zero bytes occupy nothing.

The fabric reserves a link ahead, exactly, where only one flow can feed the link. Where flows merge (`shared_link`), the
arrival of the head is an event. A read that no other request can overtake is reserved at its memory when the read
begins (`lookahead`).

Design: docs/design/link-sharing.md
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from functools import partial
from typing import Any, ClassVar

from simpy.events import NORMAL

from kb_engine.block.component import ComponentBase
from kb_engine.block.in_flight import PipelineError, TileToken
from kb_engine.block.state_visitor import PART, SIZE, State, Stateful
from kb_engine.fabric.compile import PathCompiler
from kb_engine.fabric.incoming_write import IncomingWrite
from kb_engine.fabric.interleaved import Gathering, InterleavedPath
from kb_engine.fabric.link import LinkState
from kb_engine.fabric.paths import Leg, MemoryPath, OnLinks
from kb_engine.fabric.sharing.arrival_curve import SteadyPace
from kb_engine.fabric.sharing.stream import Stream
from kb_engine.fabric.transfer import Transfer
from kb_engine.fabric.transfer_rows import AtomicWrite, TransferRows, WatchedWrite, op_of
from kb_engine.timing.clock import Clock
from kb_messages import OFFSET_BITS, CountedPieces, FabricTransfer, Rectangle
from kb_topology import AddressMap, Graph, Route


class Fabric(Stateful):
    """Every link and memory of the system, and the transfers on them.

    *on_transfer* gets each transfer as soon as its end is known, and *rows* makes a table of the reads and writes.
    *on_links* gives the bytes on a link of a transfer of so many bytes, where packets have headers. `is_foreseen` says
    that the waits of a transfer follow from the links and memories on its way, so that commands can be skipped and
    isolated.
    """

    state: ClassVar[State] = {"_watched": SIZE, "_compiler": PART}
    is_foreseen: ClassVar[bool] = True

    def __init__(
        self,
        clock: Clock,
        graph: Graph,
        address_map: AddressMap,
        on_transfer: Callable[[FabricTransfer], None] | None = None,
        rows: TransferRows | None = None,
        on_links: OnLinks | None = None,
    ) -> None:
        self._clock = clock
        self._graph = graph
        self._on_links = on_links
        self._compiler = PathCompiler(clock, graph, {}, self._deliver, on_links)
        self._paths: dict[tuple[str, int], MemoryPath | InterleavedPath] = {}
        self._address_map = address_map
        self._on_transfer = on_transfer
        self._rows = rows
        self._watched: Set[object] = frozenset()
        self._is_watched = False
        self._enter: Callable[[frozenset[object]], None]

    def watch(self, places: Set[object], enter: Callable[[frozenset[object]], None]) -> None:
        """Calls *enter* before a read or a write begins on a way that has one of *places*. A way names its places."""
        self._watched, self._enter, self._is_watched = places, enter, True

    def attach(self, components: Mapping[str, ComponentBase[Any]]) -> None:
        """Gives the fabric the block at each node, before the first transfer."""
        self._compiler = PathCompiler(self._clock, self._graph, components, self._deliver, self._on_links)

    def wait_for_requests(self) -> None:
        """Turns off ahead-of-time reservation for paths compiled later.

        Probes need this, because their transfers ignore the `lead_ps` of the blocks.
        """
        self._compiler.ignore_leads()

    def forget_ops(self) -> None:
        """Forgets which ops were served, and which transfers have rows in the log, because another op log begins.

        The memories keep their numbers in the log, which follow from the chip.
        """
        self._compiler.forget_ops()

    @property
    def links(self) -> list[LinkState]:
        """Every directed link in the topology's order, with the traffic so far."""
        self._settle()
        return list(self._compiler.links.values())

    @property
    def ports(self) -> list[LinkState]:
        """The ports of blocks that state `port_gbs`, first for what a block sends and then for what it gets.

        Each has the traffic so far. A port is a link from the block to itself.
        """
        self._settle()
        return self._compiler.port_states

    def _settle(self) -> None:
        for leg in self._compiler.legs.values():
            leg.settle()

    def link(self, src: str, dst: str) -> LinkState:
        """The link from *src* to *dst*. Raises KeyError when there is none."""
        return self._compiler.links[src, dst]

    def port_ps(self, node_id: str, nbytes: int) -> int:
        """Picoseconds of *nbytes* at the port of *node_id* in one direction; 0 for a node without one."""
        return self._compiler.port_ps(node_id, nbytes)

    def on_links(self, nbytes: int) -> int:
        """The bytes on each link, with the headers of packets, of a transfer of *nbytes*."""
        return self._compiler.on_links(nbytes)

    def overhead_ps(self, node_id: str) -> int:
        """Picoseconds that the head of a transfer takes to pass *node_id*; 0 for a node that forwards nothing."""
        return self._compiler.overhead_ps(node_id)

    def route(self, src: str, dst: str) -> Route:
        """The nodes and links from *src* to *dst*. Raises TopologyError when no links lead there."""
        return self._compiler.route(src, dst)

    def leg(self, src: str, dst: str) -> Leg:
        """The leg from *src* to *dst*. Raises TopologyError when no links lead there."""
        return self._compiler.leg(src, dst)

    def path(self, src: str, owner: int) -> Any:
        """The path from node *src* to memory *owner*: a MemoryPath, or an InterleavedPath for interleaved bytes.

        Raises TopologyError when no links lead there, or none back.
        """
        path = self._paths.get((src, owner))
        if path is None:
            path = self._paths[src, owner] = self._new_path(src, owner)
        return path

    def paths(self, src: str, owner: int) -> Sequence[MemoryPath]:
        """The path from node *src* to memory *owner*, or to each slice of interleaved memory.

        Raises the errors of `path`.
        """
        path = self.path(src, owner)
        return path.slices if isinstance(path, InterleavedPath) else [path]

    def _new_path(self, src: str, owner: int) -> MemoryPath | InterleavedPath:
        nodes = self._address_map.by_owner
        region = self._address_map.interleaved.get(owner)
        if region is None:
            return self._compiler.path(src, nodes[owner].node_id)
        slices = [nodes[base >> OFFSET_BITS].node_id for base in region.slices]
        return InterleavedPath(src, region, [self._compiler.path(src, each, at_once=True) for each in slices])

    def read(
        self,
        path: MemoryPath | InterleavedPath,
        memory: Rectangle,
        start_ps: int,
        finish: Callable[[Any], None],
        argument: Any,
    ) -> None:
        """Reads the bytes of *memory*. `finish(argument)` is called when the last byte arrives.

        *start_ps* is not before now. Where no other request can overtake this request, the memory is reserved now, and
        so are the links of the way back. Otherwise the arrival of the request is an event.
        """
        if isinstance(path, InterleavedPath):
            self._gather(self.read, path, memory, start_ps, (finish, argument))
            return
        if self._watched and not self._watched.isdisjoint(path.places):
            self._enter(path.places)
        arrival = start_ps + path.request_ps
        nbytes = memory.rows * memory.row_nbytes
        flow = path.back.flow(nbytes) if type(memory) is Rectangle else path.back.pieces_flow(nbytes)
        flow.count += 1
        clock, requests = self._clock, path.requests
        if arrival - clock.now_ps > path.nearest_ps or requests.awaited or not flow.unshared:
            requests.awaited += 1
            if self._is_watched:
                flow.under_way += 1
            self._at(arrival, self._serve, Transfer(flow, path, memory, None, start_ps, finish, argument))
            return
        if arrival < requests.promised_ps:
            raise self._overtaken(path, arrival)
        requests.promised_ps = arrival
        head, tail = path.memory.reserve(arrival, memory, arrival, False)
        _, end = flow.reserve_ahead(head, tail)
        clock.push((end, NORMAL, next(path.event_order), finish, argument))
        if end - start_ps == flow.read_alone_ps and type(argument) is TileToken:
            requests.holders[0] = argument.first_op_id + argument.index
        elif self._rows is not None:
            rows = self._rows
            served = rows.read_served(path, flow, memory, argument, (head, tail))
            rows.read_ended(path, flow, argument, served, (clock.now_ps, start_ps, end))
        if self._on_transfer is not None:
            self._trace(path.src, path.dst, flow.payload_nbytes, start_ps, end)

    def alone_ps(self, path: MemoryPath | InterleavedPath, memory: Rectangle, write: bool) -> tuple[int, int]:
        """Picoseconds of a transfer with nothing else under way, and picoseconds of its bytes at the memory."""
        return path.alone_ps(memory, write)

    def form_of_idle(self, src: str, owner: int) -> Hashable:
        """The form of the path from node *src* to memory *owner*: paths of equal forms have equal idle times.

        Raises the errors of `path`.
        """
        form: Hashable = self.path(src, owner).form_of_idle
        return form

    def counted(self, path: MemoryPath | InterleavedPath, pieces: tuple[Rectangle, ...]) -> CountedPieces:
        """*pieces* of one memory as `read` and `write` take them: each run counts in whole bursts of the memory."""
        return CountedPieces.of(pieces, path.burst_nbytes)

    def write(
        self,
        path: MemoryPath | InterleavedPath,
        memory: Rectangle,
        start_ps: int,
        finish: Callable[[Any], None],
        argument: Any,
        atomic: bool = False,
    ) -> None:
        """Writes the bytes of *memory*. `finish(argument)` is called when the acknowledgement arrives.

        With *atomic*, the memory reads the bytes first.
        """
        if isinstance(path, InterleavedPath):
            write = partial(self.write, atomic=True) if atomic else self.write
            self._gather(write, path, memory, start_ps, (finish, argument))
            return
        if self._watched and not self._watched.isdisjoint(path.places):
            self._enter(path.places)
        nbytes = memory.rows * memory.row_nbytes
        flow = path.away.flow(nbytes) if type(memory) is Rectangle else path.away.pieces_flow(nbytes)
        flow.count += 1
        rows = self._rows
        incoming: IncomingWrite
        if atomic:
            incoming = AtomicWrite(path.memory, memory, path.requests.holders, op_of(argument))
        else:
            incoming = IncomingWrite(path.memory, memory) if rows is None else rows.write(path, memory, argument)
        path.requests.awaited += 1
        if self._on_links is not None:
            incoming.has_headers(flow.payload_nbytes / flow.nbytes if flow.nbytes else 1.0)
        if not path.memory.buffers_writes:
            path.requests.writes.append(incoming)
        if self._is_watched:
            flow.under_way += 1
        self._travel(Transfer(flow, path, memory, incoming, start_ps, finish, argument))

    def send(
        self, src: str, dst: str, nbytes: int, start_ps: int, finish: Callable[[Any], None], argument: Any
    ) -> None:
        """Sends a message of *nbytes* from *src* to *dst*. `finish(argument)` is called when its last byte arrives.

        Raises TopologyError when no links lead from *src* to *dst*.
        """
        leg = self._compiler.leg(src, dst)
        if self._on_transfer is not None:
            untraced, finish = finish, lambda each: self._finish_message(src, dst, nbytes, start_ps, untraced, each)
        if not leg.on_links(nbytes):  # it occupies nothing, so nothing can hold it up
            self._at(start_ps + leg.latency_ps, finish, argument)
            return
        if nbytes and self._watched:
            self._enter(frozenset(hop.state for hop in leg.hops))
        flow = leg.flow(nbytes)
        flow.count += 1
        if self._is_watched:
            flow.under_way += 1
        self._travel(Transfer(flow, None, None, None, start_ps, finish, argument))

    def _gather(
        self,
        move: Callable[..., None],
        path: InterleavedPath,
        memory: Rectangle,
        start_ps: int,
        then: tuple[Callable[[Any], None], Any],
    ) -> None:
        """Moves the part of *memory* in each slice, by the function *move*, and calls the function *then* at the end.

        Bytes in one slice are one request, with nothing to gather.
        """
        parts = path.parts(memory)
        if len(parts) == 1 and type(memory) is Rectangle:
            move(*parts[0], start_ps, *then)
            return
        own_link_ps = path.own_link_ps(memory, parts, move != self.read)
        op_id = -1 if self._rows is None else op_of(then[1])
        gathering = Gathering(len(parts), self._gathered, then, own_link_ps, op_id)
        for way, part in parts:
            move(way, part, start_ps, gathering.end, gathering)

    def _gathered(self, gathering: Gathering) -> None:
        if gathering.row and self._rows is not None:
            self._rows.add(self._clock.now_ps, gathering.row)
        gathering.then(gathering.argument)

    def _serve(self, transfer: Transfer) -> None:
        """The request of a read arrives at the memory now."""
        path, memory, now = transfer.path, transfer.memory, self._clock.now_ps
        assert path is not None
        assert memory is not None
        self._arrives(path)
        if path.memory.reorders:
            path.memory.request(memory, now, False, partial(self._served, transfer))
            return
        self._served(transfer, *path.memory.reserve(now, memory, now, False))

    def _served(self, transfer: Transfer, head: int, tail: int) -> None:
        """The first and the last byte of a read leave its memory at *head* and at *tail*."""
        path, memory = transfer.path, transfer.memory
        assert path is not None
        assert memory is not None
        transfer.head_ps, transfer.tail_ps = head, tail
        if self._rows is not None:
            transfer.served = self._rows.read_served(path, transfer.flow, memory, transfer.argument, (head, tail))
        self._travel(transfer)

    def _arrives(self, path: MemoryPath, finishing: IncomingWrite | None = None) -> None:
        """A request that was not reserved ahead is at the memory now, with its last byte."""
        requests, now = path.requests, self._clock.now_ps
        if now < requests.promised_ps:
            raise self._overtaken(path, now)
        requests.awaited -= 1
        if requests.writes:
            requests.hand_over(now, finishing)

    def _travel(self, transfer: Transfer) -> None:
        """Reserves the links before the first shared link, and goes on to that link or to the end of the leg."""
        head, tail, flow = transfer.head_ps, transfer.tail_ps, transfer.flow
        if flow.nbytes:
            transfer.head_ps, transfer.tail_ps = head, tail = flow.reserve_ahead(head, tail)
        else:
            head = tail = tail + flow.latency_ps
        if flow.shared is not None:
            stream = Stream(transfer, flow.shared, SteadyPace(head, tail, flow.nbytes), 0, 0.0)
            clock = self._clock
            clock.push((head, NORMAL, next(clock.event_order), flow.shared.arrive, stream))
        elif transfer.path is not None and transfer.incoming is None:
            if self._is_watched:
                flow.under_way -= 1
            self._finish(transfer, tail)
        else:
            if transfer.incoming is not None:
                transfer.incoming.comes(head, SteadyPace(head, tail, flow.nbytes), 0, 0.0)
            self._at(tail, self._deliver, transfer)

    def _deliver(self, transfer: Transfer) -> None:
        """The last byte of *transfer* is at the end of the leg now."""
        path, incoming, now = transfer.path, transfer.incoming, self._clock.now_ps
        if self._is_watched:
            transfer.flow.under_way -= 1
        if path is None:
            transfer.finish(transfer.argument)
        elif incoming is not None:
            self._arrives(path, incoming)
            if not path.memory.buffers_writes:
                path.requests.writes.remove(incoming)
            elif path.memory.reorders:
                incoming.ask(partial(self._committed, transfer, now))
                return
            self._committed(transfer, now, incoming.finish(now))
        else:
            self._finish(transfer, now)

    def _committed(self, transfer: Transfer, came_ps: int, committed_ps: int) -> None:
        """The last byte of a write came at *came_ps*, and the memory commits the write at *committed_ps*."""
        path, incoming = transfer.path, transfer.incoming
        assert path is not None
        end = committed_ps + path.response_ps
        argument = transfer.argument
        if type(argument) is TileToken and argument.context.on_commit is not None:
            argument.context.on_commit(committed_ps)
        if self._rows is not None and isinstance(incoming, WatchedWrite):
            times_ps = self._clock.now_ps, transfer.t_start_ps, came_ps, committed_ps, end
            self._rows.write_ended(path, transfer.flow, transfer.argument, incoming, times_ps)
        self._finish(transfer, end)

    def _finish(self, transfer: Transfer, end_ps: int) -> None:
        path = transfer.path
        assert path is not None
        self._clock.push((end_ps, NORMAL, next(path.event_order), transfer.finish, transfer.argument))
        if transfer.served is not None and self._rows is not None:
            times_ps = self._clock.now_ps, transfer.t_start_ps, end_ps
            self._rows.read_ended(path, transfer.flow, transfer.argument, transfer.served, times_ps)
        if self._on_transfer is not None:
            self._trace(path.src, path.dst, transfer.flow.payload_nbytes, transfer.t_start_ps, end_ps)

    def _finish_message(
        self, src: str, dst: str, nbytes: int, start_ps: int, finish: Callable[[Any], None], argument: Any
    ) -> None:
        self._trace(src, dst, nbytes, start_ps, self._clock.now_ps)
        finish(argument)

    def _at(self, t_ps: int, function: Callable[[Any], None], argument: Any) -> None:
        clock = self._clock
        clock.push((t_ps, NORMAL, next(clock.event_order), function, argument))

    def _trace(self, src: str, dst: str, nbytes: int, start_ps: int, end_ps: int) -> None:
        assert self._on_transfer is not None
        self._on_transfer(FabricTransfer(t_start_ps=start_ps, t_end_ps=end_ps, src=src, dst=dst, nbytes=nbytes))

    def _overtaken(self, path: MemoryPath, arrival_ps: int) -> PipelineError:
        return PipelineError(
            path.src,
            f"a request that is at {path.dst} at {arrival_ps} ps",
            f"{path.requests.promised_ps} ps or later",
            "a block that starts transfers is an Initiator or HostPort, and its `lead_ps` no more than it takes",
        )
