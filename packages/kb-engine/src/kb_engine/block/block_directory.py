"""BlockDirectory: finds the block that takes the host's messages for a SIP, a cube or a PE."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from kb_messages import KernelError, KernelLaunch, Request
from kb_topology import Graph, NodeKind

Cube = tuple[int, int]
"""Number of the SIP, and of the cube in it."""
MessageListener = Callable[[tuple[str, str], tuple[int, int, int, int]], None]


class Receiver(Protocol):
    """A block that requests can be sent to."""

    node_id: str

    def receive(self, request: Request) -> None:
        """*request* arrives now. The block answers it later."""


class BlockDirectory:
    """Blocks by place. *asked_by* is the node that asks; errors name it.

    `on_message` takes the way of each message of a launch (from, to) when it has arrived, and its launch, its kind, and
    when it was sent and arrived. `on_dispatch` takes each launch of a stream before it is passed on to PEs. Both are
    None without a listener.
    """

    def __init__(self, on_message: MessageListener | None = None) -> None:
        self.on_message = on_message
        self.on_dispatch: Callable[[KernelLaunch], None] | None = None
        self.blocks: dict[str, Any] = {}
        self._io_cpus: dict[int, Receiver] = {}
        self._m_cpus: dict[Cube, Receiver] = {}
        self._pe_cpus: dict[Cube, dict[int, Receiver]] = {}
        self._cubes: dict[str, Cube] = {}
        self._sips: dict[str, int] = {}
        self._pe_numbers: dict[str, int] = {}

    def fill(self, graph: Graph, blocks: Mapping[str, Any]) -> None:
        """Enters every block that host messages pass through."""
        self.blocks.update(blocks)
        for node in graph.nodes.values():
            sip, cube = node.sip, node.cube
            if node.kind is NodeKind.IO_CPU and sip is not None:
                self._io_cpus.setdefault(sip, blocks[node.id])
                self._sips[node.id] = sip
            elif node.kind is NodeKind.M_CPU and sip is not None and cube is not None:
                self._m_cpus.setdefault((sip, cube), blocks[node.id])
                self._cubes[node.id] = sip, cube
            elif node.kind is NodeKind.PE_CPU and sip is not None and cube is not None and node.pe is not None:
                self._pe_cpus.setdefault((sip, cube), {})[node.pe] = blocks[node.id]
                self._cubes[str(node.pe_id)] = sip, cube
                self._pe_numbers[str(node.pe_id)] = node.pe

    @property
    def sips(self) -> Iterable[int]:
        """The SIPs that have an io_cpu, lowest first."""
        return sorted(self._io_cpus)

    def io_cpu(self, sip: int, asked_by: str) -> Receiver:
        """The io_cpu of a SIP. Raises KernelError when there is none."""
        if sip not in self._io_cpus:
            raise _missing(f"sip{sip}", [f"sip{each}" for each in self._io_cpus], asked_by)
        return self._io_cpus[sip]

    def m_cpu(self, cube: Cube, asked_by: str) -> Receiver:
        """The m_cpu of a cube. Raises KernelError when there is none."""
        if cube not in self._m_cpus:
            raise _missing(_cube_id(cube), [_cube_id(each) for each in self._m_cpus if each[0] == cube[0]], asked_by)
        return self._m_cpus[cube]

    def pe_cpu(self, cube: Cube, pe: int, asked_by: str) -> Receiver:
        """The pe_cpu of a PE. Raises KernelError when there is none."""
        pes = self._pe_cpus.get(cube, {})
        if pe not in pes:
            name = _cube_id(cube)
            raise _missing(f"{name}.pe{pe}", [f"{name}.pe{each}" for each in pes], asked_by)
        return pes[pe]

    def pes_of(self, cube: Cube) -> list[int]:
        """The numbers of a cube's PEs."""
        return list(self._pe_cpus.get(cube, {}))

    def sip_of(self, node_id: str) -> int:
        """The SIP of an io_cpu."""
        return self._sips[node_id]

    def pe_number(self, pe_id: str, asked_by: str) -> int:
        """The number of a PE in its cube. Raises KernelError when there is no such PE."""
        if pe_id not in self._pe_numbers:
            raise _missing(pe_id, list(self._pe_numbers), asked_by)
        return self._pe_numbers[pe_id]

    def cube_of(self, name: str, asked_by: str) -> Cube:
        """The cube of a PE or m_cpu, by its id. Raises KernelError when there is none of that id."""
        if name not in self._cubes:
            raise _missing(name, [each for each in self._cubes if ".pe" in each], asked_by)
        return self._cubes[name]


def _cube_id(cube: Cube) -> str:
    return f"sip{cube[0]}.cube{cube[1]}"


def _missing(name: str, known: list[str], asked_by: str) -> KernelError:
    """The error for a message to *name*, which does not exist; *known* lists the names that do."""
    needs = f"one of {known[0]} to {known[-1]}" if known else "a target that is there"
    return KernelError(asked_by, f"a message for {name}", needs)
