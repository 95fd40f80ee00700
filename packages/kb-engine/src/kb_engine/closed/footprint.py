"""Footprint: the memories and links that a command can touch, and the counters of its PE."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kb_engine.block.stage_server import StageServer
from kb_engine.closed.outcome import FlowCount, Outcome
from kb_engine.fabric.paths import Flow, Leg, MemoryPath

_Cell = tuple[Any, str]
"""An object and the name of an attribute."""
_FlowState = dict[tuple[int, bool, int], tuple[int, tuple[int, int]]]


class Footprint:
    """What commands of one form touch on one PE. Two footprints of one form have their parts in the same order.

    `places` are the memories and the links, by which others can meet a command.
    """

    def __init__(self, servers: Sequence[StageServer], paths: Sequence[MemoryPath]) -> None:
        self.paths = paths
        self.places = frozenset().union(*(path.places for path in paths))
        self._legs = [*_legs_of(paths)]
        memories = [path.memory for path in paths]
        self._counters: list[_Cell] = [(server, name) for server in servers for name in ("busy_ps", "served")]
        self._counters += [(m, name) for m in memories for name in ("busy_ps", "read_nbytes", "written_nbytes")]
        links = {id(hop.state): hop.state for _, _, leg in self._legs for hop in leg.hops}
        self._free: list[_Cell] = [(memory, name) for memory in memories for name in type(memory).free_times]
        self._free += [(link, "free_ps") for link in links.values()]
        self._shared = [link for link in {hop.shared: None for _, _, leg in self._legs for hop in leg.hops} if link]
        self._requests = [path.requests for path in paths]

    def is_idle(self, now_ps: int) -> bool:
        """Whether nothing is on its way here, so that only times to come count."""
        for each, name in self._free:
            if getattr(each, name) > now_ps:
                return False
        for requests in self._requests:
            if not requests.is_idle(now_ps):
                return False
        return all(link.is_idle(now_ps) for link in self._shared)

    def fits(self, outcome: Outcome) -> bool:
        """Whether the op log has rows of the same transfers as when *outcome* was found out."""
        return outcome.rows is None or all(
            _alone(self._flow(number, back, nbytes)) == before for number, back, nbytes, _, before, _ in outcome.flows
        )

    def apply(self, outcome: Outcome, begin_ps: int) -> tuple[int, ...]:
        """Leave everything as the command leaves it that begins now. Returns what `undo` needs."""
        for number, count in outcome.counted:
            each, name = self._counters[number]
            setattr(each, name, getattr(each, name) + count)
        before = []
        for number, after_ps in outcome.freed:
            each, name = self._free[number]
            before.append(getattr(each, name))
            setattr(each, name, begin_ps + after_ps)
        for number, back, nbytes, count, _, alone in outcome.flows:
            self._flow(number, back, nbytes).add(count, *alone)
        return tuple(before)

    def undo(self, outcome: Outcome, before: tuple[int, ...]) -> None:
        """Be as before `apply`."""
        for number, count in outcome.counted:
            each, name = self._counters[number]
            setattr(each, name, getattr(each, name) - count)
        for (number, _), free_ps in zip(outcome.freed, before, strict=True):
            setattr(*self._free[number], free_ps)
        for number, back, nbytes, count, alone, _ in outcome.flows:
            self._flow(number, back, nbytes).add(-count, *alone)

    def state(self) -> tuple[list[int], list[int], _FlowState, list[tuple[int, tuple[int, ...]]]]:
        """All that a command can change, as `changes` and `put_back` need it."""
        flows = {
            (number, back, nbytes): (flow.count, _alone(flow))
            for number, back, leg in self._legs
            for nbytes, flow in leg.flows.items()
        }
        requests = [each.state() for each in self._requests]
        return _values(self._counters), _values(self._free), flows, requests

    def changes(self, before: Any, begin_ps: int) -> tuple[Any, Any, tuple[FlowCount, ...]]:
        """`counted`, `freed` and `flows` of an Outcome: what has changed since the state was *before*."""
        counters, free, flows, _ = before
        now_counters, now_free, now_flows, _ = self.state()
        counted = [(n, b - a) for n, (a, b) in enumerate(zip(counters, now_counters, strict=True)) if a != b]
        freed = [(n, b - begin_ps) for n, (a, b) in enumerate(zip(free, now_free, strict=True)) if a != b]
        transfers = []
        for key, (count, alone) in now_flows.items():
            n_before, alone_before = flows.get(key, (0, (-1, -1)))
            if count != n_before or alone != alone_before:
                transfers.append((*key, count - n_before, alone_before, alone))
        return tuple(counted), tuple(freed), tuple(transfers)

    def put_back(self, before: Any) -> None:
        """Be as when the state was *before*."""
        counters, free, flows, requests = before
        for cell, value in zip((*self._counters, *self._free), (*counters, *free), strict=True):
            setattr(*cell, value)
        for number, back, leg in self._legs:
            for nbytes, flow in leg.flows.items():
                count, alone = flows.get((number, back, nbytes), (0, (-1, -1)))
                flow.add(count - flow.count, *alone)
        for each, state in zip(self._requests, requests, strict=True):
            each.put_back(state)
        for link in self._shared:
            link.begin_anew()

    def _flow(self, number: int, back: bool, nbytes: int) -> Flow:
        path = self.paths[number]
        return (path.back if back else path.away).flow(nbytes)


def _legs_of(paths: Sequence[MemoryPath]) -> Iterator[tuple[int, bool, Leg]]:
    """The number of the path, whether the leg leads back, and the leg; a leg that leads both ways once."""
    for number, path in enumerate(paths):
        yield number, False, path.away
        if path.back is not path.away:
            yield number, True, path.back


def _values(cells: Sequence[_Cell]) -> list[int]:
    return [getattr(each, name) for each, name in cells]


def _alone(flow: Flow) -> tuple[int, int]:
    return flow.read_alone_ps, flow.write_alone_ps
