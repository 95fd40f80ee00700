"""What it costs to record why: pass 1 with an op log, with and without the rows of `transfers` and `dispatches`.

    python benchmarks/speed/recording.py               # four GEMMs, five rounds in turns: a minute
    python benchmarks/speed/recording.py --quick       # a round of each
    python benchmarks/speed/recording.py --million     # the run that looking.py looks at: two minutes
    python benchmarks/speed/recording.py --million --rounds 50    # ten minutes: fewer rounds scatter too much

Each run has a process of its own. Seconds are the median CPU time of the rounds, from the kernel's call to the closed
log, event by event unless `--exact closed` is given. Without recording, the fabric makes no rows of transfers and the
feeders none of dispatches. `95 %` is the interval that holds the added share in 95 of 100 drawings: each drawing takes
as many rounds as there are, some of them twice.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from pathlib import Path
from runpy import run_path
from statistics import median
from typing import Any, Literal

CHECKOUT = Path(__file__).parents[2]
Case = tuple[str, str, str]
Exact = Literal["events", "closed"]
CASES: tuple[Case, ...] = (
    ("one_pe", "local", "3072x3072x3072"),
    ("one_cube", "local", "2048x2048x2048"),
    ("one_sip", "local", "2048x2048x2048"),
    ("one_cube", "shared", "2048x2048x2048"),
)
"""(topology, operands, M x N x K). Tiles are 128 x 128 x 128, f16."""
MILLION: Case = ("one_cube", "local", "8192x12288x5120")


def simulate(topology: str, operands: str, shape: str, exact: Exact, records: bool) -> float:
    """CPU seconds of pass 1."""
    import numpy as np

    from kb_dataexec import MemoryLogWriter
    from kb_engine import Engine, Host, TileShape
    from kb_engine.engine import build
    from kb_engine.observe.run_tables import RunTables
    from kb_topology import load_topology

    if not records:
        build.TransferRows = lambda *_: None  # type: ignore[assignment, misc]
        begin = RunTables.__init__

        def without_dispatches(self: RunTables, *arguments: Any) -> None:
            begin(self, *arguments)
            self.tile_waited = lambda _: None

        RunTables.__init__ = without_dispatches  # type: ignore[method-assign]
    engine = Engine(load_topology(CHECKOUT / f"topologies/{topology}.yaml"), MemoryLogWriter(), exact=exact)
    host = Host(engine, CHECKOUT / "benchmarks")
    gemm = run_path(str(CHECKOUT / "benchmarks/gemm.py"))["Gemm"]()
    m, n, k = map(int, shape.split("x"))
    params = gemm.Params(M=m, N=n, K=k, tile=TileShape(128, 128, 128), operands=operands)
    inputs = gemm.inputs(params, np.random.default_rng(0))
    launch, took = host.launch, []

    def timed(*arguments: Any, **named: Any) -> Any:
        began = time.process_time()
        result = launch(*arguments, **named)
        engine.close_log()
        took.append(time.process_time() - began)
        return result

    host.launch = timed  # type: ignore[method-assign]
    gemm.launch(host, params, inputs)
    return took[0]


def seconds(case: Case, exact: Exact, records: bool) -> float:
    """`simulate` in a process of its own."""
    command = [sys.executable, __file__, "--one", *case, exact, str(int(records))]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def added(rounds: list[tuple[float, float]]) -> float:
    """The share of pass 1 that recording adds, from CPU seconds (without, with) of each round."""
    without, recorded = (median(column) for column in zip(*rounds, strict=True))
    return recorded / without - 1


def interval(rounds: list[tuple[float, float]]) -> tuple[float, float]:
    """What `added` says of 95 of 100 drawings of the rounds (percentile bootstrap)."""
    draw = random.Random(0)
    shares = sorted(added(draw.choices(rounds, k=len(rounds))) for _ in range(2000))
    return shares[50], shares[-51]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--million", action="store_true", help="the run of a million records alone")
    parser.add_argument("--exact", choices=("events", "closed"), default="events", help="closed: as kb run does it")
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        topology, operands, shape, exact, records = options.one
        print(simulate(topology, operands, shape, exact, records == "1"))
        return
    n_rounds = 1 if options.quick else options.rounds
    print(f"{'chip':10}{'operands':10}{'M x N x K':17}{'without':>10}{'with':>10}{'added':>9}{'95 %':>18}")
    for case in [MILLION] if options.million else CASES:
        rounds = []
        for number in range(n_rounds):
            rounds.append((seconds(case, options.exact, False), seconds(case, options.exact, True)))
            print(f"\r{case[0]} {case[1]}: round {number + 1} of {n_rounds}", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
        without, recorded = (median(column) for column in zip(*rounds, strict=True))
        low, high = interval(rounds)
        spread = f"{low:.1%} to {high:.1%}" if len(rounds) > 1 else "-"
        shape = f"{case[0]:10}{case[1]:10}{case[2]:17}"
        print(f"{shape}{without:8.3f} s{recorded:8.3f} s{added(rounds):8.1%}{spread:>18}")


if __name__ == "__main__":
    main()
