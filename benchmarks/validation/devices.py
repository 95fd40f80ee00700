"""Does every bundled benchmark run on every device, with results that are right? See README.md.

    python benchmarks/validation/devices.py                   # all of them: many minutes; also `nox -s devices`
    python benchmarks/validation/devices.py wormhole v100     # some devices

Exit code 1: a run is refused, or its result is wrong.
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
from typing import Final, NamedTuple

import measured
from digests import SMALL

BENCHMARKS: Final = sorted(Path(__file__).parents[1].glob("*.py"))
BLOCKS: Final = {
    "attention": ("block=64", "block_k=64"),
    "cross_entropy": ("words=1000",),
    "decode_gemv": ("block_n=64", "block_k=200"),
    "int8_gemm": ("M=250", "block_m=64", "block_n=96", "block_k=128"),
    "linear": ("M=250", "block_m=64", "block_n=96", "block_k=64"),
    "mixture_of_experts": ("block_m=48", "block_n=64", "block_k=64"),
}
"""Blocks of benchmarks whose own ones are made for TCMs of a MiB. A multiprocessor of a GPU has room for these."""


class DeviceRun(NamedTuple):
    """A benchmark on a device, `ok` or the error, and the seconds of the run."""

    device: str
    benchmark: str
    outcome: str
    wall_s: float


def runs(devices: Sequence[str]) -> Iterator[DeviceRun]:
    """Every benchmark on each of *devices*, in a process of its own."""
    for device in devices:
        for benchmark in BENCHMARKS:
            began = time.perf_counter()
            outcome = _outcome(benchmark, measured.TOPOLOGIES / f"{device}.yaml")
            yield DeviceRun(device, benchmark.stem, outcome, time.perf_counter() - began)


def _outcome(benchmark: Path, topology: Path) -> str:
    chosen = (*SMALL.get(benchmark.stem, ()), *BLOCKS.get(benchmark.stem, ()))
    params = [word for param in chosen for word in ("-p", param)]
    command = [sys.executable, "-c", "from kb_cli.main import main; main()", "run", str(benchmark.resolve()), *params]
    with tempfile.TemporaryDirectory() as folder:
        options = ["--topology", str(topology.resolve()), "--json", "--keep", "none"]
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        return done.stderr.strip() or f"exit code {done.returncode}"
    return "ok" if json.loads(done.stdout)["verified"] else "not verified"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print each outcome, and say by the exit code whether all are right."""
    known = sorted(path.stem for path in measured.TOPOLOGIES.glob("*.yaml"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("devices", nargs="*", metavar="DEVICE", help=f"of {', '.join(known)} (default: all)")
    chosen = parser.parse_args(arguments).devices or known
    if unknown := sorted(set(chosen) - set(known)):
        print(f"devices: got {', '.join(unknown)}, needs some of {', '.join(known)}", file=sys.stderr)
        return 2
    n_wrong = 0
    for run in runs(chosen):
        n_wrong += run.outcome != "ok"
        print(f"{run.device:12}{run.benchmark:20}{run.wall_s:7.1f} s  {run.outcome}", flush=True)
    print(f"{n_wrong} wrong")
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
