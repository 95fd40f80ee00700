"""One GEMM over 1, 8, 128 and 512 PEs: the speed-up of the chip, and the simulator's time for a tile stage.

Every PE reads its rows of A and columns of B from its own HBM slice and writes its block of C there, as
`benchmarks/gemm.py` does with `operands=replicated`. The operands are empty, and only pass 1 runs, event by event; with
`--closed` equal commands are simulated once, so that starts of programs are all that is left. Seconds are CPU time, so
that other programs on the machine count less. Every run has a process of its own, as a user's run has: the heap that
an earlier chip leaves behind slows a large chip down. `--shape 18432 18432 18432 --tile 64` is a run of 10^8 stages.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Literal, NamedTuple

from kb_dataexec import MemoryLogWriter
from kb_engine import Engine, Host, Language, Tensor, TensorRef
from kb_messages import DType, TileShape
from kb_topology import load_topology

TOPOLOGIES = Path(__file__).parents[2] / "topologies"
CHIPS = {1: "one_pe", 8: "one_cube", 128: "one_sip", 512: "four_sip"}
GRIDS = {1: (1, 1), 8: (2, 4), 128: (8, 16), 512: (32, 16)}
"""The grid of PEs along M and along N."""
FULL, QUICK = (4096, 14336, 4096), (2048, 4096, 512)
TILE = TileShape(128, 128, 128)
Exactness = Literal["isolated", "events"]


class Row(NamedTuple):
    """The figures of one number of PEs. Seconds are medians over the rounds."""

    pes: int
    latency_us: float
    efficiency: float
    stages: int
    events_a_stage: float
    launch_s: float
    cpu_s: float
    ns_a_stage: float
    peak_mib: float


class Measured(NamedTuple):
    """One run: simulated picoseconds, tile stages, entries of the clock's queue, seconds of CPU time, peak memory."""

    latency_ps: int
    stages: int
    events: int
    launch_s: float
    cpu_s: float
    peak_mib: float


def kernel(
    tl: Language, a: list[TensorRef], b: list[TensorRef], c: TensorRef, grid_m: int, grid_n: int, tile: TileShape | None
) -> None:
    """Program (i, j) computes block (i, j) of C from its own copies of A's rows and B's columns."""
    i, j = divmod(tl.program_id(), grid_n)
    m, n = c.shape
    rows, cols = slice(i * m // grid_m, (i + 1) * m // grid_m), slice(j * n // grid_n, (j + 1) * n // grid_n)
    if tile is not None:
        tl.wait(tl.composite("gemm", a[j][rows, :], b[i][:, cols], out=c[rows, cols], tile=tile))


def run(pes: int, shape: tuple[int, int, int], tile: TileShape, log: bool, exact: Exactness) -> Measured:
    """Measure one launch of the kernel, after launches of kernels that return at once."""
    topology, writer = load_topology(TOPOLOGIES / f"{CHIPS[pes]}.yaml"), MemoryLogWriter() if log else None
    engine = Engine(topology, writer, exact=exact)
    host = Host(engine, Path(__file__).parent)
    (m, n, k), (grid_m, grid_n) = shape, GRIDS[pes]
    home = [[host.hbm_slice_of(i * grid_n + j) for j in range(grid_n)] for i in range(grid_m)]

    def tensor(name: str, rows: int, cols: int, blocks: tuple[int, int], slices: list[int]) -> Tensor:
        return host.empty(name, (rows, cols), DType.F16, blocks=blocks, slices=slices)

    a = [tensor("a", m, k, (grid_m, 1), [row[j] for row in home]) for j in range(grid_n)]
    b = [tensor("b", k, n, (1, grid_n), home[i]) for i in range(grid_m)]
    c = tensor("c", m, n, (grid_m, grid_n), [slice_number for row in home for slice_number in row])
    host.launch(kernel, a, b, c, grid_m, grid_n, None, pes="all")
    began = time.process_time()
    host.launch(kernel, a, b, c, grid_m, grid_n, None, pes="all")
    launch_s = time.process_time() - began
    gc.collect()
    before = _events(engine)
    began = time.process_time()
    result = host.launch(kernel, a, b, c, grid_m, grid_n, tile, pes="all")
    engine.close_log()
    cpu_s = time.process_time() - began
    stages = sum(server.served for server in engine.servers)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Measured(result.end_ps - result.start_ps, stages, _events(engine) - before, launch_s, cpu_s, peak_mib)


def measure(shape: tuple[int, int, int], tile: TileShape, rounds: int, log: bool, exact: Exactness) -> list[Row]:
    """A row for each number of PEs. Each round runs every number once."""
    runs: dict[int, list[Measured]] = {pes: [] for pes in CHIPS}
    for _ in range(rounds):
        for pes, found in runs.items():
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
                found.append(fresh.submit(run, pes, shape, tile, log, exact).result())
    one_ps = runs[1][0].latency_ps
    return [_row(pes, found, one_ps) for pes, found in runs.items()]


def _row(pes: int, found: list[Measured], one_ps: int) -> Row:
    first, cpu_s = found[0], statistics.median(each.cpu_s for each in found)
    return Row(
        pes=pes,
        latency_us=first.latency_ps / 1e6,
        efficiency=one_ps / (pes * first.latency_ps),
        stages=first.stages,
        events_a_stage=first.events / first.stages,
        launch_s=statistics.median(each.launch_s for each in found),
        cpu_s=cpu_s,
        ns_a_stage=cpu_s / first.stages * 1e9,
        peak_mib=max(each.peak_mib for each in found),
    )


def _events(engine: Engine) -> int:
    """The number of entries that the clock has had so far."""
    return engine.clock.n_scheduled


def main() -> None:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smaller GEMM, one round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--log", action="store_true", help="with the op log")
    parser.add_argument("--closed", action="store_true", help="simulate equal commands once")
    parser.add_argument("--shape", type=int, nargs=3, metavar=("M", "N", "K"), help="another GEMM")
    parser.add_argument("--tile", type=int, default=TILE.m, help="the side of a tile")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    shape = tuple(options.shape) if options.shape else QUICK if options.quick else FULL
    tile = TileShape(options.tile, options.tile, options.tile)
    exact: Exactness = "isolated" if options.closed else "events"
    rows = measure(shape, tile, 1 if options.quick else options.rounds, options.log, exact)
    if options.json:
        found = {"shape": shape, "log": options.log, "exact": exact, "rows": [row._asdict() for row in rows]}
        print(json.dumps(found, indent=2))
        return
    print(f"{' x '.join(map(str, shape))}, f16, tiles of {tile}, op log {'on' if options.log else 'off'}")
    print(f"{'PEs':>5} {'latency':>13} {'efficiency':>11} {'stages':>9} {'events/stage':>13} {'ns/stage':>9} "
          f"{'over 8 PEs':>11} {'pass 1':>8} {'empty launch':>13} {'peak':>8}")  # fmt: skip
    eight = next(row.ns_a_stage for row in rows if row.pes == 8)
    for row in rows:
        print(f"{row.pes:>5} {row.latency_us:>10.1f} us {row.efficiency:>10.1%} {row.stages:>9} "
              f"{row.events_a_stage:>13.2f} {row.ns_a_stage:>9.0f} {row.ns_a_stage / eight:>11.2f} "
              f"{row.cpu_s:>6.2f} s {row.launch_s * 1e3:>10.1f} ms {row.peak_mib:>4.0f} MiB")  # fmt: skip


if __name__ == "__main__":
    main()
