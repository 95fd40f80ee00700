"""Random small chips with buffers of a size, and random traffic on them: case N is the same every time."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import NamedTuple

from contention_cases import WIDTHS_GBS, both_ways, random_chip, random_jobs
from contention_chips import Chip, ChipLink, Forwarder, Memory, yaml_of
from contention_engine import Job

from kb_topology import Topology, loads_topology

MOST_PACKETS = 25
"""The packets of a transfer, because the flits of each are events of the reference at each link."""


class Buffers(NamedTuple):
    """The buffers of a node: bytes of each, and the latency of a credit."""

    nbytes: int
    credit_ns: float


class Case(NamedTuple):
    """A chip, the buffers of its forwarding nodes by name, the packets (payload and header), ports, and the jobs.

    A node without buffers has room for all. *port_gbs* is that of each DMA, if there is one.
    """

    chip: Chip
    buffers: dict[str, Buffers]
    packet: tuple[int, int]
    port_gbs: int
    jobs: tuple[Job, ...]

    @property
    def yaml(self) -> str:
        return buffered_yaml(self)

    @property
    def topology(self) -> Topology:
        return loads_topology(self.yaml, "credits.yaml")


def random_case(seed: int) -> Case:
    """Case number *seed*. Its chip has a node with buffers, and each node takes some time."""
    rng = random.Random(seed)
    is_ring = rng.random() < 0.25
    chip = ring_chip(rng) if is_ring else random_chip(rng)
    while not chip.forwarders:
        chip = random_chip(rng)
    nodes = tuple(node._replace(overhead_ns=max(0.3, node.overhead_ns)) for node in chip.forwarders)
    chip = chip._replace(forwarders=nodes)
    packet = rng.choice((16, 64, 100, 256)), rng.choice((0, 0, 8, 32))
    jobs = tuple(job._replace(nbytes=1 + job.nbytes % (MOST_PACKETS * packet[0])) for job in random_jobs(rng, chip))
    sizes = [1, 1, 1.5, 2, 2.7, 5]
    latencies_ns = rng.choice(((0,), (0, 0.6, 2), (5, 20)))
    first = rng.choice(nodes).name
    buffers = {
        node.name: Buffers(int(sum(packet) * rng.choice(sizes)), rng.choice(latencies_ns))
        for node in nodes
        if is_ring or node.name == first or rng.random() < 0.8
    }
    return Case(chip, buffers, packet, rng.choice((0, 0, 25, 64)), jobs)


def ring_chip(rng: random.Random) -> Chip:
    """Nodes in a ring of one direction, on which full buffers can close a circle, with a PE each and a memory."""
    size = rng.choice((3, 4, 5))
    nodes = tuple(Forwarder(f"n{number}", "noc", rng.choice((0.5, 1, 3))) for number in range(size))
    width, ring = rng.choice(WIDTHS_GBS), [node.name for node in nodes]
    links = [ChipLink(a, b, width, rng.choice((0, 2))) for a, b in pairwise((*ring, ring[0]))]
    devices = [(f"pe{number}.{end}", number) for number in range(size) for end in ("pe_dma", "pe_cpu")]
    memory = Memory("hbm_fixed", 1, rng.choice((100, 1000)), 5)
    for device, number in (*devices, ("hbm0", rng.randrange(size))):
        links += both_ways(rng, device, f"n{number}", [width, 4 * width], (0,))
    return Chip(6.6, 0, size, nodes, (memory,), tuple(links))


def buffered_yaml(case: Case) -> str:
    """The topology file of *case*."""
    text = yaml_of(case.chip)
    payload, header = case.packet
    text = text.replace("\ncube:", f"\npackets: {{payload_nbytes: {payload}, header_nbytes: {header}}}\ncube:", 1)
    for name, (nbytes, credit_ns) in case.buffers.items():
        before, line, after = text.partition(f"\n    {name}: ")
        rest = after.replace("builtin.transit,", f"builtin.transit_credits, {ATTRIBUTES.format(nbytes, credit_ns)},", 1)
        text = before + line + rest
    if case.port_gbs:
        port = f"impl: builtin.pe_dma, port_nbytes: {case.port_gbs}, port_clock_ghz: 1,"
        text = text.replace("impl: builtin.pe_dma,", port, 1)
    return text


ATTRIBUTES = "buffer_nbytes: {}, credit_ns: {}"
