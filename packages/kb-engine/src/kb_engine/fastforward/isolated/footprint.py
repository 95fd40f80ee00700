"""Footprint: the memories and links that a command can touch, and the counters of its PE.

Design: docs/design/isolated-commands.md
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kb_engine.block.stage_server import StageServer
from kb_engine.fabric.paths import Flow, Leg, MemoryPath
from kb_engine.fastforward.isolated.result_cache import FlowCount, IsolatedResult

_Port = tuple[Any, str]
"""A memory and the name of one of its `free_times`."""
_Values = tuple[int, ...]
_FlowState = dict[tuple[int, int], tuple[int, tuple[int, int]]]


class State(NamedTuple):
    """The state that a command can change, in the order of the parts of a footprint."""

    servers: list[_Values]
    memories: list[_Values]
    ports: list[int]
    links: list[int]
    flows: _FlowState
    requests: list[tuple[int, tuple[int, ...]]]


class Footprint:
    """The parts of a chip that commands of one form touch on one PE. Footprints of one form have one order of parts.

    `places` are the memories and the links, on which other transfers can meet a command.
    """

    __slots__ = ("_legs", "_links", "_memories", "_ports", "_requests", "_servers", "_shared", "paths", "places")

    def __init__(self, servers: Sequence[StageServer], paths: Sequence[MemoryPath]) -> None:
        self.paths = paths
        self.places = paths[0].places if len(paths) == 1 else frozenset().union(*[path.places for path in paths])
        self._legs = [*_legs_of(paths)]
        hops = [hop for leg in self._legs for hop in leg.hops]
        self._servers = servers
        self._memories = [path.memory for path in paths]
        self._ports: list[_Port] = [(each, name) for each in self._memories for name in type(each).free_times]
        self._links = [*dict.fromkeys([hop.state for hop in hops])]
        self._shared = [*dict.fromkeys([hop.shared for hop in hops if hop.shared is not None])]
        self._requests = [path.requests for path in paths]

    @property
    def memories(self) -> list[str]:
        """The ids of the memories."""
        return [path.dst for path in self.paths]

    def is_idle(self, now_ps: int) -> bool:
        """Whether no transfer is in flight on the footprint, so that a command depends on no earlier one."""
        for memory, name in self._ports:
            if getattr(memory, name) > now_ps:
                return False
        for link in self._links:
            if link.free_ps > now_ps:
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
        ports, links, legs = self._ports, self._links, self._legs
        for number, after_ps in result.ports_free:
            memory, name = ports[number]
            setattr(memory, name, begin_ps + after_ps)
        for number, after_ps in result.links_free:
            links[number].free_ps = begin_ps + after_ps
        for number, nbytes, count, _, alone in result.flows:
            flow = legs[number].counted(nbytes)
            flow.count += count
            flow.read_alone_ps, flow.write_alone_ps = alone

    def free_ps(self, result: IsolatedResult) -> _Values:
        """Returns the free times of the ports and links of *result*, for `undo`."""
        ports = [self._ports[number] for number, _ in result.ports_free]
        links = [self._links[number].free_ps for number, _ in result.links_free]
        return *[getattr(memory, name) for memory, name in ports], *links

    def undo(self, result: IsolatedResult, before: _Values) -> None:
        """Undoes `apply`. *before* is `free_ps` of the time before."""
        self._count(result, -1)
        free_ps = iter(before)
        for number, _ in result.ports_free:
            memory, name = self._ports[number]
            setattr(memory, name, next(free_ps))
        for number, _ in result.links_free:
            self._links[number].free_ps = next(free_ps)
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
            [(each.busy_ps, each.served) for each in self._servers],
            [(each.busy_ps, each.read_nbytes, each.written_nbytes) for each in self._memories],
            [getattr(memory, name) for memory, name in self._ports],
            [link.free_ps for link in self._links],
            flows,
            [each.saved() for each in self._requests],
        )

    def changes(self, before: State, begin_ps: int) -> tuple[Any, Any, Any, Any, tuple[FlowCount, ...]]:
        """Returns `served` to `flows` of an IsolatedResult: the changes since the state *before*."""
        now = self.state()
        transfers = []
        for key, (count, alone) in now.flows.items():
            n_before, alone_before = before.flows.get(key, (0, (-1, -1)))
            if count != n_before or alone != alone_before:
                transfers.append((*key, count - n_before, alone_before, alone))
        return (
            _added(before.servers, now.servers),
            _added(before.memories, now.memories),
            _moments(before.ports, now.ports, begin_ps),
            _moments(before.links, now.links, begin_ps),
            tuple(transfers),
        )

    def put_back(self, before: State) -> None:
        """Restores the state *before*."""
        for server, counts in zip(self._servers, before.servers, strict=True):
            server.busy_ps, server.served = counts
        for memory, requested in zip(self._memories, before.memories, strict=True):
            memory.busy_ps, memory.read_nbytes, memory.written_nbytes = requested
        for (memory, name), free_ps in zip(self._ports, before.ports, strict=True):
            setattr(memory, name, free_ps)
        for link, free_ps in zip(self._links, before.links, strict=True):
            link.free_ps = free_ps
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
        servers, memories = self._servers, self._memories
        for number, busy_ps, served in result.served:
            server = servers[number]
            server.busy_ps += times * busy_ps
            server.served += times * served
        for number, busy_ps, read_nbytes, written_nbytes in result.requested:
            memory = memories[number]
            memory.busy_ps += times * busy_ps
            memory.read_nbytes += times * read_nbytes
            memory.written_nbytes += times * written_nbytes


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
