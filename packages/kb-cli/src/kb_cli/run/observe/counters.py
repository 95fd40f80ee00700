"""Observers that add up counters of blocks and waits of kernels."""

from __future__ import annotations

from kb_cli.run.base.result import CounterSum, ValueWait
from kb_engine.observe import Chip, Observer


class BlockCounters(Observer):
    """Adds up the counters of blocks over launches, such as row hits of memories and TLB hits of MMUs.

    The host's own reads and writes, between launches, do not count.
    """

    def __init__(self) -> None:
        self._in_launches: dict[tuple[str, str], int] = {}
        self._before: dict[tuple[str, str], int] = {}

    def on_built(self, chip: Chip) -> None:
        """Keeps the blocks that have counters."""
        nodes = chip.topology.graph.nodes
        self._blocks = [block for block in chip.components.values() if block.counts()]
        self._kinds = {block.node_id: nodes[block.node_id].kind.value for block in self._blocks}

    def on_launch(self) -> None:
        """Keeps the counts before the launch."""
        self._before = self._counts()

    def on_launched(self) -> None:
        """Adds the counts of the launch."""
        for key, count in self._counts().items():
            self._in_launches[key] = self._in_launches.get(key, 0) + count - self._before[key]

    @property
    def sums(self) -> list[CounterSum]:
        """The counters by kind of block, in the order of the topology and of each block's counters."""
        found: dict[tuple[str, str], list[int]] = {}
        for (node_id, counter), count in self._in_launches.items():
            found.setdefault((self._kinds[node_id], counter), []).append(count)
        return [
            CounterSum(kind=kind, counter=counter, blocks=len(each), total=sum(each), least=min(each), most=max(each))
            for (kind, counter), each in found.items()
        ]

    def _counts(self) -> dict[tuple[str, str], int]:
        """Returns all counts since the chip was built, by node and counter."""
        return {(block.node_id, counter): count for block in self._blocks for counter, count in block.counts().items()}


class ValueWaits(Observer):
    """Adds up waits for computed values, by kernel line."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, int]] = {}

    def on_look(self, pe_id: str, line: str, waited_ps: int) -> None:
        """Adds one wait of *waited_ps* picoseconds at *line*."""
        count, ps = self._found.get(line, (0, 0))
        self._found[line] = count + 1, ps + waited_ps

    @property
    def found(self) -> list[ValueWait]:
        """The kernel lines with waits, the longest wait first."""
        waits = [ValueWait(line=line, count=count, waited_ps=ps) for line, (count, ps) in self._found.items()]
        return sorted(waits, key=lambda each: (-each.waited_ps, each.line))
