"""The cost of the op log in pass 1 event by event: in memory and on disk, in turns with a run without a log.

    python benchmarks/speed/op_log.py            # six kernels, nine rounds: a minute
    python benchmarks/speed/op_log.py --quick    # one round
    python benchmarks/speed/op_log.py --case "gemm, one_pe" --rounds 21

Seconds are CPU time of all threads, from the kernel's call to the closed log, which is not read.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from kb_dataexec import FolderLogWriter, LogWriter, MemoryLogWriter
from kb_engine import Engine, Host, Language, Tensor, TensorRef
from kb_messages import DType, TileShape
from kb_topology import load_topology

TOPOLOGIES = Path(__file__).parents[2] / "topologies"
TILE = TileShape(128, 128, 128)
ROWS, COLS = 4, 512
"""A program of softmax takes ROWS x COLS elements a turn."""
Launch = Callable[[], object]
Setup = Callable[[Host], Launch]


def product(grid: tuple[int, int], shape: tuple[int, int, int], shared: bool) -> Setup:
    """A product of *shape* (m, n, k) on a *grid* of PEs, each with operands of its own unless they are *shared*."""
    (m, n, k), (grid_m, grid_n) = shape, grid
    of_a, of_b = (grid_n, grid_m) if not shared else (1, 1)

    def kernel(tl: Language, a: list[TensorRef], b: list[TensorRef], c: TensorRef) -> None:
        i, j = divmod(tl.program_id(), grid_n)
        rows, cols = slice(i * m // grid_m, (i + 1) * m // grid_m), slice(j * n // grid_n, (j + 1) * n // grid_n)
        tl.wait(tl.composite("gemm", a[j % of_a][rows, :], b[i % of_b][:, cols], out=c[rows, cols], tile=TILE))

    def setup(host: Host) -> Launch:
        home = [[host.hbm_slice_of(i * grid_n + j) for j in range(grid_n)] for i in range(grid_m)]

        def tensor(name: str, size: tuple[int, int], blocks: tuple[int, int], slices: list[int]) -> Tensor:
            return host.empty(name, size, DType.F16, **({} if shared else {"blocks": blocks, "slices": slices}))

        a = [tensor(f"a{j}", (m, k), (grid_m, 1), [row[j] for row in home]) for j in range(of_a)]
        b = [tensor(f"b{i}", (k, n), (1, grid_n), home[i]) for i in range(of_b)]
        c = tensor("c", (m, n), grid, [each for row in home for each in row])
        return lambda: host.launch(kernel, a, b, c, pes=range(grid_m * grid_n))

    return setup


def softmax(n_pes: int, turns: int) -> Setup:
    """A softmax on *n_pes* PEs, *turns* turns of each: commands of few records."""

    def kernel(tl: Language, x: TensorRef, y: TensorRef) -> None:
        first = tl.program_id() * turns * ROWS
        for row in range(first, first + turns * ROWS, ROWS):
            value = tl.load(x[row : row + ROWS, :]).to("f32")
            powers = tl.exp(value - tl.max(value, axis=1))
            tl.store(y[row : row + ROWS, :], (powers / tl.sum(powers, axis=1)).to("f16"))

    def setup(host: Host) -> Launch:
        slices = [pe * host.num_slices // host.num_pes for pe in range(n_pes)]
        data = np.zeros((n_pes * turns * ROWS, COLS), np.float16)
        x, y = (host.tensor(name, data, "f16", blocks=(n_pes, 1), slices=slices) for name in "xy")
        return lambda: host.launch(kernel, x, y, pes=range(n_pes))

    return setup


CASES: dict[str, tuple[str, Setup]] = {
    "gemm, one_pe": ("one_pe", product((1, 1), (3072, 3072, 2048), shared=False)),
    "gemm, one_cube": ("one_cube", product((2, 4), (4096, 4096, 2048), shared=False)),
    "gemm, one_sip": ("one_sip", product((8, 16), (4096, 4096, 2048), shared=False)),
    "gemm, one_cube, shared": ("one_cube", product((2, 4), (2048, 4096, 1024), shared=True)),
    "softmax, one_pe": ("one_pe", softmax(1, 2000)),
    "softmax, one_cube": ("one_cube", softmax(8, 250)),
}


@contextmanager
def writers() -> Iterator[dict[str, LogWriter | None]]:
    """A writer of each kind, by its name."""
    with tempfile.TemporaryDirectory() as folder:
        yield {"none": None, "memory": MemoryLogWriter(), "disk": FolderLogWriter(Path(folder) / "log")}


def seconds(topology: Any, setup: Setup, writer: LogWriter | None) -> float:
    """CPU seconds of one launch, event by event, and of closing its log."""
    engine = Engine(topology, writer, exact="events")
    launch = setup(Host(engine, Path(__file__).parent))
    gc.collect()
    start = time.process_time()
    launch()
    log = engine.close_log()
    spent = time.process_time() - start
    del log
    return spent


def measured(name: str, rounds: int) -> str:
    chip, setup = CASES[name]
    topology, found = load_topology(TOPOLOGIES / f"{chip}.yaml"), list[dict[str, float]]()
    for _ in range(rounds):
        with writers() as each:
            found.append({kind: seconds(topology, setup, writer) for kind, writer in each.items()})
    more = (100 * (median(turn[kind] / turn["none"] for turn in found) - 1) for kind in ("memory", "disk"))
    bare = median(turn["none"] for turn in found)
    return f"| {name} | {bare:.3f} | " + " | ".join(f"{each:.0f} %" for each in more) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=CASES, help="this case alone")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="one round")
    arguments = parser.parse_args()
    print("| kernel | without a log, s | log in memory adds | log on disk adds |\n| --- | --- | --- | --- |")
    for name in [arguments.case] if arguments.case else CASES:
        print(measured(name, 1 if arguments.quick else arguments.rounds), flush=True)


if __name__ == "__main__":
    main()
