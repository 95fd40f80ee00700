"""The simulator's cost of a command of a grid's programs, with replay of programs and without.

    python benchmarks/speed/templates.py             # a softmax and two products, five rounds in turns: a minute
    python benchmarks/speed/templates.py --quick     # small, one round: seconds
    python benchmarks/speed/templates.py --json

Kernels run as grids on `one_cube`, with the op log. Rows of a softmax lie in blocks, one in each HBM slice; the
operands of the product are in one block. Seconds are CPU time from the kernel's call to the closed log, and the figure
is the median of the rounds. Calls of Python functions are counted in another run. The script refuses to compare runs
whose logs differ.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from kb_dataexec import MemoryLogWriter
from kb_engine import Engine, Host
from kb_topology import load_topology

CHECKOUT = Path(__file__).parents[2]
ROWS, TILE, DEPTH, SLICES = 4, 128, 64, 8
SIDES = {"softmax": (4096, 1024), "softmax, masked": (4096, 1024), "product": (2048, 1024)}
"""The side of the matrices, and the side in the runs whose calls are counted."""


def softmax(tl: Any, x: Any, y: Any) -> None:
    rows = slice(tl.program_id() * ROWS, tl.program_id() * ROWS + ROWS)
    wide = tl.load(x[rows, :]).to("f32")
    powers = tl.exp(wide - tl.max(wide, axis=1))
    tl.store(y[rows, :], (powers / tl.sum(powers, axis=1)).to("f16"))


def masked(tl: Any, x: Any, y: Any) -> None:
    """`softmax` with an index and a mask for each element."""
    rows, columns = (tl.program_id() * ROWS + tl.arange(ROWS))[:, None], tl.arange(x.shape[1])[None, :]
    mask = (rows < x.shape[0]) & (columns < x.shape[1])
    wide = tl.load(x[rows, columns], mask=mask).to("f32")
    powers = tl.exp(wide - tl.max(wide, axis=1))
    tl.store(y[rows, columns], (powers / tl.sum(powers, axis=1)).to("f16"), mask=mask)


def product(tl: Any, x: Any, y: Any) -> None:
    """y = x @ x in tiles of TILE x TILE x DEPTH."""
    i, j = tl.program_id(1) * TILE, tl.program_id(0) * TILE
    acc = 0
    for k in range(0, x.shape[1], DEPTH):
        acc = tl.dot(tl.load(x[i : i + TILE, k : k + DEPTH]), tl.load(x[k : k + DEPTH, j : j + TILE]), acc)
    tl.store(y[i : i + TILE, j : j + TILE], acc.to("f16"))


KERNELS: dict[str, Callable[[Any, Any, Any], None]] = {
    "softmax": softmax,
    "softmax, masked": masked,
    "product": product,
}


class Ran(NamedTuple):
    """A run: CPU seconds, calls of Python functions if they were counted, commands, and the log's digest."""

    cpu_s: float
    calls: int
    commands: int
    digest: str


def ran(kind: str, side: int, templates: bool, count: bool = False) -> Ran:
    """Run the kernel of *kind* on matrices of *side* x *side*."""
    engine = Engine(load_topology(CHECKOUT / "topologies/one_cube.yaml"), MemoryLogWriter(), templates=templates)
    host = Host(engine, Path(__file__).parent)
    where: dict[str, Any] = {} if kind == "product" else {"blocks": (SLICES, 1), "slices": range(SLICES)}
    x = host.tensor("x", np.zeros((side, side), np.float16), "f16", **where)
    y = host.empty("y", (side, side), "f16", **where)
    grid = (side // TILE, side // TILE) if kind == "product" else side // ROWS
    calls = 0

    def note(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    gc.collect()
    if count:
        sys.setprofile(note)
    began = time.process_time()
    host.launch(KERNELS[kind], x, y, grid=grid)
    log = engine.close_log()
    cpu_s = time.process_time() - began
    sys.setprofile(None)
    assert log is not None
    return Ran(cpu_s, calls, engine.session.commands_issued, log.digest)


def measure(kind: str, side: int, counted_side: int, rounds: int) -> dict[str, object]:
    """The costs of a command of *kind*, with templates and without."""
    counted = [ran(kind, counted_side, templates, count=True) for templates in (True, False)]
    runs = [[ran(kind, side, templates) for templates in (True, False)] for _ in range(rounds)]
    if len({each.digest for pair in runs for each in pair}) > 1:
        raise SystemExit(f"{kind}: the logs with templates and without differ")
    commands = runs[0][0].commands
    with_us, without_us = (median(pair[at].cpu_s for pair in runs) / commands * 1e6 for at in (0, 1))
    return {
        "kind": kind,
        "commands": commands,
        "with_us": round(with_us, 1),
        "without_us": round(without_us, 1),
        "ratio": round(median(pair[1].cpu_s / pair[0].cpu_s for pair in runs), 2),
        "calls_with": round(counted[0].calls / counted[0].commands),
        "calls_without": round(counted[1].calls / counted[1].commands),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="small matrices, one round")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    for kind, (side, counted_side) in SIDES.items():
        sides = (counted_side, counted_side) if options.quick else (side, counted_side)
        rows.append(measure(kind, *sides, 1 if options.quick else options.rounds))
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    print(f"{'kernel':18}{'commands':>9}{'with':>12}{'without':>12}{'ratio':>7}{'calls':>7}{'without':>9}")
    for row in rows:
        print(
            f"{row['kind']:18}{row['commands']:9}{row['with_us']:9} us{row['without_us']:9} us{row['ratio']:7}"
            f"{row['calls_with']:7}{row['calls_without']:9}"
        )


if __name__ == "__main__":
    main()
