"""One case on the engine and on the reference, and how far the two are apart."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import NamedTuple

from contention_bursts import BurstSimulation, Transfer
from contention_cases import Case
from contention_engine import EngineRun, Outcome

from kb_topology import Topology

MOST_BURST_HOPS = 20_000
MOST_BURSTS = 8
"""Two ends that are no more bursts apart agree. The reference has one burst in turn where the engine has even rates."""
ROUNDING_PS = 4
"""The engine rounds every moment of change up to a whole picosecond."""
FINER = 8
SHRINKS = 3
"""A larger difference is one of bursts if it shrinks to a third or less when bursts are an eighth."""


class Difference(NamedTuple):
    """A transfer's end on the engine, in the reference, and how many bursts are between."""

    outcome: Outcome
    expected_ps: Fraction
    bursts: Fraction

    @property
    def ps(self) -> Fraction:
        return self.outcome.end_ps - self.expected_ps


class Comparison(NamedTuple):
    """All differences of a case, the burst that was used, and the time of a burst where it takes longest."""

    differences: list[Difference]
    burst_nbytes: Fraction
    burst_ps: Fraction
    ties: int

    @property
    def largest(self) -> Difference:
        return max(self.differences, key=lambda each: abs(each.ps))


def compare(case: Case, burst_nbytes: Fraction | None = None, most_burst_hops: int = MOST_BURST_HOPS) -> Comparison:
    """Runs *case* on both. The reference starts each transfer when the engine started it."""
    topology = case.topology
    outcomes = EngineRun(topology, case.jobs).run()
    burst = burst_nbytes or burst_for(topology, outcomes, most_burst_hops)
    simulation = BurstSimulation(topology, burst)
    transfers = [outcome.transfer for outcome in outcomes]
    ends = simulation.run(transfers)
    burst_ps = burst * slowest_ps(simulation, transfers)
    differences = []
    for outcome, end in zip(outcomes, ends, strict=True):
        beyond = max(Fraction(0), abs(outcome.end_ps - end) - ROUNDING_PS)
        differences.append(Difference(outcome, end, beyond / burst_ps))
    return Comparison(differences, burst, burst_ps, ties(simulation, transfers))


class Finding(NamedTuple):
    """What came of a case: the comparison, how many transfers needed finer bursts, and those that disagree."""

    comparison: Comparison
    refined: int
    disagreeing: list[Difference]


def examine(case: Case, most_burst_hops: int = MOST_BURST_HOPS) -> Finding:
    """Compares, and compares again with finer bursts where the difference is larger than some bursts."""
    found = compare(case, most_burst_hops=most_burst_hops)
    beyond = [number for number, each in enumerate(found.differences) if each.bursts > MOST_BURSTS]
    if not beyond:
        return Finding(found, 0, [])
    finer = compare(case, found.burst_nbytes / FINER).differences
    disagreeing = [
        finer[number]
        for number in beyond
        if abs(finer[number].ps) > max(Fraction(ROUNDING_PS), abs(found.differences[number].ps) / SHRINKS)
    ]
    return Finding(found, len(beyond), disagreeing)


def burst_for(topology: Topology, outcomes: list[Outcome], most_burst_hops: int) -> Fraction:
    """The smallest burst, a power of two and not below a quarter of a byte, that costs no more than that."""
    simulation = BurstSimulation(topology, Fraction(1))
    hops = sum(t.nbytes * len(simulation.router.route(t.src, t.dst).links) for t in (o.transfer for o in outcomes))
    burst = Fraction(1, 4)
    while hops / burst > most_burst_hops:
        burst *= 2
    return burst


def slowest_ps(simulation: BurstSimulation, transfers: list[Transfer]) -> Fraction:
    """The most picoseconds that a byte takes on any link or memory which the transfers use."""
    used = {
        simulation.wires[link.src, link.dst].ticks_each
        for t in transfers
        for link in simulation.router.route(*((t.dst, t.src) if t.kind == "read" else (t.src, t.dst))).links
    }
    used |= {simulation.ports[t.dst, t.kind].ticks_each for t in transfers if t.kind != "message"}
    return Fraction(max(used) * simulation.grains_a_byte, simulation.ticks_a_ps)


def ties(simulation: BurstSimulation, transfers: list[Transfer]) -> int:
    """How many reads come to their memory in one picosecond with another one."""
    arrivals = Counter(
        (t.dst, t.start_ps * simulation.ticks_a_ps + simulation.latency(t.src, t.dst))
        for t in transfers
        if t.kind == "read"
    )
    return sum(count for count in arrivals.values() if count > 1)
