"""The gain of skipping programs in steady state: grids on `one_cube` with it and event by event, in turns.

    python benchmarks/speed/program_folds.py                       # 4096 x 4096, best of three: a minute or two
    python benchmarks/speed/program_folds.py --issue scoreboard    # PE_CPUs that issue ahead
    python benchmarks/speed/program_folds.py --watched             # with an observer of commands, as in `kb run`
    python benchmarks/speed/program_folds.py --quick               # 512 rows: seconds
    python benchmarks/speed/program_folds.py --json

Seconds are CPU time of pass 1, from the launch to the closed log. The script refuses to measure runs that differ in an
end or in a digest.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import yaml

from kb_dataexec import MemoryLogWriter
from kb_engine import Engine, Host, Language, TensorRef
from kb_engine.block import CommandInFlight
from kb_engine.observe import Observer
from kb_topology import Topology, loads_topology

ROOT = Path(__file__).parents[2]
COLUMNS = 4096


class Row(NamedTuple):
    """A kernel of `programs` programs, of which `skipped` were not simulated, and the seconds of both runs."""

    kernel: str
    programs: int
    log: bool
    skipped: int
    events_s: float
    folded_s: float


def softmax(tl: Language, x: TensorRef, y: TensorRef) -> None:
    row = slice(tl.program_id(), tl.program_id() + 1)
    wide = tl.load(x[row, :])
    powers = tl.exp(wide - tl.max(wide, axis=1))
    tl.store(y[row, :], powers / tl.sum(powers, axis=1))


def scaled(tl: Language, x: TensorRef, y: TensorRef) -> None:
    row = slice(tl.program_id(), tl.program_id() + 1)
    tl.store(y[row, :], tl.load(x[row, :]) * 2.0)


KERNELS: tuple[Callable[..., None], ...] = (softmax, scaled)


def chip(issue: str) -> Topology:
    """`one_cube` with PE_CPUs that issue as *issue* says."""
    spec = yaml.safe_load((ROOT / "topologies/one_cube.yaml").read_text())
    spec["cube"]["pe_template"]["nodes"]["pe_cpu"]["issue"] = issue
    return loads_topology(yaml.safe_dump(spec))


class Tally(Observer):
    """Counts the stages of commands."""

    def __init__(self) -> None:
        self.n_stages = 0

    def on_issue(self, command: CommandInFlight) -> None:
        """Counts the stages of an issued command."""
        self.n_stages += command.shared_plan.n_stages

    def on_issue_again(self, command: CommandInFlight, n: int) -> None:
        """Counts the stages of the commands of skipped programs."""
        self.n_stages += n * command.shared_plan.n_stages


class Way(NamedTuple):
    """The conditions of a run: with an op log or not, the issue of the PE_CPUs, and with a Tally as observer or not."""

    log: bool
    issue: str
    watched: bool


def run(kernel: Callable[..., None], rows: int, way: Way, exact: Any) -> tuple[float, int, object]:
    """The seconds of pass 1, the programs that were skipped, and the digest with the last picosecond and the stages."""
    tally = Tally()
    observers = [tally] if way.watched else []
    engine = Engine(chip(way.issue), MemoryLogWriter() if way.log else None, observers, exact=exact)
    host = Host(engine, ROOT)
    x = host.tensor("x", np.ones((rows, COLUMNS), np.float32), "f32")
    y = host.empty("y", x.shape, "f32")
    began = process_time()
    host.launch(kernel, x, y, grid=rows)
    written = engine.close_log()
    seconds = process_time() - began
    skipped = engine.work.skipped_programs
    return seconds, skipped, (engine.clock.now_ps, written and written.digest, tally.n_stages)


def measured(kernel: Callable[..., None], rows: int, way: Way, times: int) -> Row:
    """The best seconds of both runs, in turns."""
    seconds: dict[str, list[float]] = {"events": [], "isolated": []}
    found: dict[str, object] = {}
    skipped = 0
    for _ in range(times):
        for exact, known in seconds.items():
            took, skipped, found[exact] = run(kernel, rows, way, exact)
            known.append(took)
    if found["events"] != found["isolated"]:
        raise SystemExit(f"{kernel.__name__}: the runs differ")
    return Row(kernel.__name__, rows, way.log, skipped, min(seconds["events"]), min(seconds["isolated"]))


def text(rows: list[Row]) -> str:
    lines = [f"{'kernel':10}{'programs':>10}{'log':>6}{'skipped':>9}{'events':>10}{'folded':>10}{'ratio':>8}"]
    for each in rows:
        counts = f"{each.kernel:10}{each.programs:>10}{'yes' if each.log else 'no':>6}{each.skipped:>9}"
        ratio = each.events_s / each.folded_s
        lines.append(f"{counts}{each.events_s:>8.2f} s{each.folded_s:>8.2f} s{ratio:>8.1f}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    issues = ("blocking", "scoreboard", "decoupled")
    parser.add_argument("--issue", choices=issues, default="blocking", help="how PE_CPUs issue")
    parser.add_argument("--watched", action="store_true", help="with an observer of commands")
    parser.add_argument("--quick", action="store_true", help="512 rows, once")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    programs, times = (512, 1) if given.quick else (4096, 3)
    ways = [Way(log, given.issue, given.watched) for log in (False, True)]
    rows = [measured(kernel, programs, way, times) for kernel in KERNELS for way in ways]
    print(json.dumps([row._asdict() for row in rows], indent=2) if given.json else text(rows))


if __name__ == "__main__":
    main()
