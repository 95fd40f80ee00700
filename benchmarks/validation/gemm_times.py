"""How long does it take to simulate many GEMMs of a device? README.md describes the measurement.

    python benchmarks/validation/gemm_times.py                       # 125 GEMMs of an H100; the aim is two minutes
    python benchmarks/validation/gemm_times.py --shapes mixed
    python benchmarks/validation/gemm_times.py --topology a100 --gemms 25 --aim 30
    python benchmarks/validation/gemm_times.py --json

The GEMMs are the same every time. Those of the `grid` have sides of 256 to 4096 in bf16. The `mixed` ones divide by
nothing, or have a batch, few rows, many rows, or fp8 operands. Each line has the wall time and the CPU time. Exit code
1: the CPU time of all GEMMs, which on an idle machine is the wall time, is above the aim.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import cycle, islice, product
from typing import Any, Final

import measured
from gemm_runs import chip, simulate
from measured import MeasuredRow

from kb_messages import DType, KbError
from kb_topology import Topology

SIDES: Final = (256, 512, 1024, 2048, 4096)
AIM_S: Final = 120.0
SEED: Final = 125


def grid(_: Topology) -> Iterator[str]:
    """The params of all GEMMs whose sides are of SIDES, as tables of measured kernels have them."""
    for m, n, k in product(SIDES, SIDES, SIDES):
        yield f"M={m} N={n} K={k} dtype=bf16"


def mixed(topology: Topology) -> Iterator[str]:
    """The params of other GEMMs, without end: in turn ragged, of a batch, of few rows, of many rows, and narrow."""
    rng = random.Random(SEED)

    def near(low: int, high: int) -> int:
        """A length from *low* to *high*, as likely below their geometric mean as above."""
        return min(high, int(low * (high / low) ** rng.random()) | 1)

    narrow = "f8e4m3" if DType.F8E4M3 in _types(topology) else "f16"
    for kind in cycle(("ragged", "batched", "decode", "prefill", "narrow")):
        wide = rng.choice(("f16", "bf16"))
        if kind == "ragged":
            yield f"M={near(1, 4096)} N={near(1, 4096)} K={near(1, 8192)} dtype={wide}"
        elif kind == "batched":
            yield f"M={near(16, 1024)} N={near(16, 1024)} K={near(32, 512)} dtype={wide} batch={rng.randint(2, 96)}"
        elif kind == "decode":
            few, n, k = rng.choice((1, 2, 7, 16, 48)), 128 * rng.randint(8, 224), 128 * rng.randint(8, 112)
            yield f"M={few} N={n} K={k} dtype={wide}"
        elif kind == "prefill":
            yield f"M={near(1024, 8192)} N={128 * rng.randint(8, 64)} K={128 * rng.randint(8, 32)} dtype={wide}"
        else:
            yield f"M={near(64, 4096)} N={64 * rng.randint(4, 64)} K={64 * rng.randint(4, 64)} dtype={narrow}"


SETS: Final = {"grid": grid, "mixed": mixed}


def _types(topology: Topology) -> set[DType]:
    """The types of operands that the matrix units of *topology* name."""
    nodes = topology.graph.nodes.values()
    return {DType(name) for node in nodes for name in node.attrs.get("macs_per_cell", {})}


def runs(topology: Topology, shapes: Iterator[str]) -> Iterator[dict[str, Any]]:
    """Simulates each GEMM of *shapes*, and yields its params, its result, and the seconds of the simulation."""
    for params in shapes:
        pairs = dict(word.split("=") for word in params.split())
        began_s = time.process_time()
        compared = simulate(topology, MeasuredRow(topology.name, "gemm", pairs, 1.0, "us"))
        cpu_s, wall_s = time.process_time() - began_s, compared.wall_s
        yield {"params": params, "us": compared.simulated, "wall_s": wall_s, "cpu_s": cpu_s, "note": compared.note}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and say by the exit code whether the aim is met."""
    known = sorted(path.stem for path in measured.TOPOLOGIES.glob("*.yaml"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topology", default="h100", choices=known, metavar="NAME", help=f"of {', '.join(known)}")
    parser.add_argument("--shapes", default="grid", choices=list(SETS), help="which GEMMs (default: grid)")
    parser.add_argument("--gemms", type=int, default=125, metavar="N", help="how many (default: 125)")
    parser.add_argument("--aim", type=float, default=AIM_S, metavar="S", help="seconds of CPU time (default: 120)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    found = []
    try:
        topology = chip(options.topology)
        for each in runs(topology, islice(SETS[options.shapes](topology), options.gemms)):
            found.append(each)
            if not options.json:
                taken = f"{each['wall_s']:7.2f} s{each['cpu_s']:7.2f} s"
                print(f"{each['params']:48}{each['us']:11.2f} us{taken}  {each['note']}", flush=True)
    except KbError as error:
        print(f"{options.topology}: {error}", file=sys.stderr)
        return 2
    wall_s, cpu_s = (sum(each[name] for each in found) for name in ("wall_s", "cpu_s"))
    passed = cpu_s <= options.aim
    if options.json:
        total = {"gemms": len(found), "wall_s": wall_s, "cpu_s": cpu_s, "aim_s": options.aim, "passed": passed}
        print(json.dumps({"topology": options.topology, **total, "rows": found}, indent=2))
        return 0 if passed else 1
    taken = f"{wall_s:.1f} s, {cpu_s:.1f} s of CPU time (aim {options.aim:g} s)"
    print(f"{len(found)} {options.shapes} GEMMs of {options.topology}: {taken}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
