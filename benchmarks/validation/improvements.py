"""How many improvements of one part of a chip make a run slower, and why?

    python benchmarks/validation/improvements.py                   # 5,000 cases: minutes
    python benchmarks/validation/improvements.py --cases 500 --json

Each case is a random kernel on a random chip of 1 to 4 PEs, which runs twice: as drawn, and with one number improved. A
bandwidth, clock, depth or size goes up; a latency, overhead or set-up goes down. A real machine may become slower too,
because services in another order can leave a block idle for longer. Source: R. L. Graham, "Bounds on Multiprocessing
Timing Anomalies", SIAM J. Appl. Math. 17 (2), 1969. The script prints how many cases become slower and by how much. For
the ten largest it prints the first place that serves in another order, as the two op logs show it.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import random_chips
from random_chips import KNOBS, ChipCase, Knob
from service_order import first_longer, first_swap

from kb_dataexec import OpLog
from kb_messages import KbError

MOST_PES = 4
SHOWN = 10


class Improvement(NamedTuple):
    """One case: the number that was improved, and the end of the last record before and after.

    With `other_tiles` the scheduler chose other tiles, so that the runs hold different services. With `other_order` a
    place serves in another order. `cause` says why the run became slower; it is empty where the run did not.
    """

    seed: int
    kind: str
    change: str
    before_ps: int
    after_ps: int
    other_tiles: bool
    other_order: bool
    cause: str

    @property
    def slower(self) -> bool:
        """Whether the improvement costs time with the same tiles."""
        return self.after_ps > self.before_ps and not self.other_tiles

    @property
    def percent(self) -> float:
        """How much longer the run takes; negative where it is faster."""
        return 100 * (self.after_ps / self.before_ps - 1)


class Refusal(NamedTuple):
    """A case that kb refuses, and kb's sentence."""

    seed: int
    sentence: str


class KindCount(NamedTuple):
    """All cases that improve one kind of number. Cases with other tiles count apart; `n_slower` holds none of them."""

    kind: str
    n_cases: int
    n_faster: int
    n_slower: int
    worst_percent: float
    n_other_tiles: int
    n_other_tiles_slower: int


def draw(seed: int) -> tuple[ChipCase, ChipCase, Knob]:
    """The case of *seed*, the same case with one number improved, and which number it is."""
    case = random_chips.draw(seed, MOST_PES)
    rng = random.Random(-1 - seed)
    values = ((knob, knob.read(case.spec)) for knob in KNOBS)
    better = [(knob, knob.values[knob.values.index(now) + 1 :]) for knob, now in values if now is not None]
    knob, improved = rng.choice([each for each in better if each[1]])
    value = rng.choice(improved)
    return case, case._replace(spec=knob.set(case.spec, value)), knob


def run(seed: int) -> Improvement | Refusal:
    """Run the case of *seed* on both chips."""
    case, improved, knob = draw(seed)
    try:
        before, after = random_chips.run(case), random_chips.run(improved)
    except KbError as error:
        return Refusal(seed, str(error))
    change = f"{'.'.join(map(str, knob.place[-3:]))}: {knob.read(case.spec)} -> {knob.read(improved.spec)}"
    before_ps, after_ps = _end_ps(before), _end_ps(after)
    try:
        swap = first_swap(before, after, random_chips.topology_of(case.spec))
    except ValueError:
        return Improvement(seed, knob.kind, change, before_ps, after_ps, True, False, "")
    cause = ""
    if after_ps > before_ps:
        cause = f"in the same order, {first_longer(before, after)}" if swap is None else str(swap)
    return Improvement(seed, knob.kind, change, before_ps, after_ps, False, swap is not None, cause)


def _end_ps(log: OpLog) -> int:
    return int(log.ops["t_out_ps"].max())


def run_all(n_cases: int, processes: int) -> tuple[list[Improvement], list[Refusal]]:
    """Run the first *n_cases* seeds; progress goes to stderr."""
    if processes == 1:
        return _collect(n_cases, map(run, range(n_cases)))
    with ProcessPoolExecutor(processes) as pool:
        return _collect(n_cases, pool.map(run, range(n_cases), chunksize=8))


def _collect(n_cases: int, found: Iterable[Improvement | Refusal]) -> tuple[list[Improvement], list[Refusal]]:
    improvements: list[Improvement] = []
    refusals: list[Refusal] = []
    for number, each in enumerate(found, 1):
        if isinstance(each, Refusal):
            refusals.append(each)
        else:
            improvements.append(each)
        if number % 500 == 0 or number == n_cases:
            slower = sum(each.slower for each in improvements)
            print(f"{number} of {n_cases} cases, {slower} slower", file=sys.stderr)
    return improvements, refusals


def counts(improvements: list[Improvement]) -> list[KindCount]:
    """A row for each kind of number, in the order of KNOBS, and a row for all."""
    kinds = dict.fromkeys(knob.kind for knob in KNOBS)
    rows = [_count(kind, [each for each in improvements if each.kind == kind]) for kind in kinds]
    return [*(row for row in rows if row.n_cases), _count("all", improvements)]


def _count(kind: str, cases: list[Improvement]) -> KindCount:
    slower, others = [each for each in cases if each.slower], [each for each in cases if each.other_tiles]
    return KindCount(
        kind,
        n_cases=len(cases),
        n_faster=sum(each.after_ps < each.before_ps for each in cases),
        n_slower=len(slower),
        worst_percent=max((each.percent for each in slower), default=0.0),
        n_other_tiles=len(others),
        n_other_tiles_slower=sum(each.after_ps > each.before_ps for each in others),
    )


def largest(improvements: list[Improvement]) -> list[Improvement]:
    """The improvements that cost most, the largest first."""
    slower = [each for each in improvements if each.slower]
    return sorted(slower, key=lambda each: (-each.percent, each.seed))[:SHOWN]


def text(improvements: list[Improvement], refusals: list[Refusal]) -> str:
    lines = [f"{'':20}{'cases':>7}{'faster':>8}{'slower':>8}{'largest':>10}{'other tiles':>13}{'slower':>8}"]
    for row in counts(improvements):
        same = f"{row.kind:20}{row.n_cases:7}{row.n_faster:8}{row.n_slower:8}{row.worst_percent:8.2f} %"
        lines.append(f"{same}{row.n_other_tiles:13}{row.n_other_tiles_slower:8}")
    slower = [each for each in improvements if each.slower]
    lines.append(f"{sum(each.other_order for each in slower)} of {len(slower)} slower runs serve in another order")
    lines += [f"case {each.seed} refused: {each.sentence}" for each in refusals]
    for each in largest(improvements):
        lines.append(f"case {each.seed}: {each.change}: {each.before_ps} -> {each.after_ps} ps, +{each.percent:.2f} %")
        lines.append(f"    {each.cause}")
    return "\n".join(lines)


def as_json(improvements: list[Improvement], refusals: list[Refusal]) -> str:
    slower = [each for each in improvements if each.slower]
    found: dict[str, list[dict[str, Any]]] = {
        "kinds": [row._asdict() for row in counts(improvements)],
        "slower": [each._asdict() | {"percent": each.percent} for each in slower],
        "refused": [each._asdict() for each in refusals],
    }
    return json.dumps(found, indent=2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=5000, help="how many cases (default: 5000)")
    parser.add_argument("--processes", type=int, default=2, help="how many processes (default: 2)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    improvements, refusals = run_all(options.cases, options.processes)
    print(as_json(improvements, refusals) if options.json else text(improvements, refusals))
    return 1 if refusals else 0


if __name__ == "__main__":
    sys.exit(main())
