"""Do runs that skip programs equal runs of every event? Random grids on random chips, both ways.

    python benchmarks/validation/program_folding.py                    # 2000 cases
    python benchmarks/validation/program_folding.py --cases 50 --first 7

A case is a kernel, its sizes, its grid and a chip. The two runs have to agree in the digest of the op log (all times,
waits, transfers and texts, and so the attribution), the result of the launch, the counters of all blocks, the counts of
all links, the busy times of the queues, the pending bytes, and all bytes. The exit code is 1 when a case differs.
"""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import yaml
from both_ways import Comparison, Outcome, compare_many, compared, memory_of, state_of
from copying_kernels import COPYING_PROGRAMS

from kb_dataexec import MemoryLogWriter
from kb_engine import DType, Engine, Host, Language, TensorRef
from kb_messages import KbError
from kb_topology import Topology, loads_topology

TOPOLOGIES = Path(__file__).parents[2] / "topologies"
_LIMIT = "kb_engine.fastforward.steady_state.program_skipper._FREE_SNAPSHOTS"
"""How many looks are free. Cases are short, and are searched whatever it costs."""
_LEAST_ISOLATED = "kb_engine.fastforward.isolated.isolated_commands.LEAST_ISOLATED_STAGES"
"""The stages from which on a command is isolated."""


def scaled(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """c = 3 a, some rows a program."""
    mine = slice(tl.program_id() * rows, tl.program_id() * rows + rows)
    tl.store(c[mine, :], tl.load(a[mine, :]) * 3.0)


def added(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """c = a + b, with both loads before the sum."""
    mine = slice(tl.program_id() * rows, tl.program_id() * rows + rows)
    left, right = tl.load(a[mine, :]), tl.load(b[mine, :])
    tl.store(c[mine, :], left + right)


def softmax(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """The softmax of some rows."""
    mine = slice(tl.program_id() * rows, tl.program_id() * rows + rows)
    x = tl.load(a[mine, :])
    powers = tl.exp(x - tl.max(x, axis=1))
    tl.store(c[mine, :], powers / tl.sum(powers, axis=1))


def in_place(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """a = a b, and a copy of it."""
    mine = slice(tl.program_id() * rows, tl.program_id() * rows + rows)
    product = tl.load(a[mine, :]) * tl.load(b[mine, :])
    tl.store(a[mine, :], product)
    tl.store(c[mine, :], product)


def same_weights(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """c = a + the first rows of b, which all programs load."""
    mine = slice(tl.program_id() * rows, tl.program_id() * rows + rows)
    tl.store(c[mine, :], tl.load(a[mine, :]) + tl.load(b[0:rows, :]))


def product(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """Some rows of c are the same rows of a times a square part of b, in two steps."""
    mine = slice(tl.program_id() * rows, tl.program_id() * rows + rows)
    total = 0
    for k in (0, 16):
        total = tl.dot(tl.load(a[mine, k : k + 16]), tl.load(b[k : k + 16, 0:32]), total)
    tl.store(c[mine, 0:32], total)


def columns(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """c = a + 1, a part of the columns a program."""
    row, part = divmod(tl.program_id(), 2)
    mine, half = slice(row * rows, row * rows + rows), slice(part * 32, part * 32 + 32)
    tl.store(c[mine, half], tl.load(a[mine, half]) + 1.0)


def handed_on(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """A program loads rows of c that one before has stored. From time to time it is another one."""
    program = tl.program_id()
    mine, later = program * rows, (program + 3 + program // 24) * rows
    x = tl.load(c[mine : mine + rows, :]) + tl.load(a[mine : mine + rows, :])
    tl.store(c[later : later + rows, :], x * 0.5)


def in_turns(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """Programs store to four places in turn, and load from there."""
    program = tl.program_id()
    mine, place = program * rows, program % 4 * rows
    x = tl.load(a[mine : mine + rows, :]) * 2.0
    tl.store(c[place : place + rows, :], x)
    tl.store(b[mine : mine + rows, :], tl.exp(tl.load(c[place : place + rows, :])))


def at_times_the_same(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """All programs store to one place. Of 48 programs 24 load from there, and the others from rows of their own."""
    program = tl.program_id()
    place = (program // 24 + 1) % 2 * (program + 1) * rows
    tl.store(c[0:rows, :], tl.exp(tl.load(c[place : place + rows, :])))


def composite(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """Rows of a, twice, with a product of several tiles in between."""
    mine = slice(tl.program_id() * rows, tl.program_id() * rows + rows)
    x = tl.load(a[mine, :])
    done = tl.composite("gemm", a[mine, 0:64], b[0:64, 0:64], out=c[mine, 0:64], tile=(16, 32, 32))
    tl.wait(done)
    tl.store(a[mine, :], x + x)


def many_turns(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """A vector program of many steps. A small register file cuts it into many pieces, so that it is isolated."""
    mine = slice(tl.program_id() * rows, tl.program_id() * rows + rows)
    v = x = tl.load(a[mine, :])
    for _ in range(12):
        x = x * v + 1.0
    tl.store(c[mine, :], x)


KERNELS: tuple[Callable[..., None], ...] = (scaled, added, softmax, in_place, same_weights, product, columns)
HANDING: tuple[Callable[..., None], ...] = (handed_on, in_turns, at_times_the_same, composite)
"""Kernels whose commands meet bytes of other programs, or are not alone in their PE."""
_MORE_ROWS = 3 + 600 // 24 + 1
"""Programs behind the last one whose rows a kernel may use."""


class Case(NamedTuple):
    """A chip, and the launch of a kernel on it: `tall` x `wide` elements, `rows` of them a program, on `pes` PEs."""

    spec: dict[str, Any]
    kernel: Callable[..., None]
    programs: int
    rows: int
    wide: int
    pes: int
    schedule: str
    isolates: bool


@cache
def _base() -> dict[str, Any]:
    spec: dict[str, Any] = yaml.safe_load((TOPOLOGIES / "one_cube.yaml").read_text())
    return spec


def draw(seed: int) -> Case:
    """The case of *seed*."""
    rng = random.Random(f"program folding {seed}")
    spec = copy.deepcopy(_base())
    spec["hbm_interleave_nbytes"] = rng.choice((256, 256, 512, 1024, 64))
    cube = spec["cube"]
    nodes, pe = cube["nodes"], cube["pe_template"]["nodes"]
    nodes["hbm"]["bw_gbs"] = rng.choice((51.2, 102.4, 102.4, 204.8, 33.3))
    nodes["hbm"]["latency_ns"] = rng.choice((0, 16.25, 45, 120))
    nodes["xbar"]["overhead_ns"] = rng.choice((0, 2, 4.5))
    for link in cube["links"]:
        link["bw_gbs"] = rng.choice((link["bw_gbs"], link["bw_gbs"], 64, 100, 256))
        link["length_mm"] = rng.choice((0, 2, 3, 17.5))
    pe["pe_cpu"] |= {"issue_ns": rng.choice((0, 1, 4, 10)), "program_ns": rng.choice((0, 20, 100))}
    pe["pe_cpu"]["issue"] = rng.choice(("blocking", "blocking", "scoreboard", "scoreboard", "scoreboard", "decoupled"))
    pe["pe_scheduler"]["command_ns"] = rng.choice((0, 8, 16))
    pe["pe_dma"]["setup_ns"] = rng.choice((0, 5, 15))
    pe["pe_math"] |= {"lanes": rng.choice((4, 32, 128)), "clock_ghz": rng.choice((0.5, 1.0, 1.7))}
    pe["pe_fetch_store"]["memory"]["size"] = rng.choice(("64 KiB", "128 KiB", "512 KiB"))
    kernel = rng.choice(KERNELS)
    pes = rng.choice((1, 2, 3, 4, 8, 8))
    wide = 64 if kernel in (product, columns) else rng.choice((64, 64, 128, 256, 512, 512, 1024, 100, 72))
    programs, rows = pes * rng.randint(20, 70) + rng.randrange(pes), rng.choice((1, 1, 2, 4))
    schedule = rng.choice(("dynamic", "dynamic", "static"))
    pe["pe_dma"] |= {"outstanding": rng.choice((1, 1, 2, 4)), "answers": rng.choice(("any_order", "in_order"))}
    pe["pe_scheduler"] |= {
        "submission_depth": rng.choice((1, 2, 8)),
        "compute_slots": rng.choice(("shared", "independent")),
    }
    for block in ("pe_dma", "pe_fetch_store", "pe_gemm", "pe_math"):
        pe[block]["queue_depth"] = rng.choice((1, 4))
    if rng.random() < 0.3:
        kernel, wide = rng.choice(HANDING), rng.choice((512, 512, 1024, 128))
    if rng.random() < 0.3:
        kernel = rng.choice(COPYING_PROGRAMS)
    shorten_tcm(pe, rng)
    isolates = rng.random() < 0.3
    if rng.random() < 0.15:
        kernel, wide, rows = many_turns, rng.choice((256, 512, 1024)), rng.choice((1, 2, 4))
        pe["pe_fetch_store"]["memory"]["size"] = rng.choice(("4 KiB", "8 KiB"))
    return Case(spec, kernel, programs, rows if kernel is not product else 16, wide, pes, schedule, isolates)


def shorten_tcm(pe: dict[str, Any], rng: random.Random) -> None:
    """Leave little TCM beside the tile buffers of a PE that issues decoupled: programs get the same bytes again soon.

    In the TCM of the bundled chip a period of such programs is longer than a case.
    """
    if pe["pe_cpu"]["issue"] == "decoupled":
        buffers_kib = pe["pe_scheduler"]["input_kib"] + pe["pe_scheduler"]["output_kib"]
        pe["pe_tcm"]["memory"]["size"] = f"{buffers_kib + rng.choice((8, 16, 24, 32))} KiB"


def run(case: Case, topology: Topology, exact: Any, log: bool = True) -> Outcome:
    """Runs *case*, and skips programs where *exact* is `isolated`."""
    engine = Engine(topology, MemoryLogWriter() if log else None, exact=exact)
    host = Host(engine, Path(__file__).parent)
    shape = case.programs * case.rows, case.wide
    more = np.arange((shape[0] + _MORE_ROWS * case.rows) * case.wide, dtype=np.float32).reshape(-1, case.wide)
    data = {"a": more[: shape[0]], "b": more + 1, "c": more + 2}
    tensors = [host.tensor(name, each, DType.F32) for name, each in data.items()]
    try:
        least = {_LEAST_ISOLATED: 1} if case.isolates else {}
        with ExitStack() as patches:
            for name, value in {_LIMIT: 1 << 20, **least}.items():
                patches.enter_context(mock.patch(name, value))
            result = host.launch(
                case.kernel, *tensors, case.rows, pes=range(case.pes), grid=case.programs, schedule=case.schedule
            )
    except KbError as error:
        return Outcome({"refusal": str(error)}, 0)
    found = state_of(engine, result, engine.close_log()) | memory_of(engine, tensors)
    return Outcome(found, getattr(getattr(engine.fast_forward, "grids", None), "skipped_programs", 0))


def compare(seed: int) -> Comparison:
    """The case of *seed* both ways; one in four without a log."""
    case = draw(seed)
    topology = loads_topology(yaml.safe_dump(case.spec))
    simulated, skipping = (run(case, topology, exact, bool(seed % 4)) for exact in ("events", "isolated"))
    return compared(seed, skipping, simulated)


if __name__ == "__main__":
    sys.exit(compare_many(__doc__, compare, 2000, "programs"))
