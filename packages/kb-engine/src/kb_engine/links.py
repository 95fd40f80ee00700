"""Links, and the paths over them that the fabric compiles once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kb_engine.roles import MemoryComponent
from kb_engine.units import Rate
from kb_messages.stages import Rectangle
from kb_topology import Link


class LinkState:
    """One direction of a link: when it is next free, and what it has carried."""

    __slots__ = ("busy_ps", "free_ps", "link", "nbytes", "rate")

    def __init__(self, link: Link) -> None:
        self.link = link
        self.rate = Rate.from_gbs(link.bw_gbs)
        self.free_ps = 0
        self.busy_ps = 0
        self.nbytes = 0


class Hop:
    """A link on a path, the latency until the next link's start, and whether other flows can meet ours there."""

    __slots__ = ("after_ps", "merges", "state")

    def __init__(self, state: LinkState, after_ps: int, merges: bool) -> None:
        self.state = state
        self.after_ps = after_ps
        self.merges = merges


class Flow:
    """Transfers of one size over one path in one direction: what their bytes cost each link, asked for once."""

    __slots__ = ("count", "latency_ps", "leg", "slowest_ps")

    def __init__(self, hops: list[Hop], nbytes: int) -> None:
        self.leg = [(hop.state, hop.after_ps, hop.state.rate.ps(nbytes)) for hop in hops]
        self.latency_ps = sum(hop.after_ps for hop in hops)
        self.slowest_ps = max((duration for _, _, duration in self.leg), default=0)
        self.count = 0


class Path:
    """A DMA's way to a memory and back, compiled once. To the TCM of its own PE it has no links.

    It is `exclusive` when nothing else can be on it: then the links never make a transfer wait.
    """

    __slots__ = (
        "away",
        "back",
        "dst",
        "exclusive",
        "memory",
        "reads",
        "request_ps",
        "response_ps",
        "shared",
        "src",
        "writes",
    )

    def __init__(
        self, src: str, dst: str, memory: MemoryComponent[Any], away: list[Hop], back: list[Hop], shared: bool
    ) -> None:
        self.src = src
        self.dst = dst
        self.memory = memory
        self.away = away
        self.back = back
        self.shared = shared
        self.exclusive = not shared and not any(hop.merges for hop in away + back)
        self.request_ps = sum(hop.after_ps for hop in away)
        self.response_ps = sum(hop.after_ps for hop in back)
        self.reads: dict[int, Flow] = {}
        self.writes: dict[int, Flow] = {}

    def add_flow(self, nbytes: int, write: bool) -> Flow:
        """The flow of transfers of *nbytes*, not asked for before."""
        flows, hops = (self.writes, self.away) if write else (self.reads, self.back)
        flow = flows[nbytes] = Flow(hops, nbytes)
        return flow


class Transfer:
    """Bytes under way. `head_ps` and `tail_ps` are when the first and the last byte reach the next hop."""

    __slots__ = (
        "argument",
        "finish",
        "head_ps",
        "hop",
        "leg",
        "memory",
        "nbytes",
        "path",
        "t_start_ps",
        "tail_ps",
        "write",
    )

    def __init__(
        self, path: Path, memory: Rectangle, write: bool, finish: Callable[[Any], None], argument: Any, now: int
    ) -> None:
        self.path = path
        self.memory = memory
        self.nbytes = nbytes = memory.rows * memory.row_nbytes
        self.write = write
        self.finish = finish
        self.argument = argument
        flow = (path.writes if write else path.reads).get(nbytes) or path.add_flow(nbytes, write)
        self.leg = flow.leg
        self.hop = 0
        self.t_start_ps = self.head_ps = self.tail_ps = now
