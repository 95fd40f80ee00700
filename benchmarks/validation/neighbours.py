"""Does an idle PE change the times of the others? No time may change when a chip gets a PE that does nothing.

    python benchmarks/validation/neighbours.py                  # every bundled benchmark and chip, and 750 random chips
    python benchmarks/validation/neighbours.py --cases 50 --json

Each case runs twice: on its chip, and on the same chip with one more PE in every cube. The kernels run on the same PEs.
Every record of the op log must have the same times and waits. The exit code is 1 when a case changes.
"""

from __future__ import annotations

import argparse
import copy
import json
import re
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import kernels
import numpy as np
import random_chips
import yaml
from random_chips import Spec
from random_kernels import TOPOLOGIES
from random_networks import with_network

from kb_cli.benchmark.load import load_benchmark
from kb_dataexec import MemoryLogWriter, OpLog
from kb_engine import CubeTarget, Engine, Host, Language, LaunchResult, TileShape
from kb_messages import KbError, OpRecord
from kb_topology import load_topology, loads_topology

BENCHMARKS = Path(__file__).parents[1]
RUNS: dict[str, tuple[dict[str, Any], ...]] = {
    "gemm": (
        {"M": 200, "N": 184, "K": 96, "tile": TileShape(64, 64, 32)},
        {"M": 130, "N": 70, "K": 300, "tile": TileShape(32, 32, 64), "operands": "one_slice"},
        {"M": 256, "N": 200, "K": 128, "tile": TileShape(256, 200, 32)},
    ),
    "softmax": ({"M": 100, "N": 96}, {"M": 70, "N": 33, "rows": 3}),
    "power_iteration": ({"N": 40},),
    "vector_add": ({"N": 5000, "block": 300},),
    **{kernel: shapes[:1] for kernel, shapes in kernels.RAGGED.items()},
}
"""Parameters of the bundled benchmarks: ragged, and with as few output slots as the scheduler takes (256x200)."""
WITHOUT_MATH = "u280_hbm"
MOST_PES = 4


class BundledCase(NamedTuple):
    """A bundled benchmark with the parameters that are number `params` of RUNS, on a bundled topology."""

    benchmark: str
    chip: str
    params: int

    def __str__(self) -> str:
        words = " ".join(f"{key}={value}" for key, value in RUNS[self.benchmark][self.params].items())
        return f"{self.benchmark} {words} on {self.chip}"


class RandomCase(NamedTuple):
    """A random kernel on all PEs of a random chip of up to `most_pes` PEs. Odd chips have a random network too."""

    seed: int
    most_pes: int

    def __str__(self) -> str:
        return f"random chip {self.seed} of up to {self.most_pes} PEs"


Case = BundledCase | RandomCase


class Change(NamedTuple):
    """A case in which the idle PE changes times: how many records of how many, the first one, and both latencies."""

    case: str
    n_changed: int
    n_records: int
    first: str
    latency_ps: tuple[int, int]


class Outcome(NamedTuple):
    """The outcome of all cases. `refused` has the error's text for each case that kb refused on both chips."""

    n_cases: int
    refused: list[str]
    changes: list[Change]


class BusyHost(Host):
    """A host for which only the PEs *busy* exist. A benchmark numbers them from 0 on, as on the chip without others.

    A launch that names no PEs runs on all of them.
    """

    def __init__(self, engine: Engine, busy: Sequence[str]) -> None:
        super().__init__(engine, BENCHMARKS)
        numbers = {pe_id: number for number, pe_id in enumerate(engine.pes)}
        self._busy = [numbers[pe_id] for pe_id in busy]

    @property
    def num_pes(self) -> int:
        return len(self._busy)

    def hbm_slice_of(self, pe: int) -> int:
        """The slice near *pe* on the chip without others, whose cubes are all equal."""
        return pe * self.num_slices // self.num_pes

    def launch(
        self,
        kernel: Any,
        *arguments: Any,
        pes: Sequence[int] | Literal["all"] | None = None,
        targets: Sequence[CubeTarget] | None = None,
        front_end: Any = Language,
        grid: int | Sequence[int] | None = None,
        schedule: Literal["dynamic", "static"] = "dynamic",
    ) -> LaunchResult:
        """Launches on the busy PEs. *pes* has to be numbers, or None; `Host.launch` has the other parameters."""
        assert pes != "all"
        assert targets is None
        busy = self._busy if pes is None else [self._busy[number] for number in pes]
        return super().launch(kernel, *arguments, pes=busy, front_end=front_end, grid=grid, schedule=schedule)


def with_idle_pe(spec: Spec) -> Spec:
    """*spec* with one more PE in each cube, after the others. It gets the links that the last PE has.

    A link of a row of PEs to a row of as many memories gets no more members.
    """
    wider = copy.deepcopy(spec)
    cube = wider["cube"]
    count = cube["pe_layout"]["count"]
    cube["pe_layout"]["count"] = count + 1
    last = re.compile(rf"pe\[(?:{count - 1}|\d+:{count})\](?=\.)")
    for link in list(cube["links"]):
        for end, other in (("from", "to"), ("to", "from")):
            if last.match(link[end]) and ":" not in link[other]:
                cube["links"].append({**link, end: last.sub(f"pe[{count}]", link[end])})
    return wider


def bundled_cases() -> list[BundledCase]:
    """Every bundled benchmark with all its parameters, on every topology that can run it."""
    chips = sorted(path.stem for path in TOPOLOGIES.glob("*.yaml"))
    names = sorted(path.stem for path in BENCHMARKS.glob("*.py"))
    return [
        BundledCase(name, chip, number)
        for name in names
        for chip in chips
        for number in range(len(RUNS[name]))
        if not (chip == WITHOUT_MATH and name != "gemm")
    ]


def random_cases(number: int) -> list[RandomCase]:
    """*number* chips of one PE, and half as many of several."""
    return [RandomCase(seed, 1) for seed in range(number)] + [RandomCase(seed, MOST_PES) for seed in range(number // 2)]


def run_bundled(case: BundledCase) -> Change | None:
    """Run a bundled benchmark with and without the idle PE."""
    path = TOPOLOGIES / f"{case.chip}.yaml"
    wider = yaml.safe_dump(with_idle_pe(yaml.safe_load(path.read_text(encoding="utf-8"))), sort_keys=False)
    engines = [
        Engine(topology, MemoryLogWriter())
        for topology in (load_topology(path), loads_topology(wider, f"{case.chip} with an idle PE"))
    ]
    logs = []
    for engine in engines:
        host, benchmark = BusyHost(engine, list(engines[0].pes)), _benchmark(case.benchmark)
        params = benchmark.Params(**RUNS[case.benchmark][case.params])
        benchmark.launch(host, params, benchmark.inputs(params, np.random.default_rng(0)))
        log = engine.close_log()
        assert isinstance(log, OpLog)
        logs.append(log)
    return compare(str(case), *logs)


@cache
def _benchmark(name: str) -> Any:
    return load_benchmark(str(BENCHMARKS / f"{name}.py")).bench


def run_random(random_case: RandomCase) -> Change | None:
    """Run a random kernel on a random chip with and without the idle PE."""
    case = random_chips.draw(*random_case)
    case = with_network(case) if random_case.seed % 2 else case
    wider = case._replace(spec=with_idle_pe(case.spec))
    return compare(str(random_case), random_chips.run(case), random_chips.run(wider))


def compare(case: str, alone: OpLog, beside: OpLog) -> Change | None:
    """None where all records have the same times. Raises ValueError where the logs hold different services."""
    first, second = _by_service(alone), _by_service(beside)
    if first.keys() != second.keys():
        raise ValueError(f"{case}: the idle PE changed which services there are")
    changed = [key for key in first if _times(first[key]) != _times(second[key])]
    if not changed:
        return None
    key = min(changed, key=lambda each: (first[each].t_ready_ps, first[each].t_start_ps, each))
    sentence = f"{first[key].name} of {key[0]}: {_said(first[key])}, beside an idle PE {_said(second[key])}"
    ends = [max(record.t_out_ps for record in found.values()) for found in (first, second)]
    return Change(case, len(changed), len(first), sentence, (ends[0], ends[1]))


def _by_service(log: OpLog) -> dict[tuple[str, int, int, int], OpRecord]:
    return {(each.component, each.command_seq, each.tile_id, each.stage_index): each for each in log.records()}


def _times(record: OpRecord) -> tuple[Any, ...]:
    return record.t_ready_ps, record.t_start_ps, record.t_end_ps, record.t_out_ps, record.waits_ps


def _said(record: OpRecord) -> str:
    return f"ready {record.t_ready_ps}, served {record.t_start_ps} to {record.t_end_ps} ps"


def _run(case: Case) -> Change | str | None:
    """A sentence where kb refuses the case."""
    try:
        return run_random(case) if isinstance(case, RandomCase) else run_bundled(case)
    except KbError as error:
        return f"{case}: {error}"


def run_all(cases: Sequence[Case], processes: int) -> Outcome:
    """Run *cases* in *processes*; progress goes to stderr."""
    if processes == 1:
        return _collect(len(cases), map(_run, cases))
    with ProcessPoolExecutor(processes) as pool:
        return _collect(len(cases), pool.map(_run, cases, chunksize=4))


def _collect(n_cases: int, found: Iterable[Change | str | None]) -> Outcome:
    outcome = Outcome(n_cases, [], [])
    for number, each in enumerate(found, 1):
        if isinstance(each, str):
            outcome.refused.append(each)
        elif each is not None:
            outcome.changes.append(each)
        if number % 50 == 0 or number == n_cases:
            print(f"{number} of {n_cases} cases, {len(outcome.changes)} changed", file=sys.stderr)
    return outcome


def text(outcome: Outcome) -> str:
    lines = [f"{each}" for each in outcome.refused]
    for change in outcome.changes:
        alone, beside = change.latency_ps
        lines.append(f"{change.case}: {change.n_changed} of {change.n_records} records changed, {alone} -> {beside} ps")
        lines.append(f"    first {change.first}")
    lines.append(f"{outcome.n_cases} cases, {len(outcome.refused)} refused, {len(outcome.changes)} changed")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=500, help="how many random chips of one PE (default: 500)")
    parser.add_argument("--processes", type=int, default=2, help="how many processes (default: 2)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    outcome = run_all([*bundled_cases(), *random_cases(options.cases)], options.processes)
    if options.json:
        changes = [change._asdict() for change in outcome.changes]
        print(json.dumps({**outcome._asdict(), "changes": changes}, indent=2))
    else:
        print(text(outcome))
    return 1 if outcome.changes or outcome.refused else 0


if __name__ == "__main__":
    sys.exit(main())
