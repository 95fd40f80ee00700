"""Random small chips and random traffic on them: case N is the same every time."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import NamedTuple

from contention_bursts import overhead_ps
from contention_chips import ALL, PREFIX, Chip, ChipLink, Forwarder, Memory, yaml_of
from contention_engine import Job

from kb_topology import Router, Topology, loads_topology

WIDTHS_GBS = (8, 10, 12.5, 16, 20, 25, 30, 32, 40, 50, 60, 64, 80, 100, 102.4, 125, 128, 200, 250, 256, 500, 512, 1000)
SHAPES = ("direct", "crossbar", "crossbar", "halves", "chain", "chain", "tree", "mesh", "random")
MOST_NBYTES = 64 << 10
MAPPINGS = ("5R-1BG-2B-6C-1BG", "3R-1B-5C-2B-2BG-2PC", "4R-5C-2B-2BG-2PC")


class Case(NamedTuple):
    """A chip, and the jobs of its DMAs and CPUs."""

    chip: Chip
    jobs: tuple[Job, ...]

    @property
    def topology(self) -> Topology:
        return loads_topology(yaml_of(self.chip), "contention.yaml")


def random_case(seed: int) -> Case:
    """Case number *seed*."""
    rng = random.Random(seed)
    chip = random_chip(rng)
    return Case(chip, random_jobs(rng, chip))


def networked_case(seed: int) -> Case:
    """Case number *seed* with packets, ports of DMAs and, where it has several slices of HBM, a memory over them."""
    case, rng = random_case(seed), random.Random(f"{seed} network")
    packet = rng.choice((16, 64, 100, 256)), rng.choice((0, 4, 16, 32))
    port = rng.choice((8, 16, 32, 64)), rng.choice((0.5, 1, 1.6))
    drawn = rng.choice(((packet, None), (None, port), (packet, port)))
    case = case._replace(chip=case.chip._replace(packet=drawn[0], port=drawn[1]))
    slices = [name for memory in case.chip.memories if memory.impl == "hbm_fixed" for name in memory.names]
    if len(slices) < 2 or rng.random() < 0.3:
        return case
    router = Router(case.topology.graph, overhead_ps)
    reached = {job.src: router.reachable(PREFIX + job.src) for job in case.jobs}
    jobs = tuple(
        job._replace(dst=ALL)
        if job.dst in slices and job.kind != "message" and all(PREFIX + name in reached[job.src] for name in slices)
        else job
        for job in case.jobs
    )
    chip = case.chip._replace(granule_nbytes=64 * rng.choice((1, 4, 64)))
    return Case(chip, tuple(rng.choice(both) for both in zip(case.jobs, jobs, strict=True)))


def random_chip(rng: random.Random) -> Chip:
    shape = rng.choice(SHAPES)
    n_pes = rng.choice((1, 2, 2, 3, 3, 4, 4, 5, 6, 8, 10, 12))
    memories = random_memories(rng)
    joints = joints_of(rng, shape)
    n_forwarders = 1 + max((max(pair) for pair in joints), default=0) if shape != "direct" else 0
    overheads = rng.choice(((0,), (0, 0.3, 1), (2, 15.6), (0, 1, 2, 7.7)))
    forwarders = tuple(
        Forwarder(f"n{number}", rng.choice(("noc", "xbar", "bridge", "switch")), rng.choice(overheads))
        for number in range(n_forwarders)
    )
    widths = rng.sample(WIDTHS_GBS, rng.choice((1, 2, 3, 3, 5)))
    lengths = rng.choice(((0,), (0, 1), (0.5, 2, 3.3), (0, 3, 20)))
    ends = [(f"n{a}", f"n{b}") for a, b in joints]
    names = [name for memory in memories for name in memory.names]
    devices = [f"pe{pe}.pe_dma" for pe in range(n_pes)] + names
    if forwarders and rng.random() < 0.4:
        devices += [f"pe{pe}.pe_cpu" for pe in range(n_pes) if rng.random() < 0.6]
    for device in devices:
        ways = rng.choice((1, 1, 1, 1, 2)) if n_forwarders > 1 else 1
        ends += [(device, f"n{number}") for number in rng.sample(range(n_forwarders), ways if n_forwarders else 0)]
    if not forwarders or rng.random() < 0.1:
        first = rng.choice(names)
        ends += [
            (f"pe{pe}.pe_dma", name) for pe in range(n_pes) for name in names if name == first or rng.random() < 0.6
        ]
    by_role = {role: [rng.choice(widths)] for role in ("n", "p", "h", "s")} if rng.random() < 0.4 else {}
    links = [link for a, b in ends for link in both_ways(rng, a, b, by_role.get(a[0], widths), lengths)]
    setup_ns = rng.choice((0, 0, 0.7, 5))
    outstanding = rng.choice((1, 1, 1, 2, 4))
    return Chip(rng.choice((0, 6.6, 7)), setup_ns, n_pes, forwarders, memories, tuple(links), outstanding)


def random_memories(rng: random.Random) -> tuple[Memory, ...]:
    speeds = (5, 10, 25, 51.2, 100, 102.4, 256, 512, 1000, 1000, 1000)
    latencies = (0, 0, 1, 12, 45)
    hbm = Memory("hbm_fixed", rng.choice((1, 1, 2, 2, 3, 4)), rng.choice(speeds), rng.choice(latencies))
    banked = Memory("hbm_banked", rng.choice((1, 2, 3)), 0, rng.choice(latencies), mapping=rng.choice(MAPPINGS))
    ports = rng.choice(("shared", "shared", "separate"))
    sram = Memory("sram", rng.choice((1, 1, 2)), rng.choice(speeds), rng.choice(latencies), ports)
    return rng.choice(((hbm,), (hbm,), (sram,), (hbm, sram), (hbm, sram), (banked, sram)))


def joints_of(rng: random.Random, shape: str) -> list[tuple[int, int]]:
    """The pairs of forwarding nodes that links join."""
    if shape == "halves":
        return [(0, 2), (1, 2)]
    if shape == "chain":
        return list(pairwise(range(rng.choice((2, 3, 4, 5)))))
    if shape == "mesh":
        rows, cols = rng.choice(((2, 2), (2, 3), (3, 3)))
        nodes = [(row, col) for row in range(rows) for col in range(cols)]
        return [(r * cols + c, r * cols + c + 1) for r, c in nodes if c + 1 < cols] + [
            (r * cols + c, (r + 1) * cols + c) for r, c in nodes if r + 1 < rows
        ]
    if shape in {"tree", "random"}:
        size = rng.choice((3, 4, 5, 6))
        found = [(rng.randrange(node), node) for node in range(1, size)]
        more = [(a, b) for a in range(size) for b in range(a + 1, size) if (a, b) not in found]
        return found + (rng.sample(more, min(len(more), rng.choice((1, 2)))) if shape == "random" else [])
    return []


def both_ways(rng: random.Random, a: str, b: str, widths: list[float], lengths: tuple[float, ...]) -> list[ChipLink]:
    there = rng.choice(widths)
    back = there if rng.random() < 0.7 else rng.choice(widths)
    length_mm = rng.choice(lengths)
    return [ChipLink(a, b, there, length_mm), ChipLink(b, a, back, length_mm)]


def random_jobs(rng: random.Random, chip: Chip) -> tuple[Job, ...]:
    """Up to thirty jobs between nodes that links join."""
    topology = loads_topology(yaml_of(chip), "contention.yaml")
    router = Router(topology.graph, overhead_ps)
    reached = {
        name: router.reachable(PREFIX + name)
        for pe in range(chip.n_pes)
        for name in (f"pe{pe}.pe_dma", f"pe{pe}.pe_cpu")
    }
    memories = [name for memory in chip.memories for name in memory.names]
    cpus = [name for name in reached if name.endswith("cpu")]
    pairs = {
        "memory": [
            (src, dst) for src in reached if src.endswith("dma") for dst in memories if PREFIX + dst in reached[src]
        ],
        "message": [(src, dst) for src in cpus for dst in (*cpus, *memories) if PREFIX + dst in reached[src]],
    }
    weights = rng.choice(((1, 0, 0), (0, 1, 0), (1, 1, 0), (1, 1, 1), (3, 1, 1), (0, 1, 2), (0, 0, 1)))
    sizes = rng.choice(((1, 64), (1, 2048), (64, 4096), (1000, 3000), (1000, 5000), (1, MOST_NBYTES)))
    times = rng.choice((0, 0, 3_000, 50_000, 400_000))
    moments = [rng.randint(0, times) for _ in range(rng.choice((1, 2, 4, 30)))]
    hot = rng.choice(memories) if rng.random() < 0.4 else None
    banked = {name for memory in chip.memories for name in memory.names if memory.mapping}
    jobs = []
    for _ in range(rng.choice((2, 3, 4, 6, 8, 12, 16, 24, 30))):
        kind = rng.choices(("read", "write", "message"), weights)[0]
        between = pairs["message"] + pairs["memory"] if kind == "message" else pairs["memory"]
        src, dst = rng.choice(between)
        if hot is not None and (src, hot) in between and rng.random() < 0.8:
            dst = hot
        if kind == "write" and dst in banked:
            kind = "read"
        offset = 32 * rng.randrange(1 << 14)
        jobs.append(Job(kind, src, dst, random_nbytes(rng, *sizes), rng.choice(moments), offset))
    return tuple(jobs)


def random_nbytes(rng: random.Random, least: int, most: int) -> int:
    """A size: every order of magnitude as often, half of them round."""
    nbytes = min(most, max(least, round(least * (most / least) ** rng.random())))
    return nbytes if rng.random() < 0.5 else 1 << (nbytes.bit_length() - 1)
