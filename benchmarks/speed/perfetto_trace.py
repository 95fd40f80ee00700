"""`kb trace` on a run of about a million records: seconds of each step, bytes a slice, peak memory.

    python benchmarks/speed/perfetto_trace.py            # gemm 8192 x 12288 x 5120, eight PEs: half a minute
    python benchmarks/speed/perfetto_trace.py --quick    # an eighth of it

The run is made once. Each round is a process of its own, which has a peak of its own. Targets for a million slices:
2 s, 50 bytes a slice, 15 when packed.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

from kb_cli.run.base.files import TOPOLOGY
from kb_cli.trace.critical_path import path_of
from kb_cli.trace.run_log import read_run_log
from kb_cli.trace.run_trace import Shown, run_trace
from kb_cli.trace.slices import memory_slices
from kb_cli.trace.trace_file import Unit, write_trace
from kb_cli.trace.traffic import traffic
from kb_cli.trace.window import Window
from kb_dataexec.analysis import LazyServices
from kb_topology import load_topology

STEPS = ("read", "count", "path", "memories", "arrange", "write", "write packed")
ALL = Window(0, 2**63 - 1)


def make_run(folder: Path, size: int) -> Path:
    """A run with its op log, without data."""
    kb = Path(sys.executable).with_name("kb")
    sizes = ["-p", f"M={size}", "-p", "N=12288", "-p", "K=5120", "-p", "tile=128x128x128", "-p", "dtype=f16"]
    command = [str(kb), "run", "gemm", *sizes, "--no-verify", "--keep", "all", "--out", str(folder), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return Path(json.loads(done.stdout)["run_dir"])


def measure(run: Path, folder: Path) -> dict[str, float]:
    """One round: seconds by step, slices, bytes and peak memory in MiB."""
    times = [perf_counter()]
    found = read_run_log(run)
    times.append(perf_counter())
    services = LazyServices(found.log, found.dma)
    counters = traffic(found.log, load_topology(run / TOPOLOGY), ALL, None, services)
    times.append(perf_counter())
    path = path_of(found.log, services)
    times.append(perf_counter())
    memories = memory_slices(found.log, None, services)
    times.append(perf_counter())
    trace = run_trace(found, Shown(ALL, None, Unit.NS), lambda: path, memories, [counters])
    times.append(perf_counter())
    nbytes = write_trace(trace, Unit.NS, folder / "x.pftrace")
    times.append(perf_counter())
    packed_nbytes = write_trace(trace, Unit.NS, folder / "x.pftrace.gz")
    times.append(perf_counter())
    steps = {step: after - before for step, before, after in zip(STEPS, times, times[1:], strict=False)}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {**steps, "slices": trace.n_slices, "nbytes": nbytes, "packed_nbytes": packed_nbytes, "peak_mib": peak}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="an eighth of the slices, one round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--run", type=Path, help="one round on this run folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if options.run:
            print(json.dumps(measure(options.run, folder)))
            return
        run = make_run(folder, 1024 if options.quick else 8192)
        command = [sys.executable, __file__, "--run", str(run)]
        rounds = [
            json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
            for _ in range(1 if options.quick else options.rounds)
        ]
    slices = rounds[0]["slices"]
    print(f"{slices} slices")
    for step in STEPS:
        seconds = median(each[step] for each in rounds)
        print(f"{step}: {seconds:.2f} s ({slices / seconds / 1e6:.2f} M/s)")
    whole = median(sum(each[step] for step in STEPS[:-1]) for each in rounds)
    print(f"kb trace, without starting Python: {whole:.2f} s, {whole / slices * 1e6:.2f} s a million")
    nbytes, packed = (rounds[0][name] / slices for name in ("nbytes", "packed_nbytes"))
    print(f"{nbytes:.1f} bytes a slice, {packed:.1f} packed; peak memory {rounds[0]['peak_mib']:.0f} MiB")


if __name__ == "__main__":
    main()
