"""Counts the time in service of each block and link during launches, and the bytes of memories."""

from __future__ import annotations

from collections.abc import Iterator

from kb_cli.run.base.result import Traffic
from kb_engine.block import MemoryComponent
from kb_engine.observe import Chip, Observer
from kb_messages import MemorySpace, StageType
from kb_topology import NodeKind

LINK = "link"
_SPACES = {f"bytes of {space.value}": space.value for space in MemorySpace}
_CHANNELS = {StageType.DMA_READ: "_read", StageType.DMA_WRITE: "_write"}
Counts = dict[tuple[str, str], tuple[int, ...]]
"""Counts by kind and node: (picoseconds in service) of a block, (picoseconds in service, bytes) of a link, or (bytes
read, bytes written) of a memory."""


class Usage(Observer):
    """Adds up the activity of blocks and links over launches.

    The host's own reads and writes, between launches, do not count.
    """

    def __init__(self) -> None:
        self._in_launches: Counts = {}
        self._before: Counts = {}

    def on_built(self, chip: Chip) -> None:
        """Keeps the chip, whose blocks and links do the counting."""
        self._chip = chip

    def on_launch(self) -> None:
        """Keeps the counts before the launch."""
        self._before = self._counts()

    def on_launched(self) -> None:
        """Adds the counts of the launch."""
        for key, now in self._counts().items():
            none = (0,) * len(now)
            totals = zip(self._in_launches.get(key, none), now, self._before.get(key, none), strict=True)
            self._in_launches[key] = tuple(total + after - first for total, after, first in totals)

    @property
    def counts(self) -> Counts:
        """All counts of launches."""
        return self._in_launches

    @property
    def busy_ps(self) -> Iterator[tuple[str, str, int]]:
        """Returns (kind, node, picoseconds in service) of every block and link. The two channels of a DMA are two
        kinds."""
        return ((kind, node, counts[0]) for (kind, node), counts in self._in_launches.items() if kind not in _SPACES)

    @property
    def traffic(self) -> dict[str, Traffic]:
        """Bytes by memory space, of the memories behind the fabric."""
        found: dict[str, list[int]] = {}
        for (kind, _), counts in self._in_launches.items():
            if kind in _SPACES:
                total = found.setdefault(_SPACES[kind], [0, 0])
                total[0] += counts[0]
                total[1] += counts[1]
        return {space: Traffic(read=read, write=write) for space, (read, write) in found.items()}

    def _counts(self) -> Counts:
        """Returns all counts since the chip was built."""
        counts: Counts = {(kind, node): (busy_ps,) for kind, node, busy_ps in _busy_ps(self._chip)}
        for link in self._chip.fabric.links:
            counts[LINK, f"{link.link.src} -> {link.link.dst}"] = link.busy_ps, link.nbytes
        for component in self._chip.components.values():
            memory = self._chip.topology.graph.nodes[component.node_id].memory
            if isinstance(component, MemoryComponent) and memory is not None:
                key = f"bytes of {memory.space.value}", component.node_id
                counts[key] = component.read_nbytes, component.written_nbytes
        return counts


def _busy_ps(chip: Chip) -> Iterator[tuple[str, str, int]]:
    """Yields (kind, node, picoseconds in service) of every block since the chip was built.

    A TCM counts for its DMA port, and is left out when the port was never used.
    """
    nodes = chip.topology.graph.nodes
    for component in chip.components.values():
        kind = nodes[component.node_id].kind.value
        if isinstance(component, MemoryComponent) and (component.busy_ps or kind != NodeKind.PE_TCM.value):
            yield kind, component.node_id, component.busy_ps
        busy: dict[str, int] = {}
        for stage_type, server in component.servers.items():
            name = kind + _CHANNELS.get(stage_type, "")
            busy[name] = busy.get(name, 0) + server.busy_ps  # FETCH and STORE hold the same TCM port in turn
        for name, busy_ps in busy.items():
            yield name, component.node_id, busy_ps
