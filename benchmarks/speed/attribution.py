"""Where the time of about a million records went: CPU seconds and peak memory of `kb_dataexec.analysis.where`.

    python benchmarks/speed/attribution.py                    # four GEMMs of 0.9 to 1.0 million records: five minutes
    python benchmarks/speed/attribution.py --case one_pe      # one of them
    python benchmarks/speed/attribution.py --against ../other # in turns with the code of another checkout
    python benchmarks/speed/attribution.py --quick            # an eighth of the records, one round

A GEMM of 7680 x 7680 x 7680, f16, in tiles of 128 x 128 x 128: on one PE, whose path is the whole log; on 8 PEs and on
128 PEs, whose own views are; and on 128 PEs that compete for one A and one B, whose paths go from PE to PE. The run is
made once. Each round is a process of its own, which has a peak of its own. Target: 3 s and 1 GB for a million records.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path
from time import process_time
from typing import NamedTuple

CHECKOUT = Path(__file__).parents[2]
SIDE, QUICK_SIDE, TILE = 7680, 3840, "128x128x128"
CASES = {
    "one_pe": ("one_pe", "replicated"),
    "one_cube": ("one_cube", "replicated"),
    "one_sip": ("one_sip", "replicated"),
    "one_sip, shared": ("one_sip", "one_slice"),
}
"""Topology and operands by the name of a case."""


class Round(NamedTuple):
    """One process: `records` of the log, and `segments` of the launch's path. `cpu_s` is the CPU time of where() alone.

    `log_mb` is the peak of resident memory after the log was read, `peak_mb` the same after where(), in 10^6 bytes.
    `walk_mb` is the peak of the bytes that where() itself allocates, 0 in a round that measures time.
    """

    records: int
    segments: int
    cpu_s: float
    log_mb: float
    peak_mb: float
    walk_mb: float


def make_run(folder: Path, case: str, side: int) -> Path:
    """The op log of a run of *case* in *folder*."""
    topology, operands = CASES[case]
    kb = Path(sys.executable).with_name("kb")
    sizes = [text for name in "MNK" for text in ("-p", f"{name}={side}")]
    options = ["-p", f"tile={TILE}", "-p", "dtype=f16", "-p", f"operands={operands}", "--topology", topology]
    command = [str(kb), "run", "gemm", *sizes, *options, "--no-verify", "--keep", "all", "--out", str(folder), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return Path(json.loads(done.stdout)["run_dir"]) / "log"


def measure(log_folder: Path, traced: bool) -> Round:
    """One round in this process."""
    from kb_dataexec import read_log
    from kb_dataexec.analysis import where

    log = read_log(log_folder)
    log_mb = _resident_mb()
    gc.collect()
    if traced:
        tracemalloc.start()
    began = process_time()
    found = where(log)
    cpu_s = process_time() - began
    walk_mb = tracemalloc.get_traced_memory()[1] / 1e6 if traced else 0.0
    segments = sum(row.segments for launch in found.launches for row in launch.rows)
    return Round(log.n_ops, segments, cpu_s, log_mb, _resident_mb(), walk_mb)


def _resident_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def run(checkout: Path, log_folder: Path, traced: bool = False) -> Round:
    """One round in a process with kb-dataexec and kb-messages of *checkout*."""
    command = [sys.executable, __file__, "--log", str(log_folder), *(["--traced"] if traced else [])]
    sources = [str(checkout / "packages" / name / "src") for name in ("kb-dataexec", "kb-messages")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sources)}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return Round(*json.loads(done.stdout))


def measure_case(case: str, checkouts: list[Path], side: int, rounds: int) -> None:
    """Prints a row for each of *checkouts*, which run in turns. Seconds are the best of the rounds."""
    with tempfile.TemporaryDirectory() as place:
        log_folder = make_run(Path(place), case, side)
        found: dict[Path, list[Round]] = {checkout: [] for checkout in checkouts}
        for _ in range(rounds):
            for checkout, results in found.items():
                results.append(run(checkout, log_folder))
        for checkout, results in found.items():
            best = min(results, key=lambda each: each.cpu_s)
            walk_mb = run(checkout, log_folder, traced=True).walk_mb
            print(
                f"{case:16}{checkout.name:12}{best.records:>9}{best.segments:>10}{best.cpu_s:>9.2f} s"
                f"{best.cpu_s / best.records * 1e6:>11.2f}{best.log_mb:>9.0f} MB{best.peak_mb:>9.0f} MB"
                f"{walk_mb:>9.0f} MB",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=CASES, action="append", help="one of the cases; may be given several times")
    parser.add_argument(
        "--against", type=Path, help="another checkout, whose kb-dataexec runs in turns with this one's"
    )
    parser.add_argument("--quick", action="store_true", help="an eighth of the records, one round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--log", type=Path, help="one round on this op log, printed as JSON")
    parser.add_argument("--traced", action="store_true", help="count the bytes that where() allocates, in that round")
    options = parser.parse_args()
    if options.log:
        print(json.dumps(measure(options.log, options.traced)))
        return
    checkouts = [CHECKOUT] + ([options.against.resolve()] if options.against else [])
    print(
        f"{'case':16}{'checkout':12}{'records':>9}{'segments':>10}{'CPU':>11}{'s/million':>11}{'log':>12}{'peak':>12}{'walk':>12}"
    )
    for case in options.case or CASES:
        side, rounds = (QUICK_SIDE, 1) if options.quick else (SIDE, options.rounds)
        measure_case(case, checkouts, side, rounds)


if __name__ == "__main__":
    main()
