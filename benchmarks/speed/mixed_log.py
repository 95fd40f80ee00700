"""The speed of pass 2 on logs that mix shapes, as kernels of the language write them: records a second for each log.

    python benchmarks/speed/mixed_log.py            # seven logs of about 100 thousand records each: four minutes
    python benchmarks/speed/mixed_log.py --quick    # a fiftieth of the records, one round: ten seconds
    python benchmarks/speed/mixed_log.py --case layer_norm --case attention
    python benchmarks/speed/mixed_log.py --json

Seconds are CPU time of the process, on all its threads. The logs are made on `one_cube`. The script refuses to measure
a log whose outputs differ between the modes by more than the order of f32 additions explains.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
import tracemalloc
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from kb_cli.benchmark.load import load_benchmark
from kb_dataexec import Executor, MemoryLogWriter, MemoryStore, OpLog
from kb_engine import Engine, Host, Tensor
from kb_topology import load_topology

CHECKOUT: Final = Path(__file__).parents[2]
CASES: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "ragged_softmax": ({"rows": 9000}, {"rows": 160}),
    "layer_norm": ({"rows": 4096, "width": 768, "block": 1}, {"rows": 96, "width": 768, "block": 1}),
    "attention": (
        {"tokens": 1024, "heads": 8, "head_dim": 64, "block": 32, "block_k": 32},
        {"tokens": 128, "heads": 8, "head_dim": 64, "block": 32, "block_k": 32},
    ),
    "mixture_of_experts": (
        {"tokens": 256, "block_m": 16, "block_n": 32, "block_k": 32, "block": 1},
        {"tokens": 16, "block_m": 16, "block_n": 64, "block_k": 64, "block": 1},
    ),
    "split_k_gemm": (
        {"M": 64, "N": 256, "K": 1 << 17, "splits": 512, "block_n": 32, "block_k": 64},
        {"M": 64, "N": 64, "K": 1 << 13, "splits": 32, "block_n": 32, "block_k": 64},
    ),
    "embedding": ({"tokens": 1 << 15, "width": 64, "block": 2}, {"tokens": 512, "width": 64, "block": 2}),
    "cross_entropy": (
        {"tokens": 2048, "vocabulary": 8100, "block": 1, "words": 1024},
        {"tokens": 32, "vocabulary": 8100, "block": 1, "words": 1024},
    ),
}
"""The parameters of each log, in full and with --quick."""
SUM_ERROR: Final = 64 * 2.0**-24
"""How far f32 sums in another order may differ, over the largest value. Source: assumed."""


class MixedLog(NamedTuple):
    """A log, the memory before it, and its output."""

    log: OpLog
    memory: MemoryStore
    output: Tensor


class Row(NamedTuple):
    """Figures of a log: thousands of records a second of CPU time, and peak bytes that pass 2 allocates a record."""

    case: str
    records: int
    fused_k: float
    tile_k: float
    nbytes: float


def ragged(tl: Any, x: Any, y: Any, ends: Any) -> None:
    """Program p takes the softmax of row p, which reaches from ends[p] to ends[p + 1]."""
    first, last = tl.load(ends[tl.program_id() : tl.program_id() + 2])
    wide = tl.load(x[first:last]).to("f32")
    powers = tl.exp(wide - tl.max(wide, axis=0))
    tl.store(y[first:last], (powers / tl.sum(powers, axis=0)).to(y.dtype))


def ragged_softmax(host: Host, rows: int) -> Tensor:
    """Rows of 1 to 512 elements, one after the other."""
    rng = np.random.default_rng(0)
    ends = np.append(0, np.cumsum(rng.integers(1, 513, rows))).astype(np.int32)
    x = host.tensor("x", rng.standard_normal(ends[-1], np.float32).astype(np.float16), "f16")
    y = host.empty("y", x.shape, "f16")
    host.launch(ragged, x, y, host.tensor("ends", ends, "i32"), grid=rows)
    return y


def made(case: str, params: dict[str, Any]) -> MixedLog:
    """The log of *case*: a bundled benchmark with *params*, or the ragged softmax of this file."""
    engine = Engine(load_topology(CHECKOUT / "topologies/one_cube.yaml"), MemoryLogWriter())
    host = Host(engine, CHECKOUT / "benchmarks")
    if case == "ragged_softmax":
        output = ragged_softmax(host, **params)
    else:
        bench = load_benchmark(str(CHECKOUT / f"benchmarks/{case}.py")).bench
        given = bench.Params(**params)
        (output,) = bench.launch(host, given, bench.inputs(given, np.random.default_rng(0))).values()
    log, memory = engine.close_log(), engine.initial_memory
    assert isinstance(log, OpLog)
    assert memory is not None
    return MixedLog(log, memory, output)


def values(output: Tensor, after: MemoryStore) -> np.ndarray:
    """The output in float64."""
    blocks = [matrix.rectangle.in_memory for _, matrix in output.blocks()]
    parts = [after.read(*each, output.dtype).reshape(-1) for each in blocks]
    return np.concatenate(parts).astype(np.float64)


def cpu_seconds(mixed: MixedLog, mode: str) -> tuple[float, MemoryStore]:
    gc.collect()
    begin = time.process_time()
    after = Executor(mixed.log, mixed.memory, mode).run()  # type: ignore[arg-type]
    return time.process_time() - begin, after


def measure(case: str, params: dict[str, Any], rounds: int) -> Row:
    mixed = made(case, params)
    tile, right = cpu_seconds(mixed, "tile")
    fused = [cpu_seconds(mixed, "fused") for _ in range(rounds)]
    allowed = 2 * mixed.output.dtype.info.unit_roundoff + SUM_ERROR
    expected, got = (values(mixed.output, each) for each in (right, fused[0][1]))
    if np.abs(got - expected).max() > allowed * np.abs(expected).max():
        raise SystemExit(f"{case}: the modes differ by {np.abs(got - expected).max()}")
    tracemalloc.start()
    Executor(mixed.log, mixed.memory).run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    n_ops = mixed.log.n_ops
    seconds = statistics.median(each for each, _ in fused)
    return Row(case, n_ops, n_ops / seconds / 1e3, n_ops / tile / 1e3, peak / n_ops)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=CASES, help="one log; may be repeated")
    parser.add_argument("--quick", action="store_true", help="a fiftieth of the records, one round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print one object, nothing else")
    options = parser.parse_args()
    rows = []
    for case in options.case or CASES:
        rows.append(measure(case, CASES[case][options.quick], 1 if options.quick else options.rounds))
        if not options.json:
            row = rows[-1]
            rates = f"{row.fused_k:8.0f} k records/s, tile by tile {row.tile_k:5.0f}"
            print(f"{row.case:20} {row.records:8} records {rates} {row.nbytes:8.0f} bytes a record", flush=True)
    if options.json:
        print(json.dumps({"rows": [row._asdict() for row in rows]}))


if __name__ == "__main__":
    main()
