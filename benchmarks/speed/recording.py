"""The cost of recording causes: pass 1 with an op log, with and without the rows of `transfers` and `dispatches`.

    python benchmarks/speed/recording.py               # four GEMMs, five rounds in turns: a minute
    python benchmarks/speed/recording.py --quick       # a round of each
    python benchmarks/speed/recording.py --million     # the run that looking.py looks at: two minutes
    python benchmarks/speed/recording.py --million --rounds 50    # ten minutes: fewer rounds scatter too much
    python benchmarks/speed/recording.py --million --inside       # time inside the code that records: half a minute

Each run has a process of its own. Seconds are the median CPU time of the rounds, from the kernel's call to the closed
log, event by event unless `--exact isolated` is given. Without recording, the fabric makes no rows of transfers and the
feeders none of dispatches. `95 %` is the interval that holds the added share in 95 of 100 drawings: each drawing takes
as many rounds as there are, some of them twice.

With `--inside`, a run that records measures on the clock how long it is inside the code that makes these rows. The
share is an upper bound: reading the clock twice a call is part of it, and so is the work of a write in any case.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from collections.abc import Callable
from inspect import isfunction
from pathlib import Path
from runpy import run_path
from statistics import median
from typing import Any, Literal

CHECKOUT = Path(__file__).parents[2]
Case = tuple[str, str, str]
Exact = Literal["events", "isolated"]
CASES: tuple[Case, ...] = (
    ("one_pe", "replicated", "3072x3072x3072"),
    ("one_cube", "replicated", "2048x2048x2048"),
    ("one_sip", "replicated", "2048x2048x2048"),
    ("one_cube", "one_slice", "2048x2048x2048"),
)
"""(topology, operands, M x N x K). Tiles are 128 x 128 x 128, f16."""
MILLION: Case = ("one_cube", "replicated", "8192x12288x5120")


def simulate(topology: str, operands: str, shape: str, exact: Exact, records: bool) -> float:
    """CPU seconds of pass 1."""
    import numpy as np

    from kb_dataexec import MemoryLogWriter
    from kb_engine import Engine, Host, TileShape
    from kb_engine.engine import build
    from kb_engine.observe.recorder import Recorder
    from kb_topology import load_topology

    if not records:
        build.TransferRows = lambda *_: None  # type: ignore[assignment, misc]
        begin = Recorder.__init__

        def without_dispatches(self: Recorder, *arguments: Any) -> None:
            begin(self, *arguments)
            self.tile_waited = lambda _: None

        Recorder.__init__ = without_dispatches  # type: ignore[method-assign]
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


class Inside:
    """Seconds on the clock inside calls that `timed` wrapped. Calls from one to another count once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._is_inside = False

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if self._is_inside:
                return function(*arguments, **named)
            self._is_inside = True
            began = time.perf_counter()
            try:
                return function(*arguments, **named)
            finally:
                self.seconds += time.perf_counter() - began
                self._is_inside = False

        return call


def share_inside(case: Case, exact: Exact) -> float:
    """The share of pass 1 inside the code that makes rows of `transfers` and `dispatches`, at most."""
    from kb_engine.fabric.lazy_reads import LazyTransfers
    from kb_engine.fabric.transfer_rows import TransferRows, WatchedWrite
    from kb_engine.observe.recorder import Recorder

    inside = Inside()
    for recording in (TransferRows, WatchedWrite, LazyTransfers):
        for name, method in list(vars(recording).items()):
            if isfunction(method):
                setattr(recording, name, inside.timed(method))
    begin = Recorder.__init__

    def with_timed_dispatches(self: Recorder, *arguments: Any) -> None:
        begin(self, *arguments)
        self.tile_waited = inside.timed(self.tile_waited)

    Recorder.__init__ = with_timed_dispatches  # type: ignore[method-assign]
    took = simulate(*case, exact, records=True)
    return inside.seconds / took


def in_its_own_process(case: Case, exact: Exact, what: str) -> float:
    """CPU seconds of pass 1 `with` rows or `without`, or the share `inside` the code that makes them."""
    command = [sys.executable, __file__, "--one", *case, exact, what]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def added(rounds: list[tuple[float, float]]) -> float:
    """The share of pass 1 that recording adds, from CPU seconds (without, with) of each round."""
    without, recorded = (median(column) for column in zip(*rounds, strict=True))
    return recorded / without - 1


def interval(rounds: list[tuple[float, float]]) -> tuple[float, float]:
    """The interval of `added` over 95 of 100 drawings of the rounds (percentile bootstrap)."""
    draw = random.Random(0)
    shares = sorted(added(draw.choices(rounds, k=len(rounds))) for _ in range(2000))
    return shares[50], shares[-51]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--million", action="store_true", help="the run of a million records alone")
    parser.add_argument("--inside", action="store_true", help="the share of time inside the code that records")
    parser.add_argument("--exact", choices=("events", "isolated"), default="events", help="isolated: as kb run does it")
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        *case, exact, what = options.one
        print(share_inside(case, exact) if what == "inside" else simulate(*case, exact, records=what == "with"))
        return
    if options.inside:
        for case in [MILLION] if options.million else CASES:
            share = in_its_own_process(case, options.exact, "inside")
            print(f"{case[0]:10}{case[1]:10}{case[2]:17}{share:8.1%} inside the code that records")
        return
    n_rounds = 1 if options.quick else options.rounds
    print(f"{'chip':10}{'operands':10}{'M x N x K':17}{'without':>10}{'with':>10}{'added':>9}{'95 %':>18}")
    for case in [MILLION] if options.million else CASES:
        rounds = []
        for number in range(n_rounds):
            without, recorded = (in_its_own_process(case, options.exact, what) for what in ("without", "with"))
            rounds.append((without, recorded))
            print(f"\r{case[0]} {case[1]}: round {number + 1} of {n_rounds}", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
        without, recorded = (median(column) for column in zip(*rounds, strict=True))
        spread = "{:.1%} to {:.1%}".format(*interval(rounds)) if n_rounds > 1 else "-"
        shape = f"{case[0]:10}{case[1]:10}{case[2]:17}"
        print(f"{shape}{without:8.3f} s{recorded:8.3f} s{added(rounds):8.1%}{spread:>18}")


if __name__ == "__main__":
    main()
