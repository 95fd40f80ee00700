"""Does every bundled benchmark run on every bundled chip with its defaults, with right results? See README.md.

    python benchmarks/validation/devices.py                   # all of them: many minutes; also `nox -s devices`
    python benchmarks/validation/devices.py wormhole v100     # some chips
    python benchmarks/validation/devices.py --small           # small sizes, of which no block is a divisor

Exit code 1: a run is refused for another reason than a missing unit, or its result is wrong.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import measured
from digests import SMALL

BENCHMARKS: Final = sorted(Path(__file__).parents[1].glob("*.py"))
CHIPS: Final = {
    path.stem: path
    for folder in (measured.TOPOLOGIES.parent, measured.TOPOLOGIES)
    for path in sorted(folder.glob("*.yaml"))
}
REFUSED: Final = {
    ("u280_hbm", each.stem): ".pe_math, needs a wire to it"
    for each in BENCHMARKS
    if each.stem not in ("embedding", "gemm", "split_k_gemm")
}
"""By chip and benchmark, the unit that a kernel needs and the chip has not: u280_hbm has arrays for products alone."""


class DeviceRun(NamedTuple):
    """A benchmark on a chip, `ok` or the error, and the seconds of the run."""

    device: str
    benchmark: str
    outcome: str
    wall_s: float


def runs(chips: Sequence[str], small: bool) -> Iterator[DeviceRun]:
    """Every benchmark on each of *chips*, in a process of its own; with *small*, at sizes that no block divides."""
    for chip in chips:
        for benchmark in BENCHMARKS:
            began = time.perf_counter()
            outcome = _outcome(benchmark, CHIPS[chip], SMALL.get(benchmark.stem, ()) if small else ())
            refusal = REFUSED.get((chip, benchmark.stem))
            if refusal is not None:
                outcome = "ok" if refusal in outcome else f"not refused by {refusal!r}: {outcome}"
            yield DeviceRun(chip, benchmark.stem, outcome, time.perf_counter() - began)


def run_alone(benchmark: Path, topology: Path, chosen: Sequence[str], *options: str) -> tuple[dict[str, Any], str]:
    """The JSON of `kb run` of *benchmark* with the parameters *chosen*, in a process of its own, or the error of kb."""
    params = [word for param in chosen for word in ("-p", param)]
    command = [sys.executable, "-c", "from kb_cli.main import main; main()", "run", str(benchmark.resolve()), *params]
    with tempfile.TemporaryDirectory() as folder:
        options = ("--topology", str(topology.resolve()), "--json", "--keep", "none", *options)
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        return {}, done.stderr.strip() or f"exit code {done.returncode}"
    return json.loads(done.stdout), ""


def _outcome(benchmark: Path, topology: Path, chosen: Sequence[str]) -> str:
    found, error = run_alone(benchmark, topology, chosen)
    return error or ("ok" if found["verified"] else "not verified")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print each outcome, and say by the exit code whether all are right."""
    known = sorted(CHIPS)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("devices", nargs="*", metavar="CHIP", help=f"of {', '.join(known)} (default: all)")
    parser.add_argument("--small", action="store_true", help="small sizes, of which no block is a divisor")
    options = parser.parse_args(arguments)
    chosen = options.devices or known
    if unknown := sorted(set(chosen) - set(known)):
        print(f"devices: got {', '.join(unknown)}, needs some of {', '.join(known)}", file=sys.stderr)
        return 2
    n_wrong = 0
    for run in runs(chosen, options.small):
        n_wrong += run.outcome != "ok"
        print(f"{run.device:12}{run.benchmark:20}{run.wall_s:7.1f} s  {run.outcome}", flush=True)
    print(f"{n_wrong} wrong")
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
