"""Counts the time in service of each block and link during launches, and the bytes of memories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

from kb_cli.run.base.result import Traffic
from kb_engine.block import ComponentBase, MemoryComponent, MemoryPart, MessageQueue, StageServer
from kb_engine.observe import Chip, Observer
from kb_messages import MemorySpace, StageType
from kb_topology import Link, NodeKind

LINK = "link"
PORT = "port"
"""The kind of the ports of blocks that bound their data over all of their links."""
_BYTES: Final = frozenset(f"bytes of {space.value}" for space in MemorySpace)
_CHANNELS = {StageType.DMA_READ: "_read", StageType.DMA_WRITE: "_write"}
Counts = dict[tuple[str, str], tuple[int, ...]]
"""Counts by kind and node: (picoseconds in service) of a block, (picoseconds in service, bytes) of a link, or (bytes
read, bytes written) of a memory."""


class PartBytes(NamedTuple):
    """Bytes that a part of the memory `node` was asked to move in launches.

    The part is number `number`, from 1 on, of `n_parts` parts of the same name. `name` and `ps_each` are those of
    MemoryPart. `frees_ps` has rows (number of a launch, picosecond at which the part is done with what came before
    the launch, picosecond at which it is done with what came up to its end), for parts that say so.
    """

    node: str
    name: str
    number: int
    n_parts: int
    read_nbytes: int
    written_nbytes: int
    ps_each: Fraction | None
    frees_ps: list[tuple[int, int, int]]


class Usage(Observer):
    """Adds up the activity of blocks and links over launches.

    The host's own reads and writes, between launches, do not count, and neither do its messages.
    """

    def __init__(self) -> None:
        self._in_launches: Counts = {}
        self._before: Counts = {}
        self._parts_before: dict[str, tuple[MemoryPart, ...]] = {}
        self._parts: dict[str, list[PartBytes]] = {}
        self._n_launches = 0
        self._queues: set[str] = set()
        self.unwritten_nbytes: dict[str, int] = {}

    def on_built(self, chip: Chip) -> None:
        """Keeps the chip, whose blocks and links do the counting."""
        self._chip = chip
        self._memories = [each for each in chip.components.values() if isinstance(each, MemoryComponent)]
        self._blocks = list(_blocks(chip))
        self._queues = {each.node_id for each in chip.components.values() if isinstance(each, MessageQueue)}

    def on_launch(self) -> None:
        """Keeps the counts before the launch."""
        self._before = self._counts()
        self._parts_before = {each.node_id: each.parts for each in self._memories}

    def on_launched(self) -> None:
        """Adds the counts of the launch."""
        for key, now in self._counts().items():
            none = (0,) * len(now)
            totals = zip(self._in_launches.get(key, none), now, self._before.get(key, none), strict=True)
            self._in_launches[key] = tuple(total + after - first for total, after, first in totals)
        for memory in self._memories:
            parts, before = memory.parts, self._parts_before[memory.node_id]
            so_far = self._parts.get(memory.node_id) or _no_bytes(memory.node_id, parts)
            self._parts[memory.node_id] = [self._added(*each) for each in zip(so_far, parts, before, strict=True)]
            self.unwritten_nbytes[memory.node_id] = memory.unwritten_nbytes
        self._n_launches += 1

    @property
    def counts(self) -> Counts:
        """All counts of launches."""
        return self._in_launches

    @property
    def busy_ps(self) -> Iterator[tuple[str, str, int]]:
        """Returns (kind, node, picoseconds in service) of every block and link. The two channels of a DMA are two
        kinds, and so are queues of a block that do not wait for each other."""
        return (
            (kind, node, counts[0])
            for (kind, node), counts in self._in_launches.items()
            if kind not in _BYTES and kind != PORT
        )

    def carries_bytes(self, link: Link) -> bool:
        """Whether bytes may pass *link*. None pass a link of a message queue: doorbells, credits and signals have none.

        Such links are left out of all counts, because they would only lower the average.
        """
        return self._queues.isdisjoint((link.src, link.dst))

    @property
    def memory_parts(self) -> Iterator[PartBytes]:
        """The bytes of every part of every memory."""
        return (part for parts in self._parts.values() for part in parts)

    @property
    def traffic(self) -> dict[str, Traffic]:
        """Bytes by memory space, of the memories behind the fabric, and by kind of part: `hbm cache`."""
        found: dict[str, list[int]] = {}
        for part in self.memory_parts:
            total = found.setdefault(self.kind_of(part), [0, 0])
            total[0] += part.read_nbytes
            total[1] += part.written_nbytes
        return {kind: Traffic(read=read, write=write) for kind, (read, write) in found.items()}

    def kind_of(self, part: PartBytes) -> str:
        """The memory space of *part*, and the name of the part if it has one: `hbm`, `hbm cache`."""
        memory = self._chip.topology.graph.nodes[part.node].memory
        space = "" if memory is None else memory.space.value
        return f"{space} {part.name}".strip()

    def _added(self, so_far: PartBytes, after: MemoryPart, before: MemoryPart) -> PartBytes:
        """Returns *so_far* with what came between *before* and *after* a launch."""
        if after.free_ps:
            so_far.frees_ps.append((self._n_launches, before.free_ps, after.free_ps))
        return so_far._replace(
            read_nbytes=so_far.read_nbytes + after.read_nbytes - before.read_nbytes,
            written_nbytes=so_far.written_nbytes + after.written_nbytes - before.written_nbytes,
        )

    def _counts(self) -> Counts:
        """Returns all counts since the chip was built. A TCM is left out when its DMA port was never used."""
        counts: Counts = {}
        for kind, node, counting in self._blocks:
            busy_ps = sum([_busy_ps(each) for each in counting])
            if busy_ps or kind != NodeKind.PE_TCM.value:
                counts[kind, node] = (busy_ps,)
        for link in self._chip.fabric.links:
            if not self.carries_bytes(link.link):
                continue
            name = f"{link.link.src} -> {link.link.dst}"
            counts[LINK, name] = link.busy_ps - link.message_ps, link.nbytes - link.message_nbytes
        for name, port in zip(names_of_ports(self._chip), self._chip.fabric.ports, strict=True):
            counts[PORT, name] = port.busy_ps - port.message_ps, port.nbytes - port.message_nbytes
        for memory in self._memories:
            held = self._chip.topology.graph.nodes[memory.node_id].memory
            if held is not None:
                counts[f"bytes of {held.space.value}", memory.node_id] = memory.read_nbytes, memory.written_nbytes
        return counts


def _no_bytes(node: str, parts: Sequence[MemoryPart]) -> list[PartBytes]:
    names = [each.name for each in parts]
    return [
        PartBytes(node, each.name, names[: at + 1].count(each.name), names.count(each.name), 0, 0, each.ps_each, [])
        for at, each in enumerate(parts)
    ]


def names_of_ports(chip: Chip) -> list[str]:
    """Returns the names of `Fabric.ports`: `pe0.pe_dma sends`, `pe0.pe_dma gets`."""
    return [f"{port.link.src} {('sends', 'gets')[number % 2]}" for number, port in enumerate(chip.fabric.ports)]


def _blocks(chip: Chip) -> Iterator[tuple[str, str, Sequence[StageServer | MemoryComponent[Any]]]]:
    """Yields (kind, node, what counts its time in service) of every memory and every queue of a block."""
    for component in chip.components.values():
        kind = chip.topology.graph.nodes[component.node_id].kind.value
        if isinstance(component, MemoryComponent):
            yield kind, component.node_id, [component]
        for channel, servers in served_in_turn(component):
            yield kind + channel, component.node_id, servers


def _busy_ps(counting: StageServer | MemoryComponent[Any]) -> int:
    """The picoseconds in service so far; the mean of the two ports of a memory that has one for writes."""
    has_two_ports = isinstance(counting, MemoryComponent) and counting.has_write_port
    return counting.busy_ps // 2 if has_two_ports else counting.busy_ps


def served_in_turn(component: ComponentBase[Any]) -> list[tuple[str, Sequence[StageServer]]]:
    """The queues of *component* whose services take turns, because they pass one gate such as the port of a TCM.

    Each has the name of its channel, which is empty where all queues take turns; those of a DMA are `_read` and
    `_write`.
    """
    groups: list[list[StageServer]] = []
    for server in component.servers.values():
        mine = next((each for each in groups if not set(each[0].own_gates).isdisjoint(server.own_gates)), None)
        if mine is None:
            groups.append([server])
        else:
            mine.append(server)
    is_one = len(groups) == 1
    return [(_channel(each[0].stage_type, is_one), each) for each in groups]


def _channel(stage_type: StageType, is_one: bool) -> str:
    return _CHANNELS.get(stage_type) or ("" if is_one else f"_{stage_type.name.lower()}")
