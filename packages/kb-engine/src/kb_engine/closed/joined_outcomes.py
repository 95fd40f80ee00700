"""JoinedOutcomes: what many closed commands came to, as one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kb_engine.block.fabric_roles import MemoryComponent
from kb_engine.block.stage_server import StageServer
from kb_engine.closed.footprint import Footprint, Parts
from kb_engine.closed.outcome import Outcome
from kb_engine.fabric.link import LinkState
from kb_engine.fabric.paths import Flow, MemoryPath


class JoinedOutcomes:
    """What commands came to that were closed one after the other or at once, and of which no two met.

    *closed* has them in the order in which they were closed, with how long after the first moment each began.
    """

    def __init__(self, closed: Iterable[tuple[Footprint, Outcome, int]]) -> None:
        self._served: dict[StageServer, list[int]] = {}
        self._requested: dict[MemoryComponent[Any], list[int]] = {}
        self._ports: dict[tuple[Any, str], int] = {}
        self._links: dict[LinkState, int] = {}
        self._flows: dict[Flow, list[Any]] = {}
        self._has_rows = False
        paths: dict[int, MemoryPath] = {}
        for footprint, outcome, begin_ps in closed:
            self._has_rows = self._has_rows or outcome.rows is not None
            paths |= {id(path): path for path in footprint.paths}
            self._add(footprint.parts(outcome), begin_ps)
        self._whole = Footprint((), list(paths.values()))

    def fits(self, now_ps: int) -> bool:
        """Whether the same commands would come to the same now: nothing is on its way, and what the log knows is the
        same."""
        if self._has_rows:
            for flow, (_, before, _) in self._flows.items():
                if (flow.read_alone_ps, flow.write_alone_ps) != before:
                    return False
        return self._whole.is_idle(now_ps)

    def apply(self, begin_ps: int) -> None:
        """The same commands came to the same, from *begin_ps* on."""
        for server, (busy_ps, served) in self._served.items():
            server.busy_ps += busy_ps
            server.served += served
        for memory, (busy_ps, read_nbytes, written_nbytes) in self._requested.items():
            memory.busy_ps += busy_ps
            memory.read_nbytes += read_nbytes
            memory.written_nbytes += written_nbytes
        for (memory, name), after_ps in self._ports.items():
            setattr(memory, name, begin_ps + after_ps)
        for link, after_ps in self._links.items():
            link.free_ps = begin_ps + after_ps
        for flow, (count, _, alone) in self._flows.items():
            flow.count += count
            flow.read_alone_ps, flow.write_alone_ps = alone

    def differs_from(self, other: JoinedOutcomes) -> str:
        """What of this differs from *other*: the names of these parts, or ""."""
        mine, others = self.sums, other.sums
        return ", ".join(name for name, found in mine.items() if found != others[name])

    @property
    def sums(self) -> dict[str, dict[Any, Any]]:
        """What the commands added to each server, memory and flow, and when ports of memories and links are free."""
        return {
            "services": self._served, "requests": self._requested, "times of memories": self._ports,
            "times of links": self._links, "transfers": self._flows,
        }  # fmt: skip

    def _add(self, parts: Parts, begin_ps: int) -> None:
        for sums, found in ((self._served, parts.served), (self._requested, parts.requested)):
            for each, *added in found:
                before = sums.get(each)
                sums[each] = added if before is None else [a + b for a, b in zip(before, added, strict=True)]
        for port, after_ps in parts.ports:
            self._ports[port] = begin_ps + after_ps
        for link, after_ps in parts.links:
            self._links[link] = begin_ps + after_ps
        for flow, count, alone_before, alone in parts.flows:
            known = self._flows.get(flow)
            self._flows[flow] = [count, alone_before, alone] if known is None else [known[0] + count, known[1], alone]
