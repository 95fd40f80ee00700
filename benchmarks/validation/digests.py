"""Did a change of the code change an op log? Prints the digests of all bundled runs and of random kernels, or compares.

    python benchmarks/validation/digests.py > before.json             # with the code as it was
    python benchmarks/validation/digests.py --against before.json     # with the code as it is

A digest covers every time, address and kernel line. A bundled benchmark whose lines moved has other digests therefore.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from random_kernels import TOPOLOGIES, run

BENCHMARKS = Path(__file__).parents[1]
SMALL = {
    "gemm": ("M=320", "N=300", "K=200", "dtype=f16"),
    "softmax": ("M=100", "N=96"),
}
"""Parameters that make a run quick and its tiles ragged; the other benchmarks are small as they are."""


def bundled(benchmarks: Path) -> Iterator[tuple[str, str]]:
    """(run, digest) of every benchmark on every topology; where kb refuses the run, its sentence is the digest."""
    for benchmark in sorted(benchmarks.glob("*.py")):
        for topology in sorted(TOPOLOGIES.glob("*.yaml")):
            params = [word for param in SMALL.get(benchmark.stem, ()) for word in ("-p", param)]
            chip = ["--topology", str(topology)]
            yield f"{benchmark.stem} on {topology.stem}", _digest([str(benchmark.resolve()), *chip, *params])


def _digest(arguments: list[str]) -> str:
    command = [sys.executable, "-c", "from kb_cli.main import main; main()", "run", *arguments]
    with tempfile.TemporaryDirectory() as folder:
        options = ["--json", "--keep", "none", "--no-verify"]
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=False, cwd=folder)
    return json.loads(done.stdout)["log_digest"] if done.returncode == 0 else done.stderr.strip()


def digests(benchmarks: Path, n_random: int) -> Iterator[tuple[str, str]]:
    """(run, digest) of the bundled runs, then of *n_random* random kernels."""
    yield from bundled(benchmarks)
    for seed in range(n_random):
        yield f"random kernel {seed}", str(run(seed).digest)


def differences(found: dict[str, str], before: dict[str, str]) -> list[str]:
    """A sentence for each run whose digest differs, or that is on one side alone."""
    names = sorted(found.keys() | before.keys())
    return [
        f"{name}: got {found.get(name, 'no run')}, before {before.get(name, 'no run')}"
        for name in names
        if found.get(name) != before.get(name)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="digests to compare with, as this script printed them")
    parser.add_argument("--random", type=int, default=300, help="how many random kernels (default: 300)")
    parser.add_argument("--benchmarks", type=Path, default=BENCHMARKS, help="take the benchmark files of this folder")
    options = parser.parse_args()
    found = dict(digests(options.benchmarks, options.random))
    if options.against is None:
        print(json.dumps(found, indent=0))
        return 0
    wrong = differences(found, json.loads(options.against.read_text(encoding="utf-8")))
    print("\n".join([*wrong, f"{len(found)} runs, {len(wrong)} differ"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
