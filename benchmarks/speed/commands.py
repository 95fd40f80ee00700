"""The simulator's cost of a command of a kernel, over its cost of a tile stage of a composite on the same chip.

    python benchmarks/speed/commands.py                        # five kinds of commands, and softmax: half a minute
    python benchmarks/speed/commands.py --against ../other     # in turns with the code of another checkout
    python benchmarks/speed/commands.py --quick                # few commands, one round: seconds
    python benchmarks/speed/commands.py --json

Kernels on the eight PEs of `one_cube` issue commands of one kind in a loop. The cost of one is the difference of two
runs, so that starting the kernels does not count. Seconds are CPU time from the kernel's call to the closed op log.
Calls of Python functions are counted in another run: their number does not depend on the machine. The composite is a
product of f16 in tiles of 128 x 128 x 128, simulated event by event: skipping tiles in steady state would make a
stage cheaper, and the unit would no longer be a stage. Each kind has a process of its own.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from inspect import signature
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

CHECKOUT = Path(__file__).parents[2]
STAGE, SOFTMAX = "composite", "softmax"
PES, ROWS, COLS = 8, 4, 512
"""A command works on ROWS x COLS elements."""
TIMED, COUNTED = (2048, 256), (1024, 512)
"""Turns of the loops of all PEs together, in the longer and in the shorter run."""
Sizes = tuple[int, int]
Simulate = Callable[[int], "tuple[Any, Callable[[], object]]"]
"""Makes an engine of some size, and the function that runs it."""


class Cost(NamedTuple):
    """CPU time in microseconds, calls of Python functions and rows of `ops`, each for one command or stage."""

    cpu_us: float
    calls: float
    records: float


class Row(NamedTuple):
    """The cost of commands of one kind with the code of one checkout, also in stages of its composite."""

    checkout: str
    kind: str
    cpu_us: float
    stages: float
    calls: float
    records: float


def load(tl: Any, x: Any, y: Any, turns: int) -> None:
    first = tl.program_id() * x.shape[0] // PES
    for turn in range(turns):
        tl.load(x[first + ROWS * (turn % 64) : first + ROWS * (turn % 64 + 1), :])


def store(tl: Any, x: Any, y: Any, turns: int) -> None:
    first = tl.program_id() * x.shape[0] // PES
    value = tl.load(x[first : first + ROWS, :])
    for turn in range(turns):
        tl.store(y[first + ROWS * (turn % 64) : first + ROWS * (turn % 64 + 1), :], value)


def one_op(tl: Any, x: Any, y: Any, turns: int) -> None:
    first = tl.program_id() * x.shape[0] // PES
    value = tl.load(x[first : first + ROWS, :])
    for _ in range(turns):
        tl.wait(value + 1)


def seven_ops(tl: Any, x: Any, y: Any, turns: int) -> None:
    first = tl.program_id() * x.shape[0] // PES
    value = tl.load(x[first : first + ROWS, :])
    for _ in range(turns):
        wide = value.to("f32")
        powers = tl.exp(wide - tl.max(wide, axis=1))
        tl.wait((powers / tl.sum(powers, axis=1)).to("f16"))


def dot(tl: Any, x: Any, y: Any, turns: int) -> None:
    first = tl.program_id() * x.shape[0] // PES
    a, b = (tl.load(x[first : first + 64, col : col + 64]) for col in (0, 64))
    for _ in range(turns):
        tl.wait(tl.dot(a, b))


KERNELS: dict[str, Callable[..., None]] = {
    "load": load,
    "store": store,
    "vector program, 1 op": one_op,
    "vector program, 7 ops": seven_ops,
    "dot": dot,
}


class Session:
    """One process: simulations on `one_cube` with the packages of this interpreter."""

    def __init__(self, checkout: Path) -> None:
        from kb_topology import load_topology

        self._checkout = checkout
        self._topology = load_topology(checkout / "topologies/one_cube.yaml")

    def host(self, **options: Any) -> Any:
        """A host of an engine with *options*. An engine of a checkout that does not know them skips no tiles either."""
        from kb_dataexec import MemoryLogWriter
        from kb_engine import Engine, Host

        known = {name: each for name, each in options.items() if name in signature(Engine).parameters}
        return Host(Engine(self._topology, MemoryLogWriter(), **known), Path(__file__).parent)

    def loop(self, kind: str, turns: int) -> tuple[Any, Callable[[], object]]:
        """An engine, and the function that runs *turns* of the loop of *kind* on its PEs."""
        import numpy as np

        host = self.host()
        slices = [pe * host.num_slices // host.num_pes for pe in range(PES)]
        data = np.zeros((PES * 64 * ROWS, COLS), np.float16)
        x, y = (host.tensor(name, data, "f16", blocks=(PES, 1), slices=slices) for name in "xy")
        return host.engine, lambda: host.launch(KERNELS[kind], x, y, turns // PES, pes=range(PES))

    def composite(self, side: int) -> tuple[Any, Callable[[], object]]:
        """An engine, and the function that runs benchmarks/gemm.py of *side* cubed, operands in each PE's own slice."""
        from kb_engine import TileShape

        sizes = {"M": side, "N": side, "K": side}
        return self._bundled("gemm", {"exact": "events"}, tile=TileShape(128, 128, 128), operands="replicated", **sizes)

    def softmax(self, rows: int) -> tuple[Any, Callable[[], object]]:
        """An engine, and the function that runs benchmarks/softmax.py on *rows* rows of 4096, four at a time."""
        return self._bundled("softmax", {}, M=rows, N=4096, rows=4)

    def _bundled(self, name: str, options: dict[str, Any], **params: Any) -> tuple[Any, Callable[[], object]]:
        import numpy as np

        from kb_engine import Benchmark

        spec = spec_from_file_location(name, self._checkout / f"benchmarks/{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        types = [each for each in vars(module).values() if isinstance(each, type)]
        benchmark = next(each for each in types if issubclass(each, Benchmark) and each is not Benchmark)()
        host = self.host(**options)
        of_kind = benchmark.Params(**params)
        calls: list[Callable[[], object]] = []
        launch = host.launch
        host.launch = lambda *arguments, **named: calls.append(lambda: launch(*arguments, **named))
        benchmark.launch(host, of_kind, benchmark.inputs(of_kind, np.random.default_rng(0)))
        return host.engine, calls[0]


class Ran(NamedTuple):
    """A simulation: CPU seconds, calls of Python functions if they were counted, commands and rows of `ops`."""

    cpu_s: float
    calls: int
    commands: int
    records: int


def ran(simulation: tuple[Any, Callable[[], object]], count: bool = False) -> Ran:
    """Runs the function of *simulation* on its engine."""
    engine, run = simulation
    calls = 0

    def note(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    gc.collect()
    if count:
        sys.setprofile(note)
    began = time.process_time()
    run()
    engine.close_log()
    cpu_s = time.process_time() - began
    sys.setprofile(None)
    return Ran(cpu_s, calls, engine.session.commands_issued, engine.session.n_ops)


def measure(kind: str, quick: bool, checkout: Path) -> Cost:
    """The cost of a command of *kind* or of a stage of the composite; for softmax, the cost of the whole kernel.

    With *quick*, the runs whose calls are counted are also the timed ones.
    """
    session = Session(checkout)
    simulate, sizes, counted_sizes = _runs_of(session, kind)
    ran(simulate(counted_sizes[1]))  # imports, and what the code remembers
    few_counted, many_counted = (ran(simulate(size), count=True) for size in counted_sizes[::-1])
    few, many = few_counted, many_counted
    if not quick:
        few, many = (ran(simulate(size)) for size in sizes[::-1])
    if kind == SOFTMAX:
        return Cost(many.cpu_s * 1e6, many_counted.calls, many.records)
    of = (lambda each: each.records) if kind == STAGE else (lambda each: each.commands)
    n, n_counted = of(many) - of(few), of(many_counted) - of(few_counted)
    records = (many.records - few.records) / n
    return Cost((many.cpu_s - few.cpu_s) / n * 1e6, (many_counted.calls - few_counted.calls) / n_counted, records)


def _runs_of(session: Session, kind: str) -> tuple[Simulate, Sizes, Sizes]:
    """The maker of a simulation of some size, the two sizes to time, and the two sizes whose calls are counted."""
    if kind == STAGE:
        return session.composite, (2048, 512), (512, 256)
    if kind == SOFTMAX:
        return session.softmax, (4096, 256), (64, 32)
    return lambda turns: session.loop(kind, turns), TIMED, COUNTED


def in_process(kind: str, quick: bool, checkout: Path) -> Cost:
    """`measure` in a process of its own, with the packages of *checkout*."""
    python = checkout / ".venv/bin/python" if checkout != CHECKOUT else Path(sys.executable)
    command = [str(python), __file__, "--one", kind, "--checkout", str(checkout), *(["--quick"] if quick else [])]
    return Cost(*json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout))


def rows_of(checkouts: list[Path], rounds: int, quick: bool) -> list[Row]:
    """A row for each kind and checkout; CPU times are medians, and checkouts take turns."""
    found: dict[tuple[Path, str], list[Cost]] = {}
    for _ in range(rounds):
        for kind in (STAGE, *KERNELS, SOFTMAX):
            for checkout in checkouts:
                found.setdefault((checkout, kind), []).append(in_process(kind, quick, checkout))
    cpu_us = {key: median(cost.cpu_us for cost in costs) for key, costs in found.items()}
    return [
        Row(checkout.name, kind, each, each / cpu_us[checkout, STAGE], *found[checkout, kind][0][1:])
        for (checkout, kind), each in cpu_us.items()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="another checkout, with its packages in .venv")
    parser.add_argument("--quick", action="store_true", help="few commands, one round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--checkout", type=Path, default=CHECKOUT, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.quick, options.checkout)))
        return 0
    checkouts = [CHECKOUT]
    if options.against is not None:
        if not (options.against / ".venv/bin/python").exists():
            needs = "a checkout with its packages in .venv; make it with `uv sync` there"
            print(f"--against {options.against}: got no .venv/bin/python, needs {needs}", file=sys.stderr)
            return 2
        checkouts.append(options.against.resolve())
    rows = rows_of(checkouts, 1 if options.quick else options.rounds, options.quick)
    if options.json:
        print(json.dumps({"rows": [row._asdict() for row in rows]}, indent=2))
        return 0
    print(f"{'checkout':14}{'kind':24}{'CPU':>12}{'stages':>9}{'calls':>10}{'records':>9}")
    for row in rows:
        shown = f"{row.cpu_us / 1e6:10.3f} s" if row.kind == SOFTMAX else f"{row.cpu_us:9.1f} us"
        print(f"{row.checkout:14}{row.kind:24}{shown}{row.stages:9.1f}{row.calls:10.1f}{row.records:9.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
