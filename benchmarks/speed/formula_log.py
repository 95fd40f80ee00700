"""A product in steady state with its log on disk: the log as compressed rows, and as plain rows, in turns.

    python benchmarks/speed/formula_log.py               # three products, three rounds: a minute
    python benchmarks/speed/formula_log.py --rounds 1

Seconds are the least CPU time of the rounds: of the launch without a log and with one, of closing the log, and of
reading it, which makes its rows where they are compressed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from runpy import run_path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from kb_dataexec import FolderLogWriter, read_log
from kb_engine import Engine, Host, TileShape
from kb_topology import load_topology

CHECKOUT = Path(__file__).parents[2]
CASES = (("one_pe", (4096, 4096, 4096)), ("one_pe", (8192, 8192, 8192)), ("four_sip", (4096, 14336, 4096)))
"""(topology, (M, N, K)). Tiles are 128 x 128 x 128, f16."""


class Measured(NamedTuple):
    """CPU seconds, and the bytes of the log."""

    launch: float
    close: float
    read: float
    nbytes: int


class RowsWriter(FolderLogWriter):
    """Has rows alone."""

    takes_compressed: ClassVar[bool] = False


def measure(topology: str, sizes: tuple[int, int, int], folder: Path | None, is_rows: bool = False) -> Measured:
    """One run of the product, whose log goes to *folder*."""
    writer = None if folder is None else (RowsWriter if is_rows else FolderLogWriter)(folder)
    engine = Engine(load_topology(CHECKOUT / f"topologies/{topology}.yaml"), writer)
    host = Host(engine, CHECKOUT / "benchmarks")
    gemm = run_path(str(CHECKOUT / "benchmarks/gemm.py"))["Gemm"]()
    m, n, k = sizes
    params = gemm.Params(M=m, N=n, K=k, tile=TileShape(128, 128, 128))
    launch, moments = host.launch, list[float]()

    def timed(*arguments: Any, **named: Any) -> Any:
        moments.append(time.process_time())
        result = launch(*arguments, **named)
        moments.append(time.process_time())
        engine.close_log()
        moments.append(time.process_time())
        return result

    host.launch = timed  # type: ignore[method-assign]
    gemm.launch(host, params, gemm.inputs(params, np.random.default_rng(0)))
    if folder is None:
        return Measured(moments[1] - moments[0], 0.0, 0.0, 0)
    began = time.process_time()
    read_log(folder)
    read = time.process_time() - began
    nbytes = sum(file.stat().st_size for file in folder.iterdir())
    return Measured(moments[1] - moments[0], moments[2] - moments[1], read, nbytes)


def least(rounds: list[Measured]) -> Measured:
    return Measured(*(min(column) for column in zip(*rounds, strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(f"{'product':30}{'log':10}{'launch':>9}{'close':>9}{'read':>9}{'bytes':>13}")
    for topology, sizes in CASES:
        found: dict[str, list[Measured]] = {"none": [], "formulas": [], "rows": []}
        for _ in range(options.rounds):
            for kind, rounds in found.items():
                with tempfile.TemporaryDirectory() as place:
                    folder = None if kind == "none" else Path(place) / "log"
                    rounds.append(measure(topology, sizes, folder, kind == "rows"))
        for kind, rounds in found.items():
            best = least(rounds)
            name = f"{topology} {' x '.join(map(str, sizes))}"
            print(f"{name:30}{kind:10}{best.launch:9.3f}{best.close:9.3f}{best.read:9.3f}{best.nbytes:13,}")


if __name__ == "__main__":
    main()
