"""What a point of `kb sweep` costs, beside a `kb run` of its own for each point.

    python benchmarks/speed/sweep.py             # a thousand points on two processes: some minutes
    python benchmarks/speed/sweep.py --quick     # forty points: half a minute
    python benchmarks/speed/sweep.py --json

The points are drawn from 256 chips, with two values for each of eight parameters, and from 27 settings of three
parameters of a GEMM. Seconds are wall time. The sweep runs twice: the second one finds every point.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

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


def timed(folder: str, *args: str) -> tuple[float, Any]:
    began = time.perf_counter()
    done = subprocess.run([KB, *args, "--json"], cwd=folder, capture_output=True, text=True, check=True)
    return time.perf_counter() - began, json.loads(done.stdout)


def measure(points: int, processes: int) -> dict[str, float]:
    """Seconds a point for the sweep, for the sweep that finds every point, and for runs one by one."""
    axes = [option for text in CHIPS for option in ("--set", text)] + [o for text in GEMM for o in ("-p", text)]
    with tempfile.TemporaryDirectory() as folder:
        args = ["sweep", "gemm", *FIXED, *axes, "--random", str(points), "--jobs", str(processes)]
        first_s, first = timed(folder, *args)
        second_s, second = timed(folder, *args)
        assert first["computed"] == points, "every point was new"
        assert second["computed"] == 0, "every point was known"
        assert first["points"] == second["points"]
        single = [
            "run",
            "gemm",
            *FIXED,
            "-p",
            "M=200",
            "-p",
            "N=200",
            "-p",
            "tile=64x64x64",
            "--no-log",
            "--keep",
            "none",
        ]
        run_s = sum(timed(folder, *single)[0] for _ in range(SINGLE_RUNS)) / SINGLE_RUNS
    return {
        "points": points, "processes": processes, "sweep_s_a_point": first_s / points,
        "known_s_a_point": second_s / points, "run_s": run_s, "ratio": first_s / points / run_s,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="forty points")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = measure(40 if args.quick else 1000, args.processes)
    if args.json:
        print(json.dumps(found))
        return
    print(f"{found['points']} points on {args.processes} processes: {found['sweep_s_a_point'] * 1e3:.1f} ms a point,")
    print(f"{found['known_s_a_point'] * 1e3:.2f} ms a point when all are known, kb run {found['run_s'] * 1e3:.0f} ms:")
    print(f"a point costs {found['ratio']:.3f} of a run (aim: at most 0.333)")


if __name__ == "__main__":
    main()
