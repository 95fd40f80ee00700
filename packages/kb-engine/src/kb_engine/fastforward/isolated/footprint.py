"""Footprint: the memories and links that a command can touch, and the counters of its PE.

Design: docs/design/isolated-commands.md
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from kb_engine.block.stage_server import StageServer
from kb_engine.fabric.paths import Flow, Leg, MemoryPath
from kb_engine.fastforward.isolated.result_cache import FlowCount, IsolatedResult

_Values = tuple[int, ...]
_FlowState = dict[tuple[int, int], tuple[int, tuple[int, int]]]
_OF_SERVER: Final = ("busy_ps", "served")
_OF_MEMORY: Final = ("busy_ps", "read_nbytes", "written_nbytes")


class State(NamedTuple):
    """The state that a command can change, in the order of the parts of a footprint."""

    counts: list[_Values]
    free_ps: list[int]
    flows: _FlowState
    requests: list[tuple[int, tuple[int, ...]]]


class Footprint:
    """The parts of a chip that commands of one form touch on one PE. Footprints of one form have one order of parts.

    `places` are the memories and the links, on which other transfers can meet a command. Counted are servers and
    memories, by the names of their counts. Ports of memories and links are free at a time, which has a name too.
    """

    __slots__ = ("_counted", "_free", "_legs", "_requests", "_shared", "paths", "places")

    def __init__(self, servers: Sequence[StageServer], paths: Sequence[MemoryPath]) -> None:
        self.paths = paths
        self.places = paths[0].places if len(paths) == 1 else frozenset().union(*[path.places for path in paths])
        self._legs = [*_legs_of(paths)]
        hops = [hop for leg in self._legs for hop in leg.hops]
        memories = [path.memory for path in paths]
        self._counted: list[tuple[Any, tuple[str, ...]]] = [
            *[(server, _OF_SERVER) for server in servers],
            *[(memory, _OF_MEMORY) for memory in memories],
        ]
        self._free: list[tuple[Any, str]] = [
            *[(memory, name) for memory in memories for name in type(memory).free_times],
            *[(link, "free_ps") for link in dict.fromkeys([hop.state for hop in hops])],
        ]
        self._shared = [*dict.fromkeys([hop.shared for hop in hops if hop.shared is not None])]
        self._requests = [path.requests for path in paths]

    @property
    def memories(self) -> list[str]:
        """The ids of the memories."""
        return [path.dst for path in self.paths]

    def is_idle(self, now_ps: int) -> bool:
        """Whether no transfer is in flight on the footprint, so that a command depends on no earlier one."""
        for part, name in self._free:
            if getattr(part, name) > now_ps:
                return False
        for requests in self._requests:
            if not requests.is_idle(now_ps):
                return False
        for shared in self._shared:  # noqa: SIM110  # twice as fast as all(), and asked for each isolated command
            if not shared.is_idle(now_ps):
                return False
        return True

    def fits(self, result: IsolatedResult) -> bool:
        """Whether the op log has rows of the same transfers as before the command of *result* was simulated."""
        return result.rows is None or all(
            _alone(self._legs[number].counted(nbytes)) == before for number, nbytes, _, before, _ in result.flows
        )

    def apply(self, result: IsolatedResult, begin_ps: int) -> None:
        """Applies the *result* of a command that begins at *begin_ps*."""
        self._count(result, 1)
        for number, after_ps in result.free:
            part, name = self._free[number]
            setattr(part, name, begin_ps + after_ps)
        for number, nbytes, count, _, alone in result.flows:
            flow = self._legs[number].counted(nbytes)
            flow.count += count
            flow.read_alone_ps, flow.write_alone_ps = alone

    def free_ps(self, result: IsolatedResult) -> _Values:
        """Returns the free times of the parts in *result*, for `undo`."""
        return tuple([getattr(*self._free[number]) for number, _ in result.free])

    def undo(self, result: IsolatedResult, before: _Values) -> None:
        """Undoes `apply`. *before* is `free_ps` of the time before."""
        self._count(result, -1)
        for (number, _), free_ps in zip(result.free, before, strict=True):
            part, name = self._free[number]
            setattr(part, name, free_ps)
        for number, nbytes, count, alone, _ in result.flows:
            self._legs[number].counted(nbytes).add(-count, *alone)

    def state(self) -> State:
        """Returns the state that a command can change, for `changes` and `put_back`."""
        flows = {
            (number, nbytes): (flow.count, _alone(flow))
            for number, leg in enumerate(self._legs)
            for nbytes, flow in leg.flows.items()
        }
        return State(
            [tuple([getattr(part, name) for name in names]) for part, names in self._counted],
            [getattr(part, name) for part, name in self._free],
            flows,
            [each.saved() for each in self._requests],
        )

    def changes(self, before: State, begin_ps: int) -> tuple[Any, Any, tuple[FlowCount, ...]]:
        """Returns `counts` to `flows` of an IsolatedResult: the changes since the state *before*."""
        now = self.state()
        transfers = []
        for key, (count, alone) in now.flows.items():
            n_before, alone_before = before.flows.get(key, (0, (-1, -1)))
            if count != n_before or alone != alone_before:
                transfers.append((*key, count - n_before, alone_before, alone))
        return _added(before.counts, now.counts), _moments(before.free_ps, now.free_ps, begin_ps), tuple(transfers)

    def put_back(self, before: State) -> None:
        """Restores the state *before*."""
        for (part, names), counts in zip(self._counted, before.counts, strict=True):
            for name, count in zip(names, counts, strict=True):
                setattr(part, name, count)
        for (part, name), free_ps in zip(self._free, before.free_ps, strict=True):
            setattr(part, name, free_ps)
        for number, leg in enumerate(self._legs):
            for nbytes, flow in leg.flows.items():
                count, alone = before.flows.get((number, nbytes), (0, (-1, -1)))
                flow.add(count - flow.count, *alone)
        for each, state in zip(self._requests, before.requests, strict=True):
            each.put_back(state)
        for shared in self._shared:
            shared.begin_anew()

    def _count(self, result: IsolatedResult, times: int) -> None:
        """Adds the counts of *result*, or subtracts them if *times* is -1."""
        for number, *growth in result.counts:
            part, names = self._counted[number]
            for name, by in zip(names, growth, strict=True):
                setattr(part, name, getattr(part, name) + times * by)


def _legs_of(paths: Sequence[MemoryPath]) -> Iterator[Leg]:
    """Yields the legs of *paths*. A leg that leads both ways comes once."""
    for path in paths:
        yield path.away
        if path.back is not path.away:
            yield path.back


def _added(before: Sequence[_Values], now: Sequence[_Values]) -> tuple[_Values, ...]:
    """Returns the number of each part whose counts changed, and by how much each count grew."""
    pairs = enumerate(zip(before, now, strict=True))
    return tuple(
        (number, *(b - a for a, b in zip(old, new, strict=True))) for number, (old, new) in pairs if old != new
    )


def _moments(before: Sequence[int], now: Sequence[int], begin_ps: int) -> tuple[tuple[int, int], ...]:
    """Returns the number of each part whose free time changed, and its new free time, relative to *begin_ps*."""
    pairs = enumerate(zip(before, now, strict=True))
    return tuple((number, free_ps - begin_ps) for number, (old, free_ps) in pairs if old != free_ps)


def _alone(flow: Flow) -> tuple[int, int]:
    return flow.read_alone_ps, flow.write_alone_ps
