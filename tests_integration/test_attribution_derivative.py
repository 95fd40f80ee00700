"""A cost that is one picosecond longer makes a launch longer by as many picoseconds as its path has segments of it.

So the path's causes are right: with another cause somewhere, some segments would be those of other costs. Where several
causes came at the same time, the way not taken may be longer afterwards. And where requests of two PEs take turns on a
link or with parts of a write, the log does not tell whose bytes a wait is made of. Those paths are left out.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kb_dataexec import MemoryLogWriter, OpLog
from kb_dataexec.analysis import LaunchWhere
from kb_engine import Engine, Host
from kb_topology import loads_topology

ROOT = Path(__file__).parents[1]
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "benchmarks" / "validation")
    patch.syspath_prepend(Path(__file__).parent / "attribution")
    random_kernels = import_module("random_kernels")
    laws, blocks = import_module("attribution_laws"), import_module("attribution_blocks")

LEVERS = {
    "GEMM": ("impl: longer.pe_gemm", "impl: longer.pe_gemm, longer_ps: 1", ("pe_gemm", "gemm")),
    "MATH": ("impl: longer.pe_math", "impl: longer.pe_math, longer_ps: 1", ("pe_math", "math")),
    "FETCH and STORE": ("bw_gbs: 512, latency_ns: 2", "bw_gbs: 512, latency_ns: 2.001", ("pe_fetch_store", "")),
    "set-up": ("setup_ns: 5", "setup_ns: 5.001", ("pe_dma", "setup")),
    "memory": ("latency_ns: 45", "latency_ns: 45.001", ("hbm", "latency")),
    "decode": ("command_ns: 8", "command_ns: 8.001", ("pe_scheduler", "decode")),
    "issue": ("issue_ns: 4", "issue_ns: 4.001", ("pe_cpu", "issue")),
}
"""What a topology says, what makes a cost 1 ps longer, and the block and the work of its segments."""


def serial(tl: Any, x: Any, y: Any) -> None:
    for row in range(0, 48, 16):
        value = tl.load(x[row : row + 16, 0:48])
        tl.store(y[row : row + 16, 0:48], tl.exp(value))
    tl.wait(tl.composite("gemm", x[0:40, 0:24], x[0:24, 0:40], out=y[0:40, 0:40], tile=(40, 40, 24)))


def pipelined(tl: Any, x: Any, y: Any) -> None:
    tl.composite("gemm", x, x, out=y, tile=(16, 16, 24), epilogue=(tl.relu(),))


def mixed(tl: Any, x: Any, y: Any) -> None:
    done = tl.composite("gemm", x[0:70, 0:60], x[0:60, 0:50], out=y[0:70, 0:50], tile=(32, 16, 24))
    value = tl.load(x[0:30, 0:40])
    tl.store(y[72:90, 0:40], tl.relu(value[0:18, 0:40]) if tl.program_id() > 9 else tl.exp(tl.load(x[0:18, 0:40])))
    tl.wait(done)


def reads(tl: Any, x: Any, y: Any) -> None:
    """The PEs read at different times, and the memory is busy with one when another comes."""
    first = 8 * (1 + tl.program_id())
    tl.load(x[0:first, 0:96])
    for row in range(first, 90, 30):
        tl.wait(tl.exp(tl.load(x[row : row + 5 + tl.program_id(), 0:96])))


def topology_text(chip: str, issue: str, outstanding: int) -> str:
    text = (ROOT / "topologies" / f"{chip}.yaml").read_text(encoding="utf-8")
    for old, new in (
        ("builtin.pe_gemm", "longer.pe_gemm"),
        ("builtin.pe_math", "longer.pe_math"),
        ("builtin.pe_cpu", f"builtin.pe_cpu, issue: {issue}"),
        ("builtin.pe_dma", f"builtin.pe_dma, outstanding: {outstanding}"),
    ):
        assert old in text
        text = text.replace(old, new)
    return text


def log_of(text: str, kernel: Callable[..., None], pes: int, launches: int) -> OpLog:
    host = Host(
        Engine(loads_topology(text, "x.yaml"), MemoryLogWriter(), registry=blocks.registry()), Path(__file__).parent
    )
    x = host.tensor("x", np.ones((96, 96), np.float32), "f32", slices=[0])
    y = host.tensor("y", np.ones((96, 96), np.float32), "f32", slices=[0])
    for _ in range(launches):
        host.launch(kernel, x, y, pes=range(pes))
    log = host.engine.close_log()
    assert isinstance(log, OpLog)
    return log


def latency_ps(launch: LaunchWhere) -> int:
    return launch.kernels_end_ps - launch.kernels_start_ps


def segments_of(launch: LaunchWhere, block: str, what: str) -> int:
    return sum(row.segments for row in launch.rows if row.block == block and what in ("", row.what))


CASES = [
    (kernel, chip, pes, issue, outstanding)
    for kernel in (serial, pipelined, mixed, reads)
    for chip, pes in (("one_pe", 1), ("one_cube", 3))
    for issue, outstanding in (("blocking", 1), ("scoreboard", 1), ("blocking", 4))
]


FOLLOWED = {
    (serial, "one_pe"): set(LEVERS),
    (pipelined, "one_pe"): {"GEMM", "FETCH and STORE", "set-up", "memory", "decode", "issue"},
    (reads, "one_cube"): {"MATH", "set-up", "memory", "decode", "issue"},
}
"""Costs that have segments on the path of each of these kernels, without ties and without untold waits."""


def is_exact(launch: LaunchWhere) -> bool:
    return not launch.ties and not [row for row in launch.rows if row.what in ("busy with others", "shared")]


@pytest.mark.parametrize(("kernel", "chip", "pes", "issue", "outstanding"), CASES)
def test_a_longer_cost_delays_the_end_by_its_segments(
    kernel: Callable[..., None], chip: str, pes: int, issue: str, outstanding: int
) -> None:
    text = topology_text(chip, issue, outstanding)
    before = laws.check_laws(log_of(text, kernel, pes, 2)).launches
    held = set()
    for name, (old, new, place) in LEVERS.items():
        assert old in text
        after = laws.check_laws(log_of(text.replace(old, new), kernel, pes, 2)).launches
        for one, other in zip(before, after, strict=True):
            if is_exact(one):
                count = segments_of(one, *place)
                assert latency_ps(other) - latency_ps(one) == count, name
                held |= {name} if count else set()
    if kernel is reads and chip == "one_cube":
        assert any(row.via == "memory" and row.ps for launch in before for row in launch.rows)
    if (issue, outstanding) == ("blocking", 1):
        assert FOLLOWED.get((kernel, chip), set()) <= held
