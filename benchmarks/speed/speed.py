"""The speed of the simulator itself, as ratios that are measured side by side. README.md describes each ratio."""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from chip import ONE_PE, Chip
from textbook import TextbookPe

from kb_dataexec import Executor, MemoryLogWriter, OpLog
from kb_engine import Engine, Host, Language, Tensor, TensorRef
from kb_messages import DType, GemmCommand, Matrix, PipelinePlan, TileShape
from kb_plans import generate_gemm_plan
from kb_topology import load_topology

TILE = TileShape(128, 128, 128)
Operands = tuple[np.ndarray, np.ndarray]


class Figure(NamedTuple):
    """One line of the report: a number, its target if it has one, and the measurements it follows from."""

    name: str
    value: float
    unit: str
    target: str
    detail: str


class Prepared(NamedTuple):
    """An engine with its tensors uploaded, before any launch."""

    engine: Engine
    host: Host
    tensors: tuple[Tensor, Tensor, Tensor]

    @classmethod
    def make(cls, size: int, log: bool, data: Operands | None = None) -> Prepared:
        """A GEMM of *size* cubed on *data*. Without *data* the operands are empty, which is enough for pass 1."""
        engine = Engine(load_topology(ONE_PE), MemoryLogWriter() if log else None, exact="events")
        host = Host(engine, Path(__file__).parent)
        a, b, c = (host.empty(name, (size, size), DType.F16) for name in "abc")
        if data is not None:
            host.write(a, data[0])
            host.write(b, data[1])
        return cls(engine, host, (a, b, c))

    def run(self) -> Any:
        """Run pass 1, from the kernel's call to the closed log; the log."""
        self.host.launch(kernel, *self.tensors)
        return self.engine.close_log()


def kernel(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef) -> None:
    tl.wait(tl.composite("gemm", a, b, out=c, tile=TILE))


def seconds(call: Callable[[], object]) -> float:
    gc.collect()
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def interleaved(rounds: int, *makers: Callable[[], Callable[[], object]]) -> list[list[float]]:
    """Seconds of the call that each maker makes, in turns `A B C A B C ...`.

    A slow moment of the machine then slows all of them.
    """
    return [list(times) for times in zip(*([seconds(make()) for make in makers] for _ in range(rounds)), strict=True)]


def ratio(over: list[float], under: list[float]) -> float:
    """The median of the ratios of the rounds."""
    return statistics.median(a / b for a, b in zip(over, under, strict=True))


def spread(times: list[float]) -> str:
    return f"{statistics.median(times):.3f} s ({min(times):.3f} to {max(times):.3f})"


def pass_1(size: int, rounds: int) -> list[Figure]:
    chip, shapes = Chip(ONE_PE), ((size,) * 3, (TILE.m, TILE.n, TILE.k))
    n_stages = check_same_work(size)
    logged, bare, textbook, rows = interleaved(
        rounds,
        lambda: Prepared.make(size, log=True).run,
        lambda: Prepared.make(size, log=False).run,
        lambda: TextbookPe(chip, *shapes).run,
        lambda: partial(getattr, Prepared.make(size, log=True).run(), "digest"),
    )
    rate = n_stages / statistics.median(logged) / 1e6
    textbook_rate = n_stages / statistics.median(textbook) / 1e6
    return [
        Figure(
            "stages/s, op log on, over textbook SimPy", ratio(textbook, logged), "x", ">= 4",
            f"{rate:.3f} against {textbook_rate:.3f} M/s; {n_stages} stages each",
        ),
        Figure(f"pass 1 of {size}^3 in {TILE} tiles", statistics.median(logged), "s", "< 2", spread(logged)),
        Figure("op log adds to pass 1", 100 * (ratio(logged, bare) - 1), "%", "<= 10", f"without {spread(bare)}"),
        Figure("its rows and digest, when looked at", 100 * ratio(rows, bare), "%", "", spread(rows)),
    ]  # fmt: skip


def check_same_work(size: int) -> int:
    """The number of stage services. Stops when the two models differ in it or in their latency."""
    prepared = Prepared.make(size, log=False)
    prepared.run()
    found = (prepared.host.launches[0].end_ps, prepared.engine.session.n_ops)
    textbook = TextbookPe(Chip(ONE_PE), (size,) * 3, (TILE.m, TILE.n, TILE.k))
    expected = (textbook.run(), textbook.n_stages)
    if found != expected:
        raise SystemExit(f"the engine took {found}, the textbook model {expected} (picoseconds, stages)")
    return found[1]


def pass_2(size: int, rounds: int) -> list[Figure]:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((size, size), dtype=np.float32).astype(np.float16) for _ in "ab")
    prepared = Prepared.make(size, log=True, data=(a, b))
    log, memory = prepared.run(), prepared.engine.initial_memory
    assert isinstance(log, OpLog)
    assert memory is not None
    assert log.n_ops  # whoever looks first makes the rows
    wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)
    fused, plain = interleaved(rounds, lambda: Executor(log, memory).run, lambda: lambda: wide_a @ wide_b)
    tile = seconds(Executor(log, memory, "tile").run)
    return [
        Figure(
            "pass 2, fused, over float32 A @ B", ratio(fused, plain), "x", "<= 1.5",
            f"{spread(fused)} against {spread(plain)}",
        ),
        Figure("pass 2, tile by tile, once", tile, "s", "", f"{tile / statistics.median(plain):.1f} x A @ B"),
    ]  # fmt: skip


def plan_iteration(size: int, rounds: int) -> list[Figure]:
    matrix = Matrix.packed(size, size, DType.F16)
    command = GemmCommand(a=matrix, b=matrix, out=matrix, tile=TILE)
    plans = [generate_gemm_plan(command, "pe0") for _ in range(rounds)]
    times = [seconds(lambda plan=plan: walk(plan)) for plan in plans]  # type: ignore[misc]  # a default binds the plan
    rate = plans[0].n_tiles / statistics.median(times) / 1e6
    return [Figure("tiles of a plan, iterated", rate, "M/s", "", f"{plans[0].n_tiles} tiles")]


def walk(plan: PipelinePlan) -> None:
    for _ in plan.tiles:
        pass


def environment() -> dict[str, str | int]:
    packages = {name: version(name) for name in ("numpy", "simpy", "msgspec", "kb-engine")}
    return {"python": platform.python_version(), **packages, "cpus": os.cpu_count() or 0, "machine": platform.machine()}


def table(figures: list[Figure]) -> str:
    lines = [f"{'':42} {'measured':>12}  {'target':>7}  from"]
    lines += [f"{f.name:42} {f.value:8.3g} {f.unit:3}  {f.target:>7}  {f.detail}" for f in figures]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="1024^3 and three rounds instead of 4096^3 and five")
    options = parser.parse_args()
    size, rounds = (1024, 3) if options.quick else (4096, 5)
    figures = [*pass_1(size, rounds), *pass_2(size, rounds), *plan_iteration(size, rounds)]
    if options.json:
        print(json.dumps({**environment(), "size": size, "figures": [each._asdict() for each in figures]}, indent=2))
    else:
        print(", ".join(f"{name} {value}" for name, value in environment().items()))
        print(table(figures))


if __name__ == "__main__":
    main()
