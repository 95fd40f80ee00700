"""The cost of the search for races that `kb run` makes by default: bundled benchmarks with it and without, in turns."""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from kb_cli.benchmark import bundled
from kb_cli.benchmark.load import load_benchmark
from kb_cli.benchmark.setup import Setup
from kb_cli.benchmark.values.params import build_params
from kb_cli.run.saving.save import run_unsaved
from kb_dataexec.analysis import RaceReport, RaceSearch
from kb_topology import load_topology

QUICK = ["vector_add", "gemm"]
LARGE = {"gemm": "M=2048 N=2048 K=2048", "vector_add": "N=4194304"}
"""Parameters of further runs, beside the defaults of all benchmarks."""


class Cost(NamedTuple):
    """CPU seconds of a run without the search, the ratio of a run with it, and the share of the search in that run."""

    without_s: float
    ratio: float
    share: float
    n_records: int
    said: str


class SearchTime:
    """Adds up the CPU seconds of the methods of RaceSearch.

    They run in one thread. Threads of a product that has just ended still spin meanwhile, and do not count.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        for name in ("look", "report"):
            setattr(RaceSearch, name, self._timed(getattr(RaceSearch, name)))

    def _timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **named: Any) -> Any:
            began = time.thread_time()
            try:
                return method(*args, **named)
            finally:
                self.seconds += time.thread_time() - began

        return timed


def run_of(setup: Setup) -> tuple[float, int, str]:
    """CPU seconds of a run, its records, and a word on its races. Stops for a wrong result and for a race."""
    gc.collect()
    began = time.process_time()
    result = run_unsaved(setup).result
    seconds = time.process_time() - began
    if result.verified is not True:
        raise SystemExit("the result is wrong, and the speed of a wrong answer means nothing")
    report = result.races
    if not isinstance(report, RaceReport):
        return seconds, result.ops, ""
    if report.races:
        raise SystemExit(f"{result.benchmark} races: {report.races[0]}")
    said = "left out" if report.left_out else "not decided" if report.undecided else "none"
    return seconds, result.ops, said


def cost_of(setup: Setup, rounds: int, search: SearchTime) -> Cost:
    """The cost of the search in runs of *setup*, by *rounds* pairs of runs after one that counts nothing."""
    run_of(setup)
    without, ratios, shares = [], [], []
    for _ in range(rounds):
        without.append(run_of(setup)[0])
        search.seconds = 0.0
        seconds, n_records, said = run_of(setup._replace(races=True))
        ratios.append(seconds / without[-1])
        shares.append(search.seconds / seconds)
    return Cost(*map(statistics.median, (without, ratios, shares)), n_records, said)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="two benchmarks, one round")
    parser.add_argument("--topology", default="one_cube")
    options = parser.parse_args()
    rounds, search = 1 if options.quick else options.rounds, SearchTime()
    chip = load_topology(bundled.find("topologies", options.topology))
    names = QUICK if options.quick else bundled.names("benchmarks")
    print(f"{'benchmark':48} {'records':>9} {'without':>9} {'with':>8} {'search':>8}  races")
    for name in names:
        loaded = load_benchmark(name)
        for text in ["", *([] if options.quick or name not in LARGE else [LARGE[name]])]:
            params = build_params(loaded.bench.Params, dict(each.split("=") for each in text.split()))
            found = cost_of(Setup(loaded, params, chip, seed=0, verify=True, log=True), rounds, search)
            print(
                f"{f'{name} {text}':48} {found.n_records:9,} {1000 * found.without_s:6.0f} ms {found.ratio - 1:+8.1%} "
                f"{found.share:8.1%}  {found.said}",
                flush=True,
            )


if __name__ == "__main__":
    main()
