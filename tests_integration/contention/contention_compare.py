"""One case on the engine and on the reference, and how far the two are apart."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any, NamedTuple

from contention_bursts import BurstSimulation, Transfer
from contention_cases import Case
from contention_chips import ALL, PREFIX, Chip
from contention_engine import EngineRun, Outcome

from kb_engine import Engine
from kb_topology import Topology

MOST_BURST_HOPS = 8000
MOST_BURSTS = 8
"""Two ends that are no more bursts apart agree. The reference has one burst in turn where the engine has even rates."""
ROUNDING_PS = 4
"""The engine rounds every moment of change up to a whole picosecond. Where memories are written, see `rounding_ps`."""
FINER = 8
REFINEMENTS = 3
SHRINKS = 3
"""A larger difference is one of bursts if it shrinks to a third or less when bursts are an eighth of the size.

Where a read comes to a memory beside the last byte of a write, a burst can decide which is first, so bursts get
finer and finer.
"""


class Difference(NamedTuple):
    """A transfer's end on the engine, in the reference, and how many bursts are between."""

    outcome: Outcome
    expected_ps: Fraction
    bursts: Fraction

    @property
    def ps(self) -> Fraction:
        return self.outcome.end_ps - self.expected_ps


class Comparison(NamedTuple):
    """All differences of a case, the burst that was used, and the time of a burst where it takes longest.

    Differences in bursts are counted beyond `rounding_ps`.
    """

    differences: list[Difference]
    rounding_ps: Fraction
    burst_nbytes: Fraction
    burst_ps: Fraction
    ties: int

    @property
    def largest(self) -> Difference:
        return max(self.differences, key=lambda each: abs(each.ps))


def compare(case: Case, burst_nbytes: Fraction | None = None, most_burst_hops: int = MOST_BURST_HOPS) -> Comparison:
    """Runs *case* on both. The reference starts each transfer when the engine started it."""
    topology = case.topology
    outcomes = EngineRun(topology, case.jobs, case.chip.outstanding).run()
    burst = burst_nbytes or burst_for(topology, outcomes, most_burst_hops, case.chip)
    simulation = BurstSimulation(topology, burst, banked_memories(topology))
    parts = [parts_of(outcome.transfer, case.chip) for outcome in outcomes]
    transfers = [part for each in parts for part in each]
    found = iter(simulation.run(transfers))
    ends = [max([next(found) for _ in each]) for each in parts]
    burst_ps = burst * slowest_ps(simulation, transfers)
    rounding = rounding_ps(simulation, transfers, case.chip.outstanding)
    differences = []
    for outcome, end in zip(outcomes, ends, strict=True):
        beyond = max(Fraction(0), abs(outcome.end_ps - end) - rounding)
        differences.append(Difference(outcome, end, beyond / burst_ps))
    return Comparison(differences, rounding, burst, burst_ps, ties(simulation, transfers))


def parts_of(transfer: Transfer, chip: Chip) -> list[Transfer]:
    """*transfer*, or its part in each slice of the memory over all slices: granules lie in the slices in turn."""
    if transfer.dst != PREFIX + ALL:
        return [transfer]
    granule = chip.granule_nbytes
    slices = [name for memory in chip.memories if memory.space == "hbm" for name in memory.names]
    nbytes: Counter[int] = Counter()
    at, end = transfer.offset, transfer.offset + transfer.nbytes
    while at < end:
        to = min(end, at - at % granule + granule)
        nbytes[at // granule % len(slices)] += to - at
        at = to
    return [transfer._replace(dst=PREFIX + slices[number], nbytes=nbytes[number]) for number in sorted(nbytes)]


class Finding(NamedTuple):
    """What came of a case: the comparison, how many transfers needed finer bursts, and those that disagree."""

    comparison: Comparison
    refined: int
    disagreeing: list[Difference]


def examine(case: Case, most_burst_hops: int = MOST_BURST_HOPS) -> Finding:
    """Compares, and compares again with finer and finer bursts where the difference is larger than some bursts."""
    found = finest = compare(case, most_burst_hops=most_burst_hops)
    beyond = refined = [number for number, each in enumerate(found.differences) if each.bursts > MOST_BURSTS]
    for _ in range(REFINEMENTS if beyond else 0):
        finest = compare(case, finest.burst_nbytes / FINER)
        beyond = [
            number
            for number in beyond
            if abs(finest.differences[number].ps) > max(found.rounding_ps, abs(found.differences[number].ps) / SHRINKS)
        ]
        if not beyond:
            break
    return Finding(found, len(refined), [finest.differences[number] for number in beyond])


def banked_memories(topology: Topology) -> dict[str, Any]:
    """New memories with banks, of an engine that does nothing else."""
    banked = [node.id for node in topology.graph.nodes.values() if node.impl == "builtin.hbm_banked"]
    return {node_id: Engine(topology).components[node_id] for node_id in banked}


def burst_for(topology: Topology, outcomes: list[Outcome], most_burst_hops: int, chip: Chip) -> Fraction:
    """The smallest burst, a power of two and not below a quarter of a byte, that costs no more than that."""
    simulation = BurstSimulation(topology, Fraction(1))
    transfers = [part for outcome in outcomes for part in parts_of(outcome.transfer, chip)]
    hops = sum(t.nbytes * len(simulation.router.route(t.src, t.dst).links) for t in transfers)
    burst = Fraction(1, 4)
    while hops / burst > most_burst_hops:
        burst *= 2
    return burst


def slowest_ps(simulation: BurstSimulation, transfers: list[Transfer]) -> Fraction:
    """The most picoseconds that a byte takes on any link or memory which the transfers use."""
    used = {
        wire.ticks_each
        for t in transfers
        for wire in simulation.way(*((t.dst, t.src) if t.kind == "read" else (t.src, t.dst)))
    }
    used |= {simulation.ports[t.dst, t.kind].ticks_each for t in transfers if (t.dst, t.kind) in simulation.ports}
    return Fraction(max(used) * simulation.grains_a_byte, simulation.ticks_a_ps)


def rounding_ps(simulation: BurstSimulation, transfers: list[Transfer], outstanding: int) -> Fraction:
    """What rounding may add up to. A memory of the engine serves whole bytes: a byte of each write that it is getting
    may be served before another request or behind it."""
    writes = Counter((t.src, t.dst) for t in transfers if t.kind == "write")
    under_way: Counter[str] = Counter()
    for (_, dst), count in writes.items():
        under_way[dst] += min(count, outstanding)
    ticks = max((simulation.ports[dst, "write"].ticks_each * count for dst, count in under_way.items()), default=0)
    return ROUNDING_PS + Fraction(ticks * simulation.grains_a_byte, simulation.ticks_a_ps)


def ties(simulation: BurstSimulation, transfers: list[Transfer]) -> int:
    """How many reads come to their memory in one picosecond with another one."""
    arrivals = Counter(
        (t.dst, t.start_ps * simulation.ticks_a_ps + simulation.latency(t.src, t.dst))
        for t in transfers
        if t.kind == "read"
    )
    return sum(count for count in arrivals.values() if count > 1)
