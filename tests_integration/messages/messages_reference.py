"""The times of a ring of messages as a recursion over its steps, in integers, beside the engine.

Each rank sends its value to the right and receives from the left, `steps` times, and sends on what it received. Ways
and costs come from the chip's file: the shortest way over its links, and the attributes of its blocks.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from heapq import heappop, heappush
from math import ceil
from typing import Any, NamedTuple

from kb_topology import Topology

_PASSED = ("noc", "ucie", "xbar", "bridge", "io_noc", "pcie_ep", "switch", "serdes")


class Costs(NamedTuple):
    """Picoseconds of the steps of a message, and the numbers of slots and of writes under way."""

    issue: int
    decode: int
    setup: int
    port: int
    doorbell: int
    credit: int
    depth: int
    outstanding: int


class Hop(NamedTuple):
    """The way of a message from one PE to the next, in picoseconds: head, acknowledgement, bytes, and queue to queue
    against the message."""

    head: int
    back: int
    data: int
    credit: int


class Ring(NamedTuple):
    """For each step, and each rank: when a message had its credit, rang, was taken and freed, and its credit came."""

    credit: list[list[int]]
    rung: list[list[int]]
    taken: list[list[int]]
    freed: list[list[int]]
    credited: list[list[int]]


def factor_of(spec: dict[str, Any], pe: str) -> Fraction:
    """The factor of *pe* by its id, which is the key of a slow PE in *spec*."""
    return Fraction(str(spec.get("slow", {}).get(pe, 1)))


def costs_of(spec: dict[str, Any], pe: str) -> Costs:
    """The costs of *pe* on the chip *spec*."""
    nodes = spec["cube"]["pe_template"]["nodes"]
    dma, tcm, queue = nodes["pe_dma"], nodes["pe_tcm"], nodes["pe_queue"]
    port = tcm.get("dma_latency_ns", tcm["latency_ns"])
    times = nodes["pe_cpu"]["issue_ns"], nodes["pe_scheduler"]["command_ns"], dma["setup_ns"], port
    rings = queue["doorbell_ns"], queue["credit_ns"]
    factor = factor_of(spec, pe)
    return Costs(*(_ps(each, factor) for each in (*times, *rings)), queue["depth"], dma.get("outstanding", 1))


class Ways:
    """The shortest ways over the links of *topology*, whose file is *spec*."""

    def __init__(self, spec: dict[str, Any], topology: Topology) -> None:
        wire = Fraction(str(spec["wire_ps_per_mm"]))
        self._links: dict[str, list[tuple[str, int, Fraction]]] = {}
        for link in topology.graph.links:
            latency = ceil(Fraction(str(link.length_mm)) * wire)
            self._links.setdefault(link.src, []).append((link.dst, latency, Fraction(link.bw_gbs)))
        self._cost = {
            node.id: _ps(node.attrs.get("overhead_ns", 0))
            for node in topology.graph.nodes.values()
            if node.kind.value in _PASSED
        }
        self._spec = spec
        self._port = Fraction(str(spec["cube"]["pe_template"]["nodes"]["pe_tcm"]["dma_bw_gbs"]))
        self.way = lru_cache(None)(self._way)

    def hop(self, source: str, to: str, nbytes: int) -> Hop:
        """The way of a message of *nbytes* from PE *source* to PE *to*."""
        head, width = self.way(f"{source}.pe_dma", f"{to}.pe_tcm")
        back, _ = self.way(f"{to}.pe_tcm", f"{source}.pe_dma")
        credit, _ = self.way(f"{to}.pe_queue", f"{source}.pe_queue")
        return Hop(head, back, ceil(nbytes * 1000 / min(width, self._port / factor_of(self._spec, to))), credit)

    def _way(self, src: str, dst: str) -> tuple[int, Fraction]:
        """Picoseconds of the head from *src* to *dst*, and the narrowest bandwidth."""
        heap, seen = [(0, src, Fraction(10**9))], set()
        while heap:
            at, node, width = heappop(heap)
            if node == dst:
                return at, width
            if node in seen or (node != src and node not in self._cost):
                continue
            seen.add(node)
            for after, latency, wide in self._links.get(node, ()):
                heappush(heap, (at + latency + self._cost.get(after, 0), after, min(width, wide)))
        raise ValueError(f"no way from {src} to {dst}")


def ring(costs: list[Costs], hops: list[Hop], arrivals: list[int], steps: int, forwards: bool) -> Ring:
    """The times of a ring. *hops*[i] leads on from rank i of *costs*[i], whose first command comes at *arrivals*[i].

    Doorbell, port and credit of a hop are those of the rank that it leads to.

    A rank that *forwards* sends what it received last, and so holds the slot until that send is acknowledged. Other
    ranks send one value of their own and drop at once what they receive. The first link is the narrowest of each hop.
    """
    n = len(hops)
    ranks, after = range(n), [(i + 1) % n for i in range(n)]
    found = Ring([], [], [], [], [])
    issues, to = [each.issue for each in costs], [costs[i] for i in after]
    depth, outstanding = costs[0].depth, costs[0].outstanding
    calls = [arrivals[i] - issues[i] for i in ranks]
    decoded, link_free, acks = [0] * n, [0] * n, list[list[int]]()
    for k in range(steps):
        if k >= depth:
            calls = [max(calls[i], found.credited[k - depth][i]) for i in ranks]
        arrived = [calls[i] + issues[i] for i in ranks]
        decoded = [max(arrived[i], decoded[i]) + costs[i].decode for i in ranks]
        before = acks[k - outstanding] if k >= outstanding else [0] * n
        heads = [max(max(decoded[i], before[i]) + costs[i].setup, link_free[i]) for i in ranks]
        link_free = [heads[i] + hops[i].data for i in ranks]
        commits = [link_free[i] + hops[i].head + to[i].port for i in ranks]
        acks.append([commits[i] + hops[i].back for i in ranks])
        rung = [commits[i] + to[i].doorbell for i in ranks]
        taken = [max(arrived[after[i]] + to[i].issue, rung[i]) for i in ranks]
        if k or not forwards:  # the slot that came free in this step: the one of the step before, which is sent on
            freed = [max(taken[i], acks[k][after[i]]) if forwards else taken[i] for i in ranks]
            found.freed.append(freed)
            found.credited.append([freed[i] + to[i].credit + hops[i].credit for i in ranks])
        found.credit.append(calls)
        found.rung.append(rung)
        found.taken.append(taken)
        calls = [taken[i - 1] for i in ranks]
    return found


def _ps(ns: float, factor: Fraction = Fraction(1)) -> int:
    return ceil(Fraction(str(ns)) * 1000 * factor)
