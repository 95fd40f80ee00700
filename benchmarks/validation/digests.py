"""Did a change of the code change an op log? Prints the digests of all bundled runs and of random kernels, or compares.

    python benchmarks/validation/digests.py > before.json             # with the code as it was
    python benchmarks/validation/digests.py --against before.json     # with the code as it is

A digest covers every time, address and kernel line. A bundled benchmark whose lines moved has other digests therefore.
The comparison also lists the bundled runs whose latency changed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from random_kernels import TOPOLOGIES, run

BENCHMARKS = Path(__file__).parents[1]
SMALL = {
    "gemm": ("M=320", "N=300", "K=200", "dtype=f16"),
    "softmax": ("M=100", "N=96"),
}
"""Parameters that make a run quick and its tiles ragged; the other benchmarks are small as they are."""


class Result(NamedTuple):
    """The result of a run. Where kb refuses the run, the error's text is the digest. Random kernels have no latency."""

    digest: str
    latency_ps: int | None


def bundled(benchmarks: Path) -> Iterator[tuple[str, Result]]:
    """(run, result) of every benchmark on every topology."""
    for benchmark in sorted(benchmarks.glob("*.py")):
        for topology in sorted(TOPOLOGIES.glob("*.yaml")):
            params = [word for param in SMALL.get(benchmark.stem, ()) for word in ("-p", param)]
            chip = ["--topology", str(topology)]
            yield f"{benchmark.stem} on {topology.stem}", _result([str(benchmark.resolve()), *chip, *params])


def _result(arguments: list[str]) -> Result:
    command = [sys.executable, "-c", "from kb_cli.main import main; main()", "run", *arguments]
    with tempfile.TemporaryDirectory() as folder:
        options = ["--json", "--keep", "none", "--no-verify"]
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        return Result(done.stderr.strip(), None)
    report = json.loads(done.stdout)
    return Result(report["log_digest"], report["latency_ps"])


def results(benchmarks: Path, n_random: int) -> Iterator[tuple[str, Result]]:
    """(run, result) of the bundled runs, then of *n_random* random kernels."""
    yield from bundled(benchmarks)
    for seed in range(n_random):
        yield f"random kernel {seed}", Result(str(run(seed).digest), None)


def read_results(path: Path) -> dict[str, Result]:
    """The results that this script printed into *path*. Raises OSError, and ValueError for other contents."""
    read = json.loads(path.read_text(encoding="utf-8"))
    try:
        return {name: Result(*each) for name, each in read.items()}
    except (AttributeError, TypeError):
        raise ValueError("no [digest, latency_ps] for each run") from None


def differences(found: dict[str, Result], before: dict[str, Result]) -> list[str]:
    """A sentence for each run whose digest differs, or that is on one side alone."""
    none = Result("no run", None)
    names = sorted(found.keys() | before.keys())
    return [
        f"{name}: got {found.get(name, none).digest}, before {before.get(name, none).digest}"
        for name in names
        if found.get(name, none).digest != before.get(name, none).digest
    ]


def latency_changes(found: dict[str, Result], before: dict[str, Result]) -> list[str]:
    """A sentence for each run of both sides whose latency differs, in nanoseconds."""
    sentences = []
    for name in sorted(found.keys() & before.keys()):
        now, was = found[name].latency_ps, before[name].latency_ps
        if now is not None and was is not None and now != was:
            change = 100 * (now / was - 1)
            sentences.append(f"{name}: latency {was / 1000:.3f} -> {now / 1000:.3f} ns ({change:+.3f} %)")
    return sentences


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="results that this script has printed, to compare with")
    parser.add_argument("--random", type=int, default=300, help="how many random kernels (default: 300)")
    parser.add_argument("--benchmarks", type=Path, default=BENCHMARKS, help="take the benchmark files of this folder")
    options = parser.parse_args()
    before: dict[str, Result] = {}
    if options.against is not None:
        try:
            before = read_results(options.against)
        except (OSError, ValueError) as error:
            print(f"{options.against}: got {error}, needs what this script printed", file=sys.stderr)
            return 2
    found = dict(results(options.benchmarks, options.random))
    if options.against is None:
        print(json.dumps(found, indent=0))
        return 0
    wrong, latencies = differences(found, before), latency_changes(found, before)
    print("\n".join([*wrong, *latencies, f"{len(latencies)} latencies changed"]))
    print(f"{len(found)} runs, {len(wrong)} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
