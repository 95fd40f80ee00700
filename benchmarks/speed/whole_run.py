"""The cost of a verified run, part by part, beside a plain float32 product of the same size in the same process."""

from __future__ import annotations

import argparse
import gc
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from kb_cli.benchmark import bundled
from kb_cli.benchmark.load import load_benchmark
from kb_cli.benchmark.run_records import CheckMode
from kb_cli.benchmark.setup import Setup
from kb_cli.benchmark.values.params import build_params
from kb_cli.run.base.progress import PASS_2, RunProgress
from kb_cli.run.base.result import Policy
from kb_cli.run.saving.save import record_run
from kb_topology import load_topology


class Case(NamedTuple):
    """A GEMM of m x k by k x n on a chip. `whole` and `data` are the aims for the whole run and for pass 2, as
    multiples of the plain product; None where there is none."""

    chip: str
    m: int
    n: int
    k: int
    whole: float | None
    data: float


CASES = [Case("four_sip", 4096, 14336, 4096, 4.0, 1.5), Case("one_pe", 4096, 4096, 4096, None, 1.2)]
QUICK = [Case("one_cube", 512, 1024, 512, 4.0, 1.5), Case("one_pe", 512, 512, 512, None, 1.2)]
EXECUTING = f"{PASS_2}: the ops"
"""The part that the aim for pass 2 is about: reading the log and asking where the time went are parts of their own."""


class PartTimes(RunProgress):
    """Adds up the CPU seconds of this process between the calls by which a run reports its progress."""

    def __init__(self, seconds: Callable[[], float] = time.process_time) -> None:
        super().__init__()
        self.parts: dict[str, float] = {}
        self._cpu = seconds
        self._part, self._since = "", seconds()

    def begin(self, phase: str, what: str = "") -> None:
        """Begins the part of a run that the progress names."""
        self.close(f"{phase}: {what or 'the ops'}")
        super().begin(phase, what)

    def mention(self, phase: str, what: str) -> None:
        """Does nothing with a remark of the progress."""
        self.close(f"{phase}: {what}")
        super().mention(phase, what)

    def close(self, following: str = "") -> None:
        """Ends the running part, and begins the part *following*."""
        now = self._cpu()
        if self._part:
            self.parts[self._part] = self.parts.get(self._part, 0.0) + now - self._since
        self._part, self._since = following, now


def plain_s(case: Case) -> float:
    """CPU seconds of one float32 product of the size of *case*."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((case.m, case.k), np.float32)
    b = rng.standard_normal((case.k, case.n), np.float32)
    gc.collect()
    began = time.process_time()
    a @ b
    return time.process_time() - began


def parts_of(case: Case, check: str) -> dict[str, float]:
    """CPU seconds of the parts of one run of `benchmarks/gemm.py` in a folder of its own.

    *check* is a value of `--verify`, or `none`. Stops for a wrong result.
    """
    loaded = load_benchmark("gemm")
    sizes = {"M": str(case.m), "N": str(case.n), "K": str(case.k)}
    params = build_params(loaded.bench.Params, sizes)
    topology = load_topology(bundled.find("topologies", case.chip))
    verify = check != "none"
    setup = Setup(
        loaded, params, topology, seed=0, verify=verify, log=True, check=CheckMode(check if verify else "auto")
    )
    gc.collect()
    with tempfile.TemporaryDirectory() as folder, PartTimes() as times:
        place = Path(folder) / "run"
        result = record_run((place, place), setup, Policy.NONE, times).result
        times.close()
    if verify and result.verified is not True:
        raise SystemExit("the result is wrong, and the speed of a wrong answer means nothing")
    return times.parts


def peak_mib() -> float:
    """The largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def show(case: Case, plain: float, parts: dict[str, float]) -> None:
    total = sum(parts.values())
    print(f"{case.chip}, {case.m} x {case.n} x {case.k}: plain float32 product {plain:.2f} s of CPU")
    for part, seconds in sorted(parts.items(), key=lambda item: -item[1]):
        print(f"  {part:44} {seconds:8.2f} s  {seconds / plain:6.2f}")
    aim = "" if case.whole is None else f", aim {case.whole:g}"
    print(f"  {'the whole run':44} {total:8.2f} s  {total / plain:6.2f}{aim}")
    print(f"  {'pass 2 alone':44} {parts.get(EXECUTING, 0.0):8.2f} s  {parts.get(EXECUTING, 0.0) / plain:6.2f}", end="")
    print(f", aim {case.data:g}; peak of the process {peak_mib():.0f} MiB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="small products, one round")
    parser.add_argument("--case", choices=[case.chip for case in CASES], help="one of the two runs")
    parser.add_argument(
        "--verify", choices=[*CheckMode, "none"], default="auto", help="as for kb run; none: pass 1 alone"
    )
    options = parser.parse_args()
    rounds = 1 if options.quick else options.rounds
    for case in QUICK if options.quick else [case for case in CASES if options.case in (None, case.chip)]:
        plain, runs = [], []
        for _ in range(rounds):
            plain.append(plain_s(case))
            runs.append(parts_of(case, options.verify))
        medians = {part: statistics.median(run[part] for run in runs) for part in runs[0]}
        show(case, statistics.median(plain), medians)


if __name__ == "__main__":
    main()
