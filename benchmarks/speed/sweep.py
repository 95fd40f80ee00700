"""The cost of a point of `kb sweep`, beside the cost of a `kb run` of its own for each point.

    python benchmarks/speed/sweep.py             # a thousand points on two processes: some minutes
    python benchmarks/speed/sweep.py --dask      # and on a Dask cluster (extra dask), where a worker is killed
    python benchmarks/speed/sweep.py --quick     # forty points: half a minute
    python benchmarks/speed/sweep.py --json

The points are drawn from 256 chips, with two values for each of eight parameters, and from 27 settings of three
parameters of a GEMM. Seconds are wall time. Each sweep runs twice: the second one finds every point. The cluster has
two local workers; one gets SIGKILL when a fifth of the points is known. Both ways have to give the same points, with
every point computed, and kept, once. Runs of single points stand before and
behind each sweep, because other programs on the machine slow both.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

KB = str(Path(sys.executable).with_name("kb"))
PE = "$.cube.pe_template.nodes"
CHIPS = [
    "$.cube.nodes.hbm.bw_gbs=51.2,102.4", "$.cube.nodes.hbm.latency_ns=45,90", "$.cube.nodes.xbar.overhead_ns=2,4",
    f"{PE}.pe_gemm.clock_ghz=1,2", f"{PE}.pe_dma.setup_ns=5,10", f"{PE}.pe_tcm.bw_gbs=256,512",
    f"{PE}.pe_cpu.issue_ns=4,8", f"{PE}.pe_scheduler.command_ns=8,16",
]  # fmt: skip
GEMM = ["tile=32x32x32,64x64x64,64x32x64", "M=128,200,256", "N=128,200,256"]
FIXED = ["-p", "K=256"]
SINGLE_RUNS = 5
AIM = 1 / 3
"""The most that a point should cost, over the wall time of a run."""
KILL_BEHIND = 0.2
"""The share of the points that is known when a worker of the cluster is killed."""
SINGLE = ["run", "gemm", *FIXED, "-p", "M=200", "-p", "N=200", "-p", "tile=64x64x64", "--no-log", "--keep", "none"]


class Swept(NamedTuple):
    """The points of a sweep, and wall seconds a point when all are new and when all are known."""

    points: list[Any]
    new_s: float
    known_s: float


def timed(folder: str, *args: str, kill: int | None = None, after: int = 0) -> tuple[float, Any]:
    """Wall seconds of a command in *folder*, and its output. The process *kill* dies when *after* points are kept."""
    began = time.perf_counter()
    with subprocess.Popen([KB, *args, "--json"], cwd=folder, stdout=subprocess.PIPE, text=True) as running:
        while kill is not None and running.poll() is None:
            if len(kept_in(folder)) >= after:
                os.kill(kill, signal.SIGKILL)
                kill = None
            time.sleep(0.05)
        stdout, _ = running.communicate()
    took_s = time.perf_counter() - began
    assert running.returncode == 0, f"kb {' '.join(args)} ends with {running.returncode}"
    assert kill is None, "the sweep was over before a worker could be killed"
    return took_s, json.loads(stdout)


def kept_in(folder: str) -> list[Path]:
    return list(Path(folder).glob("kb-sweeps/points/*/*.json"))


def swept(points: int, *where: str, kill: int | None = None) -> Swept:
    """The sweep of *points*, twice. *where* says who simulates."""
    axes = [option for text in CHIPS for option in ("--set", text)] + [o for text in GEMM for o in ("-p", text)]
    args = ["sweep", "gemm", *FIXED, *axes, "--random", str(points), *where]
    with tempfile.TemporaryDirectory() as folder:
        first_s, first = timed(folder, *args, kill=kill, after=round(points * KILL_BEHIND))
        assert (first["computed"], first["failed"], len(kept_in(folder))) == (points, 0, points), "each point once"
        second_s, second = timed(folder, *args)
    assert (second["computed"], second["known"]) == (0, points), "every point was known"
    assert first["points"] == second["points"]
    return Swept(first["points"], first_s / points, second_s / points)


def on_cluster(points: int, workers: int) -> Swept:
    """The sweep on a local Dask cluster of *workers*, of which one is killed."""
    cluster_of = import_module("distributed").LocalCluster
    with cluster_of(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        victim: int = next(iter(cluster.workers.values())).pid
        return swept(points, "--scheduler", cluster.scheduler_address, kill=victim)


def single_run_s() -> float:
    """Mean wall seconds of `kb run` of a point, without log and data, as a sweep simulates it."""
    with tempfile.TemporaryDirectory() as folder:
        return sum(timed(folder, *SINGLE)[0] for _ in range(SINGLE_RUNS)) / SINGLE_RUNS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="forty points")
    parser.add_argument("--dask", action="store_true", help="on a cluster too, of which a worker is killed")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    points = 40 if args.quick else 1000
    runs_s = [single_run_s()]
    found = {"processes": swept(points, "--jobs", str(args.processes))}
    runs_s.append(single_run_s())
    if args.dask:
        found["workers, one of them killed"] = on_cluster(points, args.processes)
        runs_s.append(single_run_s())
        assert len({json.dumps(each.points) for each in found.values()}) == 1, "both ways give the same points"
    rows: list[dict[str, Any]] = [
        {"on": name, "points": points, "new_s": each.new_s, "known_s": each.known_s, "run_s": (before + after) / 2}
        for (name, each), before, after in zip(found.items(), runs_s[:-1], runs_s[1:], strict=True)
    ]
    if args.json:
        print(json.dumps(rows))
        return
    for row in rows:
        print(f"{points} points on {args.processes} {row['on']}: {row['new_s'] * 1e3:.1f} ms a point, ", end="")
        print(f"{row['known_s'] * 1e3:.2f} ms when known, kb run {row['run_s'] * 1e3:.0f} ms; ", end="")
        print(f"a point costs {row['new_s'] / row['run_s']:.3f} of a run (aim: {AIM:.3f})")


if __name__ == "__main__":
    main()
