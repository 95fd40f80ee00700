"""RunTables: the further tables of the op log, which say why records began when they did."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kb_dataexec.log.compressed import int_columns, table
from kb_engine.observe.observer import Rows
from kb_engine.observe.run_rows import RunRows
from kb_messages import MemorySpace
from kb_topology import NodeKind, Topology


class RunTables:
    """Collects what happened to programs, their commands and their tiles, and makes tables of it.

    `tile_waited` takes the three numbers of a row of `dispatches` for *rows*. It is a list's own method, which costs
    little. `transfers` are those of *rows*. *intern* gives the number of a text in the log.
    """

    def __init__(self, rows: RunRows, intern: Callable[[str], int]) -> None:
        self._intern = intern
        self._kernels: list[tuple[str, tuple[int, ...]]] = []
        self._messages: list[tuple[tuple[str, str], tuple[int, ...]]] = []
        self.tile_waited: Callable[[Iterable[int]], None] = rows.dispatches.tail.extend
        self.transfers = rows.transfers

    def restart(self, intern: Callable[[str], int]) -> None:
        """Forget what was collected. From now on *intern* gives the numbers of texts, in another log."""
        self._intern = intern
        self._kernels.clear()
        self._messages.clear()

    def number_of(self, text: str) -> int:
        """The number of *text* in the log."""
        return self._intern(text)

    def kernel_ended(self, pe: str, numbers: tuple[int, int, int, int, int]) -> None:
        """The program on *pe* ended. *numbers* are its launch and the four times of a row of `kernels`."""
        self._kernels.append((pe, numbers))

    def message_arrived(self, way: tuple[str, str], numbers: tuple[int, int, int, int]) -> None:
        """A message of a launch arrived. *way* is (from, to); *numbers* are launch, kind and the two times."""
        self._messages.append((way, numbers))

    def name_nodes(self, topology: Topology) -> None:
        """Enter the ids of PEs, processors and memories into the log: their numbers follow from the chip alone."""
        for pe_id in topology.graph.pe_ids:
            self._intern(pe_id)
        for region in topology.address_map.regions:
            if region.space is not MemorySpace.REG:
                self._intern(region.node_id)
        for kind in (NodeKind.HOST, NodeKind.IO_CPU, NodeKind.M_CPU, NodeKind.PE_CPU):
            for node in topology.graph.nodes_of_kind(kind):
                self._intern(node.id)

    def take(self) -> dict[str, Rows]:
        """The rows of programs and messages since the last call, by table.

        Raises LogError for a time that does not fit 64 bits.
        """
        intern = self._intern
        kernels, self._kernels = self._kernels, []
        messages, self._messages = self._messages, []
        launch, called, target, start, end = int_columns((numbers for _, numbers in kernels), 5)
        of, kind, sent, arrived = int_columns((numbers for _, numbers in messages), 4)
        (pe,) = int_columns(([intern(pe)] for pe, _ in kernels), 1)
        src, dst = int_columns(([intern(end) for end in way] for way, _ in messages), 2)
        return {
            "kernels": table("kernels", [launch, pe, called, target, start, end]),
            "messages": table("messages", [of, src, dst, kind, sent, arrived]),
        }
