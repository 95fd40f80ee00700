"""The host on the chip: its messages go over the fabric to the PEs, its reads and writes to the memories.

It is there where the topology has a host, and then all of it must be: an io_cpu in every SIP, an m_cpu in every cube,
and links that lead from one to the next and back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from kb_engine.block.block_directory import BlockDirectory, Receiver
from kb_engine.block.component import ComponentBase
from kb_engine.block.control_roles import CommandDispatcher, HostPort
from kb_engine.fabric.fabric import Fabric
from kb_engine.launch.targets import split
from kb_engine.timing.clock import Clock
from kb_messages import (
    HostMessage,
    KernelError,
    Matrix,
    Refusal,
    Request,
    Response,
    SimulationStuckError,
    TopologyError,
)
from kb_topology import Node, NodeKind, Topology

_ON_THE_WAY = (NodeKind.HOST, NodeKind.IO_CPU, NodeKind.M_CPU)


class Call(Struct, frozen=True, kw_only=True):
    """A call of the host: when it was made, when the last answer was there, and what the first refusal said."""

    call_ps: int
    response_ps: int
    refusal: Refusal | None


class CommandPath:
    """Makes the host's calls, one after the other: each returns when it is answered; between two no time passes."""

    def __init__(
        self,
        clock: Clock,
        fabric: Fabric,
        port: HostPort[Any],
        directory: BlockDirectory,
        returned: Callable[[], None] | None = None,
    ) -> None:
        """*returned* is called when a call or a transfer of the host is over."""
        self.port = port
        self._clock = clock
        self._fabric = fabric
        self._directory = directory
        self._returned = returned
        self._numbers = 0
        self._unanswered = 0
        self._refusal: Refusal | None = None

    def call(self, messages: Sequence[HostMessage], on_sent: Callable[[int], None] | None = None) -> Call:
        """Send *messages* in one call of the driver, and wait until all are answered or nothing is left to happen.

        *on_sent* is called when they leave the host, with the time.
        """
        call_ps = self._clock.now_ps
        sent_ps = call_ps + self.port.overhead_ps()
        self._unanswered, self._refusal = len(messages), None
        if on_sent is not None:
            self._clock.call_at(sent_ps, on_sent, sent_ps)
        self._clock.call_at(sent_ps, self._send, messages)
        self._drain()
        return Call(call_ps=call_ps, response_ps=self._clock.now_ps, refusal=self._refusal)

    def check_answered(self) -> None:
        """Raise SimulationStuckError when the last call was not answered, saying who waits."""
        if self._unanswered:
            self._clock.mark_broken()
            waiting = [f"{self.port.node_id} waits for answers to {self._unanswered} messages"]
            for block in self._directory.blocks.values():
                waiting += block.waiting_for() if isinstance(block, CommandDispatcher) else []
            got = "nothing left to happen while messages are not answered: " + "; ".join(waiting)
            raise SimulationStuckError("simulation", got, "an answer to every request")

    def move(self, matrices: Sequence[Matrix], write: bool) -> list[tuple[int, int]]:
        """Read or write *matrices*, as many at once as the host has channels. When each began, and ended.

        Raises TopologyError when no links lead to the memory of one, or none back.
        """
        transfers = _Transfers(self._clock, self._fabric, self.port, matrices, write)
        self._clock.call_at(self._clock.now_ps + self.port.overhead_ps(), transfers.start, None)
        self._drain()
        return transfers.times

    def _drain(self) -> None:
        try:
            self._clock.drain()
        finally:
            if self._returned is not None:
                self._returned()

    def _send(self, messages: Sequence[HostMessage]) -> None:
        for message in messages:
            receiver = self._first_io_cpu(message)
            request = Request(sender=self.port.node_id, number=self._numbers, message=message)
            self._numbers += 1
            self._fabric.send(self.port.node_id, receiver.node_id, 0, self._clock.now_ps, receiver.receive, request)

    def _first_io_cpu(self, message: HostMessage) -> Receiver:
        """That of the lowest SIP among the targets; where none of them is there, the first, which will say so."""
        node_id, sips = self.port.node_id, list(self._directory.sips)
        try:
            wanted = [sip for sip, _ in split(message, lambda cube: cube[0], self._cube_of)]
        except KernelError:
            wanted = []
        return self._directory.io_cpu(min((sip for sip in wanted if sip in sips), default=sips[0]), node_id)

    def _cube_of(self, pe_id: str) -> tuple[int, int]:
        return self._directory.cube_of(pe_id, self.port.node_id)

    def answered(self, response: Response) -> None:
        """A message was answered: *response* is at the host's port."""
        self._refusal = self._refusal or response.refusal
        self._unanswered -= 1
        if not self._unanswered:
            self._clock.stop()


class _Transfers:
    """Reads or writes of memory, the next starting when one ends."""

    def __init__(
        self, clock: Clock, fabric: Fabric, port: HostPort[Any], matrices: Sequence[Matrix], write: bool
    ) -> None:
        self._clock = clock
        self._move = fabric.write if write else fabric.read
        self._matrices = matrices
        self._paths = [fabric.path(port.node_id, matrix.owner) for matrix in matrices]
        self._channels = port.channels
        self._next = 0
        self._left = len(matrices)
        self._started = [0] * len(matrices)
        self._ended = [0] * len(matrices)

    @property
    def times(self) -> list[tuple[int, int]]:
        """When each began and ended."""
        return list(zip(self._started, self._ended, strict=True))

    def start(self, _: object) -> None:
        """Fill the channels."""
        for _channel in range(min(self._channels, self._left)):
            self._start_next()

    def _start_next(self) -> None:
        number, self._next = self._next, self._next + 1
        matrix, now = self._matrices[number], self._clock.now_ps
        self._started[number] = now
        self._move(self._paths[number], matrix.rectangle, now, self._finish, number)

    def _finish(self, number: int) -> None:
        self._ended[number] = self._clock.now_ps
        self._left -= 1
        if self._next < len(self._matrices):
            self._start_next()
        elif not self._left:
            self._clock.stop()


def find_host(topology: Topology, components: Mapping[str, ComponentBase[Any]], fabric: Fabric) -> HostPort[Any] | None:
    """The block of the topology's host, None where it has neither host nor io_cpu nor m_cpu.

    Raises TopologyError, at a node's place in the file, when only a part of the way from the host to the PEs is there.
    """
    graph = topology.graph
    found = {kind: graph.nodes_of_kind(kind) for kind in _ON_THE_WAY}
    present = [nodes[0] for nodes in found.values() if nodes]
    if not present:
        return None
    missing = [kind.value for kind, nodes in found.items() if not nodes]
    if missing:
        raise topology.error(
            present[0].yaml_path,
            f"a topology with {present[0].kind.value} and without {' and '.join(missing)}",
            "host, io_cpu and m_cpu, or none of them",
            "without them launches, host reads and host writes take no time",
        )
    _check_counts(topology, found)
    port: HostPort[Any] = _as_role(topology, found[NodeKind.HOST][0], components, HostPort)
    for kind in (NodeKind.IO_CPU, NodeKind.M_CPU):
        for node in found[kind]:
            _as_role(topology, node, components, CommandDispatcher)
    _check_links(topology, port.node_id, fabric)
    return port


def _check_counts(topology: Topology, found: Mapping[NodeKind, Sequence[Node]]) -> None:
    sips, cubes = topology.spec.sips, topology.spec.sips * topology.spec.cubes_per_sip
    for kind, count, each in ((NodeKind.HOST, 1, "one"), (NodeKind.IO_CPU, sips, "one in every SIP")):
        if len(found[kind]) != count:
            raise topology.error(found[kind][0].yaml_path, f"{len(found[kind])} {kind.value} nodes", each)
    if len(found[NodeKind.M_CPU]) != cubes:
        raise topology.error(
            found[NodeKind.M_CPU][0].yaml_path, f"{len(found[NodeKind.M_CPU])} m_cpu nodes", "one in every cube"
        )


def _as_role(topology: Topology, node: Node, components: Mapping[str, ComponentBase[Any]], role: type[Any]) -> Any:
    block = components[node.id]
    if not isinstance(block, role):
        path = (*node.yaml_path, "impl")
        raise topology.error(path, f"{node.impl} for the {node.kind.value}", f"a block that is a {role.__name__}")
    return block


def _check_links(topology: Topology, host: str, fabric: Fabric) -> None:
    """Every message's way exists, and the answer's."""
    nodes = topology.graph.nodes
    io_cpus = {node.sip: node for node in topology.graph.nodes_of_kind(NodeKind.IO_CPU)}
    m_cpus = {(node.sip, node.cube): node for node in topology.graph.nodes_of_kind(NodeKind.M_CPU)}
    first = next(iter(io_cpus.values()))
    pairs = [(nodes[host], io_cpu) for io_cpu in io_cpus.values()]
    pairs += [(first, io_cpu) for io_cpu in io_cpus.values() if io_cpu is not first]
    pairs += [(io_cpus[node.sip], node) for node in m_cpus.values()]
    pairs += [(m_cpus[node.sip, node.cube], node) for node in topology.graph.nodes_of_kind(NodeKind.PE_CPU)]
    for upper, lower in pairs:
        for src, dst in ((upper, lower), (lower, upper)):
            try:
                fabric.route(src.id, dst.id)
            except TopologyError as error:
                raise topology.error(lower.yaml_path, f"no path from {src.id} to {dst.id}", error.needs) from None
