"""The reference for chips that multicast, and random cases in which many read the same bytes.

Its rules, beside those of contention_bursts: a read whose request comes before or when the first byte of an answer with
the same bytes leaves the memory joins that answer, unless it is full, has the DMA among its receivers, or the bytes
were written since. An answer leaves when its first byte does. A burst goes over the links that the ways of all its
receivers have in common, and where they part, a copy goes on each.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

from contention_bursts import Burst, BurstSimulation, Wire
from contention_cases import Case, both_ways
from contention_chips import Chip, Forwarder, Memory, yaml_of
from contention_compare import burst_for, rounding_ps, slowest_ps
from contention_engine import EngineRun, Job

from kb_topology import Topology, loads_topology

RECEIVERS = 3
MOST_BURST_HOPS = 20_000
_LAST = 1 << 60
"""The place of departures among the events of a tick."""


class Answer(NamedTuple):
    """The reads that one answer serves, and the ticks at which its first and its last byte leave, once they are set."""

    members: list[int]
    leaves: list[int]


class MulticastBursts(BurstSimulation):
    """As BurstSimulation. Bursts for several receivers have numbers behind those of the transfers."""

    def __init__(self, topology: Topology, burst_nbytes: Fraction) -> None:
        super().__init__(topology, burst_nbytes)
        self.open: dict[tuple[str, int, int], Answer] = {}
        self.asked: Answer | None = None
        self.numbers: dict[tuple[int, ...], int] = {}
        self.receivers: dict[int, tuple[int, ...]] = {}
        self.sent_as: dict[int, int] = {}
        self.n_joined = 0

    def request(self, number: int) -> None:
        transfer = self.transfers[number]
        key = transfer.dst, transfer.offset, transfer.nbytes
        answer = self.open.get(key)
        if answer is not None and self.takes(answer, number):
            answer.members.append(number)
            self.n_joined += 1
            return
        self.asked = self.open[key] = Answer([number], [])
        super().request(number)

    def takes(self, answer: Answer, number: int) -> bool:
        sources = [self.transfers[each].src for each in answer.members]
        return len(sources) < RECEIVERS and self.transfers[number].src not in sources and self.now <= answer.leaves[0]

    def send(self, number: int, first: int, last: int) -> None:
        answer = self.asked
        assert answer is not None
        answer.leaves.extend((first, last))
        self.at(first, self.depart, answer, _LAST)

    def depart(self, answer: Answer) -> None:
        first = answer.members[0]
        for key in [key for key, each in self.open.items() if each is answer]:
            del self.open[key]
        self.sent_as[first] = self.number_of(tuple(answer.members))
        super().send(first, *answer.leaves)
        del self.sent_as[first]

    def number_of(self, receivers: tuple[int, ...]) -> int:
        if len(receivers) == 1:
            return receivers[0]
        number = self.numbers.setdefault(receivers, len(self.transfers) + len(self.numbers))
        self.receivers[number] = receivers
        return number

    def bursts(self, number: int, src: str, dst: str) -> Iterator[Burst]:
        for burst in super().bursts(number, src, dst):
            yield burst._replace(number=self.sent_as.get(number, number))

    def forward(self, burst: Burst, head: int, tail: int) -> None:
        receivers = self.receivers.get(burst.number)
        if receivers is None:
            super().forward(burst, head, tail)
            return
        ways = {each: self.way(self.transfers[each].dst, self.transfers[each].src) for each in receivers}
        place = len(ways[receivers[0]]) - len(burst.way)
        copies: dict[Wire, list[int]] = {}
        for each, way in ways.items():
            copies.setdefault(way[place], []).append(each)
        for wire, mine in copies.items():
            copy = burst._replace(number=self.number_of(tuple(mine)), way=ways[mine[0]][place:])
            self.at(max(head, tail - burst.size * wire.ticks_each), self.enter, copy)

    def write(self, burst: Burst) -> None:
        if burst.is_last:
            _, _, dst, nbytes, _, offset = self.transfers[burst.number]
            for key in list(self.open):
                if key[0] == dst and key[1] < offset + nbytes and offset < key[1] + key[2]:
                    del self.open[key]
        super().write(burst)


class MulticastCase(NamedTuple):
    """How many reads joined in a case, and the ends that disagree: by the engine, by bursts, and by shorter bursts."""

    n_joined: int
    disagreeing: list[tuple[Any, ...]]


def many_readers(seed: int) -> Case:
    """Case *seed*: a memory at one end of a line of nodes, DMAs along the line that read few different bytes of it, and
    messages that share the links."""
    rng = random.Random(seed)
    nodes = [Forwarder(f"n{number}", "noc", rng.choice((0, 0.5, 2))) for number in range(rng.choice((2, 3, 4)))]
    memory = Memory("hbm_fixed", 1, rng.choice((50, 100, 400)), rng.choice((1, 5, 30)))
    links = [each for a, b in pairwise(nodes) for each in both_ways(rng, a.name, b.name, [40, 64, 100, 200], (0, 2))]
    links += both_ways(rng, "hbm0", "n0", [64, 100, 200], (0, 1))
    n_pes = rng.choice((3, 4, 6))
    for number in range(n_pes):
        for end in ("pe_dma", "pe_cpu"):
            links += both_ways(rng, f"pe{number}.{end}", rng.choice(nodes).name, [25, 64, 200], (0, 2))
    chip = Chip(6.6, 0, n_pes, tuple(nodes), (memory,), tuple(links))
    bytes_read = [(4096 * number, rng.randint(200, 3000)) for number in range(2)]
    jobs = []
    for number in range(n_pes):
        for _ in range(2):
            offset, nbytes = rng.choice(bytes_read)
            jobs.append(Job("read", f"pe{number}.pe_dma", "hbm0", nbytes, rng.randint(0, 20_000), offset))
        other = (number + rng.randint(1, n_pes - 1)) % n_pes
        start_ps = rng.randint(0, 60_000)
        jobs.append(Job("message", f"pe{number}.pe_cpu", f"pe{other}.pe_cpu", rng.randint(100, 2000), start_ps))
        if rng.random() < 0.3:
            jobs.append(
                Job("write", f"pe{number}.pe_dma", "hbm0", rng.randint(100, 1000), start_ps, rng.choice((0, 9000)))
            )
    return Case(chip, tuple(jobs))


def judge_multicast(seed: int) -> MulticastCase:
    """Compare case *seed* on both.

    An end that is more than five bursts off is looked at again with bursts of a sixteenth, and has to be much
    isolation.
    """
    case = many_readers(seed)
    text = yaml_of(case.chip).replace("\ncube:", f"\nmulticast: {{receivers: {RECEIVERS}}}\ncube:", 1)
    topology = loads_topology(text, "multicast.yaml")
    outcomes = EngineRun(topology, case.jobs, case.chip.outstanding).run()
    transfers = [each.transfer for each in outcomes]
    burst = burst_for(topology, outcomes, MOST_BURST_HOPS, case.chip)
    coarse = MulticastBursts(topology, burst)
    ends = coarse.run(transfers)
    rounding = rounding_ps(coarse, transfers, case.chip.outstanding)
    most = 5 * burst * slowest_ps(coarse, transfers) + rounding
    beyond = [number for number, end in enumerate(ends) if abs(outcomes[number].end_ps - end) > most]
    finer = MulticastBursts(topology, burst / 16).run(transfers) if beyond else ends
    disagreeing = [
        (outcomes[number], float(ends[number]), float(finer[number]))
        for number in beyond
        if abs(outcomes[number].end_ps - finer[number]) > max(rounding, abs(outcomes[number].end_ps - ends[number]) / 4)
    ]
    return MulticastCase(coarse.n_joined, disagreeing)
