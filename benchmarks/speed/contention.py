"""The simulator's cost of contention: one GEMM whose PEs read their own slices, and one whose PEs compete for a few.

    python benchmarks/speed/contention.py                        # pass 1 alone, without a log
    python benchmarks/speed/contention.py --log --rounds 3
    python benchmarks/speed/contention.py --against ../other     # in turns with the code of another checkout

    python benchmarks/speed/contention.py --quick                # a smaller GEMM: ten seconds

The GEMM is benchmarks/gemm.py with M=512 N=1024 K=256, f16, in tiles of 32 x 32 x 64. It runs on `one_sip` with
operands=replicated and with operands=one_slice, and on `four_sip` with operands=one_slice. Each run has a process of
its own. Seconds are wall time from the kernel's call to the closed log, and CPU time of the process in between. Events
are entries of the clock's queue. Calls of SharedLink are counted in another run, because counting takes time.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import subprocess
import sys
import time
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

CHECKOUT = Path(__file__).parents[2]
FULL, QUICK = {"M": 512, "N": 1024, "K": 256}, {"M": 128, "N": 256, "K": 64}
TILE = (32, 32, 64)
CASES = (("one_sip", "replicated"), ("one_sip", "one_slice"), ("four_sip", "one_slice"))
"""(topology, operands)."""
TOO_LONG = "more than {:g} s; raise --limit to wait for it"


class Row(NamedTuple):
    """One case with the code of one checkout. Seconds are the median over the rounds; None after the time limit.

    `calls_a_stage` is None where the counting run takes longer than the limit.
    """

    checkout: str
    topology: str
    operands: str
    latency_ps: int | None
    stages: int | None
    wall_s: float | None
    cpu_s: float | None
    events_a_stage: float | None
    calls_a_stage: float | None

    @property
    def ns_a_stage(self) -> float | None:
        """CPU time of a stage, so that other programs on the machine count less."""
        return None if self.cpu_s is None or not self.stages else self.cpu_s / self.stages * 1e9


class Options(NamedTuple):
    """Options of all runs. A process may take *limit_s* seconds."""

    quick: bool = False
    log: bool = False
    limit_s: float = 120

    @property
    def sizes(self) -> dict[str, int]:
        """M, N and K."""
        return QUICK if self.quick else FULL


def simulate(checkout: Path, topology: str, operands: str, options: Options, count: bool) -> dict[str, Any]:
    """Run one case with the packages of this interpreter. With *count*, count the calls of SharedLink."""
    import numpy as np

    from kb_dataexec import MemoryLogWriter
    from kb_engine import Benchmark, Engine, Host, TileShape
    from kb_topology import load_topology

    calls = _count_calls() if count else [0]
    engine = Engine(load_topology(checkout / f"topologies/{topology}.yaml"), MemoryLogWriter() if options.log else None)
    host = Host(engine, checkout / "benchmarks")
    found = [each for each in vars(_module(checkout / "benchmarks/gemm.py")).values() if isinstance(each, type)]
    gemm = next(each for each in found if issubclass(each, Benchmark) and each is not Benchmark)()
    known = get_args(get_type_hints(gemm.Params)["operands"])
    if operands not in known:
        raise SystemExit(
            f"{checkout}: got no operands={operands}, needs a checkout that has it beside {', '.join(known)}"
        )
    params = gemm.Params(**options.sizes, tile=TileShape(*TILE), operands=operands)
    inputs = gemm.inputs(params, np.random.default_rng(0))
    took: list[tuple[float, float, int]] = []
    launch = host.launch

    def timed(*arguments: Any, **named: Any) -> Any:
        gc.collect()
        before, cpu, wall = engine.clock.n_scheduled, time.process_time(), time.perf_counter()
        result = launch(*arguments, **named)
        engine.close_log()
        seconds = time.perf_counter() - wall, time.process_time() - cpu
        took.append((*seconds, engine.clock.n_scheduled - before))
        return result

    host.launch = timed  # type: ignore[method-assign]
    gemm.launch(host, params, inputs)
    (wall_s, cpu_s, events), result = took[0], host.launches[0]
    return {
        "latency_ps": result.end_ps - result.start_ps,
        "stages": sum(server.served for server in engine.servers),
        "events": events,
        "wall_s": wall_s,
        "cpu_s": cpu_s,
        "calls": calls[0],
    }


def _module(path: Path) -> Any:
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _count_calls() -> list[int]:
    """Counts the calls of methods of SharedLink and its bases from now on, also calls among these methods."""
    from types import FunctionType

    from kb_engine.fabric.sharing.shared_link import SharedLink

    calls = [0]

    def counted(method: Any) -> Any:
        def call(*arguments: Any) -> Any:
            calls[0] += 1
            return method(*arguments)

        return call

    for kind in SharedLink.__mro__[:-1]:
        for name, method in list(vars(kind).items()):
            if isinstance(method, FunctionType):
                setattr(kind, name, counted(method))
    return calls


def run(checkout: Path, case: tuple[str, str], options: Options, count: bool) -> dict[str, Any] | None:
    """Run one case in a process of *checkout*'s interpreter; None when it takes longer than the limit.

    Raises RuntimeError when the run fails.
    """
    python = checkout / ".venv/bin/python" if checkout != CHECKOUT else Path(sys.executable)
    switches = {"--quick": options.quick, "--log": options.log, "--count": count}
    command = [str(python), __file__, "--child", str(checkout), *case, *(name for name, on in switches.items() if on)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=options.limit_s)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        raise RuntimeError(f"{checkout}, {' '.join(case)}: {done.stderr.strip()}")
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return answer


def measure(checkouts: list[Path], rounds: int, options: Options) -> list[Row]:
    """A row for each case and checkout. In every round the checkouts run in turns."""
    rows = []
    for case in CASES:
        runs: dict[Path, list[dict[str, Any] | None]] = {checkout: [] for checkout in checkouts}
        for _ in range(rounds):
            for checkout, found in runs.items():
                if None not in found:  # it took too long once
                    found.append(run(checkout, case, options, count=False))
                    print(f"{checkout.name}, {' '.join(case)}: {_said(found[-1], options)}", file=sys.stderr)
        for checkout, found in runs.items():
            whole = [each for each in found if each is not None]
            ended = len(whole) == len(found)
            counted = run(checkout, case, options, count=True) if ended else None
            rows.append(_row(checkout, case, whole if ended else [], counted))
    return rows


def _said(answer: dict[str, Any] | None, options: Options) -> str:
    return TOO_LONG.format(options.limit_s) if answer is None else f"{answer['wall_s']:.2f} s"


def _row(checkout: Path, case: tuple[str, str], runs: list[dict[str, Any]], counted: dict[str, Any] | None) -> Row:
    if not runs:
        return Row(checkout.name, *case, None, None, None, None, None, None)
    stages = runs[0]["stages"]
    return Row(
        checkout.name,
        *case,
        latency_ps=runs[0]["latency_ps"],
        stages=stages,
        wall_s=statistics.median(each["wall_s"] for each in runs),
        cpu_s=statistics.median(each["cpu_s"] for each in runs),
        events_a_stage=runs[0]["events"] / stages,
        calls_a_stage=None if counted is None else counted["calls"] / stages,
    )


def text(rows: list[Row], options: Options) -> str:
    sizes, tile = " ".join(f"{name}={size}" for name, size in options.sizes.items()), "x".join(map(str, TILE))
    lines = [f"gemm {sizes} tile={tile} f16, op log {'on' if options.log else 'off'}"]
    lines.append(
        f"{'checkout':16}{'chip':10}{'operands':10}{'latency':>12}{'stages':>8}{'pass 1':>10}{'CPU':>10}"
        f"{'ns/stage':>10}{'events/stage':>14}{'calls/stage':>13}{'over local':>12}"
    )
    local = {row.checkout: row.ns_a_stage for row in rows if (row.topology, row.operands) == CASES[0]}
    for row in rows:
        name = f"{row.checkout:16}{row.topology:10}{row.operands:10}"
        ns_a_stage, base = row.ns_a_stage, local[row.checkout]
        if ns_a_stage is None or row.latency_ps is None:
            lines.append(f"{name}  {TOO_LONG.format(options.limit_s)}")
            continue
        calls = "-" if row.calls_a_stage is None else f"{row.calls_a_stage:.2f}"
        ratio = "-" if base is None else f"{ns_a_stage / base:.2f}"
        lines.append(
            f"{name}{row.latency_ps / 1e6:>9.1f} us{row.stages:>8}{row.wall_s:>8.2f} s{row.cpu_s:>8.2f} s"
            f"{ns_a_stage:>10.0f}{row.events_a_stage:>14.2f}{calls:>13}{ratio:>12}"
        )
    return "\n".join(lines)


def main() -> int:
    """Print the table, or JSON. The exit code is 2 for a checkout without an interpreter."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="another checkout with its packages installed in its .venv")
    parser.add_argument("--rounds", type=int, default=1, help="how often each case runs (default: 1)")
    parser.add_argument("--quick", action="store_true", help="a smaller GEMM")
    parser.add_argument("--limit", type=float, default=120, help="seconds that a process may take (default: 120)")
    parser.add_argument("--log", action="store_true", help="with the op log")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--count", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    options = Options(given.quick, given.log, given.limit)
    if given.child is not None:
        checkout, topology, operands = given.child
        print(json.dumps(simulate(Path(checkout), topology, operands, options, given.count)))
        return 0
    others = [] if given.against is None else [given.against.resolve()]
    for other in others:
        if not (other / ".venv/bin/python").exists():
            needs = "a checkout with its packages in .venv; make it with `uv sync` there"
            print(f"--against {other}: got no .venv/bin/python, needs {needs}", file=sys.stderr)
            return 2
    rows = measure([CHECKOUT, *others], given.rounds, options)
    if given.json:
        found = [{**row._asdict(), "ns_a_stage": row.ns_a_stage} for row in rows]
        print(json.dumps({"sizes": options.sizes, "tile": TILE, "log": options.log, "rows": found}, indent=2))
    else:
        print(text(rows, options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
