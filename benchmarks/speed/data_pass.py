"""The speed of pass 2 on many small records: a softmax of a million records, and the memory store alone."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
from softmax_log import PER_ROW, Softmax, softmax

from kb_dataexec import Executor, MemoryStore, dependencies, sanitize
from kb_messages import DType

COLS, PES = 512, 512
TENSOR = 4096


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def check(made: Softmax, after: MemoryStore) -> None:
    """Stop when the result is no softmax, because the speed of a wrong answer means nothing."""
    got = np.concatenate([after.read(*part, DType.F16) for part in made.parts]).astype(np.float64)
    powers = np.exp(made.x.astype(np.float64) - made.x.max(axis=1, keepdims=True).astype(np.float64))
    error = np.abs(got - powers / powers.sum(axis=1, keepdims=True)).max()
    if error > 2.0**-11:
        raise SystemExit(f"the softmax is off by {error}")


def records(turns: int, rounds: int) -> list[tuple[str, float, str, str]]:
    made = softmax(turns * PES, COLS, PES)
    n_ops = made.log.n_ops
    check(made, Executor(made.log, made.memory).run())
    fused = [seconds(Executor(made.log, made.memory).run) for _ in range(rounds)]
    found = [seconds(lambda: dependencies(made.log)) for _ in range(rounds)]
    if sanitize(made.log):
        raise SystemExit("the softmax has hazards")
    clean = [seconds(lambda: sanitize(made.log)) for _ in range(rounds)]
    small = softmax(4 * PES, COLS, PES)
    tile = [seconds(Executor(small.log, small.memory, "tile").run) for _ in range(rounds)]
    where = f"{n_ops} records of a softmax on {PES} PEs, rows of {COLS}"
    return [
        ("pass 2, default mode", n_ops / statistics.median(fused) / 1e3, "k records/s", where),
        (
            "pass 2, tile by tile",
            small.log.n_ops / statistics.median(tile) / 1e3,
            "k records/s",
            f"{4 * PER_ROW * PES}",
        ),
        ("dependencies", n_ops / statistics.median(found) / 1e3, "k records/s", where),
        ("sanitizer", n_ops / statistics.median(clean) / 1e3, "k records/s", where),
    ]


def store(rounds: int) -> list[tuple[str, float, str, str]]:
    """Writes and reads of a whole tensor of 32 MiB. Neither copies the tensor."""
    tensor = np.zeros((TENSOR, TENSOR), np.float16)
    memory = MemoryStore([(1, 1 << 32, "hbm")])
    repeats = 2000

    def write() -> None:
        for _ in range(repeats):
            memory.write_tensor(1, 0, tensor, copy=False)

    def read() -> None:
        for _ in range(repeats):
            memory.read(1, 0, TENSOR, 2 * TENSOR, 2 * TENSOR, DType.F16)

    return [
        (
            name,
            statistics.median(seconds(call) for _ in range(rounds)) / repeats * 1e9,
            "ns",
            f"{tensor.nbytes >> 20} MiB",
        )
        for name, call in (("a whole tensor written", write), ("a whole tensor read", read))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the records, one round")
    options = parser.parse_args()
    turns, rounds = (9, 1) if options.quick else (85, 3)
    for name, value, unit, detail in [*records(turns, rounds), *store(rounds)]:
        print(f"{name:26} {value:8.0f} {unit:12} {detail}", flush=True)


if __name__ == "__main__":
    main()
