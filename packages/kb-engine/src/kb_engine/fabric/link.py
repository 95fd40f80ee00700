"""Links, and the legs of paths over them that the fabric compiles once."""

from __future__ import annotations

from typing import Any, NamedTuple

from kb_engine.block.fabric_roles import MemoryComponent
from kb_engine.fabric.shared_link import SharedLink
from kb_engine.timing.interning import interned
from kb_engine.timing.units import Rate
from kb_topology import Link


class LinkState:
    """One direction of a link: when it is next free, where that is known ahead, and what it has carried."""

    __slots__ = ("busy_ps", "free_ps", "link", "nbytes", "rate")

    def __init__(self, link: Link) -> None:
        self.link = link
        self.rate = Rate.from_gbs(link.bw_gbs)
        self.free_ps = 0
        self.busy_ps = 0
        self.nbytes = 0


class Hop(NamedTuple):
    """A link on a leg, and the latency until the next link's start. `shared` is None where no flow can meet ours."""

    state: LinkState
    after_ps: int
    shared: SharedLink | None


class Flow:
    """Transfers of one size over one leg: what their bytes cost each link, asked for once.

    `ahead` are the links up to the first shared one, in order; `shared` the shared ones, each with the latency to the
    next of them (or to the end of the leg) and the picoseconds that the bytes take on it. It is `unshared` when it has
    bytes and meets nobody.
    """

    __slots__ = ("ahead", "count", "latency_ps", "nbytes", "shared", "slowest_ps", "unshared")

    def __init__(self, hops: list[Hop], nbytes: int) -> None:
        self.nbytes = nbytes = interned(nbytes)
        self.count = 0
        self.latency_ps = interned(sum(hop.after_ps for hop in hops))
        self.slowest_ps = interned(max((hop.state.rate.ps(nbytes) for hop in hops), default=0))
        self.ahead: list[tuple[LinkState, int, int]] = []
        self.shared: list[tuple[SharedLink, int, int]] = []
        self.unshared = False
        if not nbytes:
            return
        for state, after_ps, link in hops:
            if link is not None:
                self.shared.append((link, after_ps, state.rate.ps(nbytes)))
            elif not self.shared:
                self.ahead.append((state, interned(after_ps), interned(state.rate.ps(nbytes))))
            else:
                last, before_ps, duration = self.shared[-1]
                self.shared[-1] = last, before_ps + after_ps, duration
        self.unshared = not self.shared

    def reserve_ahead(self, head_ps: int, tail_ps: int) -> tuple[int, int]:
        """Take the links of `ahead`; when the first and the last byte come out of the last of them.

        Cut-through: a link starts with the head, or when it is free, and holds the bytes for their time on it at least.
        """
        for link, after_ps, duration in self.ahead:
            start = head_ps if head_ps > link.free_ps else link.free_ps
            end = start + duration
            if end < tail_ps:
                end = tail_ps
            link.free_ps = end
            head_ps, tail_ps = start + after_ps, end + after_ps
        return head_ps, tail_ps


class Leg:
    """One way between two nodes. Zero bytes pay its latency and nothing else."""

    __slots__ = ("_flows", "_last", "hops", "latency_ps")

    def __init__(self, hops: list[Hop]) -> None:
        self.hops = hops
        self.latency_ps = sum(hop.after_ps for hop in hops)
        self._last = Flow(hops, 0)
        self._flows: dict[int, Flow] = {0: self._last}

    @property
    def links(self) -> tuple[Link, ...]:
        """The links, in order."""
        return tuple(hop.state.link for hop in self.hops)

    @property
    def merges(self) -> bool:
        """Whether another flow can meet ours on it."""
        return any(hop.shared is not None for hop in self.hops)

    def flow(self, nbytes: int) -> Flow:
        """The flow of transfers of *nbytes*."""
        if nbytes != self._last.nbytes:
            self._last = self._flows.get(nbytes) or self._new_flow(nbytes)
        return self._last

    def _new_flow(self, nbytes: int) -> Flow:
        flow = self._flows[nbytes] = Flow(self.hops, nbytes)
        return flow

    def settle(self) -> None:
        """Add what the flows have carried to their links' counts."""
        for flow in self._flows.values():
            for hop in self.hops:
                hop.state.busy_ps += flow.count * hop.state.rate.ps(flow.nbytes)
                hop.state.nbytes += flow.count * flow.nbytes
            flow.count = 0


class Path:
    """A way to a memory and back. To the TCM of its own PE a DMA's has no links.

    It is `exclusive` when no block but the one at `src` starts transfers (there are no `others`), and nothing else can
    be on its links: then they never make a transfer wait. `nearest_ps` is the memory's lookahead.
    """

    __slots__ = ("away", "back", "dst", "exclusive", "memory", "nearest_ps", "request_ps", "response_ps", "src")

    def __init__(
        self,
        src: str,
        dst: str,
        memory: MemoryComponent[Any],
        away: Leg,
        back: Leg,
        others: bool,
        nearest_ps: int,
    ) -> None:
        self.src = src
        self.dst = dst
        self.memory = memory
        self.away = away
        self.back = back
        self.exclusive = not (others or away.merges or back.merges)
        self.nearest_ps = interned(nearest_ps)
        self.request_ps = interned(away.latency_ps)
        self.response_ps = interned(back.latency_ps)
