"""The gain of skipping tiles in steady state: products on one PE with it and event by event, CPU time of pass 1.

    python benchmarks/speed/folding.py                       # two large products and 104 shapes, three rounds: minutes
    python benchmarks/speed/folding.py --quick               # one large product and every eighth shape, one round
    python benchmarks/speed/folding.py --against ../other    # in turns with the code of another checkout

Without `--against`, the other side is `Engine(exact="events")`. The two sides run in turns, each in a process of its
own. A large product is timed with and without an op log in memory, from the kernel's call to the closed log. A shape is
timed without a log, or with `--log` with one, in the tiles that the scheduler of this checkout chooses, or with
`--cubes` in tiles of 128 x 128 x 128. A launch of another shape has warmed the process up. The script refuses sides
that end at different picoseconds.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

CHECKOUT = Path(__file__).parents[2]
LARGE = ((4096, 4096, 4096), (8192, 8192, 8192))
TILE = (128, 128, 128)
LONG = 10_000
"""Stages from which on a product is long."""


class Case(NamedTuple):
    """M, N and K, and the tile, on a fresh engine. `log` says whether there is an op log."""

    sizes: tuple[int, int, int]
    tile: tuple[int, int, int]
    log: bool = False
    is_large: bool = False


class Figure(NamedTuple):
    """A case, its stages, and the median CPU seconds of the other side and of this one, and of their ratio."""

    case: Case
    stages: int
    before_s: float
    after_s: float
    gain: float


def simulate(case: Case, skips: bool) -> dict[str, Any]:
    """Run *case* with the packages of this interpreter."""
    from kb_dataexec import MemoryLogWriter
    from kb_engine import DType, Engine, Host, TileShape
    from kb_topology import load_topology

    def kernel(tl: Any, a: Any, b: Any, c: Any) -> None:
        tl.wait(tl.composite("gemm", a, b, out=c, tile=TileShape(*case.tile)))

    options: dict[str, Any] = {} if skips else {"exact": "events"}
    topology = load_topology(CHECKOUT / "topologies/one_pe.yaml")
    engine = Engine(topology, MemoryLogWriter() if case.log else None, **options)
    host = Host(engine, CHECKOUT / "benchmarks")
    m, n, k = case.sizes
    shapes = {"a": (m, k), "b": (k, n), "c": (m, n)}
    operands = [host.empty(name, shape, DType.F16) for name, shape in shapes.items()]
    gc.collect()
    began = time.process_time()
    result = host.launch(kernel, *operands)
    engine.close_log()
    cpu_s = time.process_time() - began
    stages = sum(server.served for server in engine.servers)
    return {"cpu_s": cpu_s, "latency_ps": result.end_ps - result.start_ps, "stages": stages}


class Side:
    """A process that simulates with the code of *checkout*."""

    def __init__(self, checkout: Path, skips: bool) -> None:
        python = sys.executable if checkout == CHECKOUT else str(checkout / ".venv/bin/python")
        command = [python, __file__, "--child", *([] if skips else ["--events"])]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, case: Case) -> dict[str, Any]:
        """Returns the result of `simulate`. Raises RuntimeError when the process has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(case), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{case}: the process ended")
        found: dict[str, Any] = json.loads(answer)
        return found

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def measure(case: Case, sides: tuple[Side, Side], rounds: int) -> Figure:
    """*case* on both sides, in turns. Raises RuntimeError when they end at different picoseconds."""
    found = [[side.run(case) for side in sides] for _ in range(rounds)]
    if len({each["latency_ps"] for pair in found for each in pair}) > 1:
        raise RuntimeError(f"{case}: got different latencies, needs equal ones: {found[0]}")
    seconds = [[each["cpu_s"] for each in pair] for pair in found]
    before_s, after_s = (median(pair[number] for pair in seconds) for number in (0, 1))
    return Figure(case, found[0][1]["stages"], before_s, after_s, median(before / after for before, after in seconds))


def shapes(log: bool, is_cubes: bool) -> list[Case]:
    """The distinct products of published model configurations, and odd ones, of `benchmarks/validation/tiles.py`."""
    sys.path.insert(0, str(CHECKOUT / "benchmarks/validation"))
    from tiles import command_of, products, scheduler_of_one_pe

    from kb_plans import suggest_tile

    scheduler = scheduler_of_one_pe()
    found = []
    for sizes, product in {(each.m, each.n, each.k): each for each in products()}.items():
        chosen = suggest_tile(command_of(product), scheduler.tile_room, scheduler.tile_costs)
        found.append(Case(sizes, TILE if is_cubes else (chosen.m, chosen.n, chosen.k), log))
    return found


def row(figure: Figure) -> str:
    """A line of the report."""
    sizes = " x ".join(map(str, figure.case.sizes)) + (", log" if figure.case.log else "")
    times = f"{1000 * figure.before_s:10.1f} {1000 * figure.after_s:8.1f}"
    return f"{sizes:28} {figure.stages:9} {times} {figure.gain:8.2f}"


def summary(name: str, figures: list[Figure]) -> str:
    """The gains of some shapes, in a line."""
    gains = [each.gain for each in figures]
    whole = sum(each.before_s for each in figures) / sum(each.after_s for each in figures)
    spread = f"median {median(gains):.2f}, {min(gains):.2f} to {max(gains):.2f}"
    return f"{name}: {len(gains)} shapes, together {whole:.2f}, {spread}"


def report(figures: list[Figure]) -> str:
    """A line for each case, and the gains of the shapes by length."""
    lines = [f"{'product':28} {'stages':>9} {'before ms':>10} {'after ms':>8} {'gain':>8}", *map(row, figures)]
    small = [each for each in figures if not each.case.is_large]
    groups = {
        "all": small,
        "10^4 stages and more": [each for each in small if each.stages >= LONG],
        "below 10^3 stages": [each for each in small if each.stages < LONG // 10],
    }
    return "\n".join([*lines, *(summary(name, group) for name, group in groups.items() if group)])


def main() -> None:
    """Measures the cases of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one large product and every eighth shape, one round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--against", type=Path, help="another checkout, with its packages in .venv")
    parser.add_argument("--log", action="store_true", help="shapes with an op log in memory")
    parser.add_argument("--cubes", action="store_true", help="shapes in tiles of 128 x 128 x 128")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--events", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        for line in sys.stdin:
            print(json.dumps(simulate(Case(*json.loads(line)), skips=not options.events)), flush=True)
        return
    other = CHECKOUT if options.against is None else options.against.resolve()
    sides = Side(other, skips=options.against is not None), Side(CHECKOUT, skips=True)
    for side in sides:
        side.run(Case((256, 256, 256), TILE, log=True))
    sizes = LARGE[: 1 if options.quick else 2]
    large = [Case(each, TILE, log, is_large=True) for each in sizes for log in (False, True)]
    cases = [*large, *shapes(options.log, options.cubes)[:: 8 if options.quick else 1]]
    rounds = 1 if options.quick else options.rounds
    print(report([measure(case, sides, rounds) for case in cases]))
    for side in sides:
        side.close()


if __name__ == "__main__":
    main()
