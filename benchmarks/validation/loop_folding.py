"""Are turns of loops that were folded those of every event? Runs random kernels with loops, folded and event by event.

    python benchmarks/validation/loop_folding.py                    # 2000 cases
    python benchmarks/validation/loop_folding.py --cases 50 --first 7

A case is a kernel with a loop, one program of it on each PE, tensors in blocks near the PEs or over all slices, and a
random chip, as in program_folding.py. What has to be equal is what it has to be there. The exit code is 1 when a case
differs.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import yaml
from both_ways import Comparison, Outcome, compare_many, compared, memory_of, state_of
from copying_kernels import COPIES
from program_folding import TOPOLOGIES, draw, shorten_tcm

from kb_dataexec import MemoryLogWriter
from kb_engine import DType, Engine, Host, Language, TensorRef
from kb_messages import KbError
from kb_topology import Topology, loads_topology

_LIMIT = "kb_engine.launch.grid_folding._FREE_LOOKS"


def scaled(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """c = 3 a; the last turn may have fewer rows."""
    m = a.shape[0]
    first, last = (number * m // tl.num_programs() for number in (tl.program_id(), tl.program_id() + 1))
    for start in range(first, last, rows):
        part = slice(start, min(start + rows, last))
        tl.store(c[part, :], tl.load(a[part, :]) * 3.0)


def softmax(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """The softmax of some rows a turn. Values live on into the next turn."""
    first = tl.program_id() * (a.shape[0] // tl.num_programs())
    for turn in range(a.shape[0] // tl.num_programs() // rows):
        mine = slice(first + turn * rows, first + turn * rows + rows)
        x = tl.load(a[mine, :])
        powers = tl.exp(x - tl.max(x, axis=1))
        tl.store(c[mine, :], powers / tl.sum(powers, axis=1))


def summed(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """The sum of all parts of the program's rows, in TCM."""
    first = tl.program_id() * (a.shape[0] // tl.num_programs())
    total = tl.load(b[first : first + rows, :])
    for turn in range(a.shape[0] // tl.num_programs() // rows):
        total = total + tl.load(a[first + turn * rows : first + turn * rows + rows, :])
        tl.wait(total)
    tl.store(c[first : first + rows, :], total)


def ahead(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """c = a + b, with what the next turn needs of a loaded before."""
    turns = a.shape[0] // tl.num_programs() // rows
    first = tl.program_id() * turns * rows
    left = tl.load(a[first : first + rows, :])
    for turn in range(turns):
        mine, later = first + turn * rows, first + (turn + 1) % turns * rows
        right = tl.load(b[mine : mine + rows, :])
        then = tl.load(a[later : later + rows, :])
        tl.store(c[mine : mine + rows, :], left + right)
        left = then


def in_place(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """Each turn loads what the one before has stored."""
    first = tl.program_id() * (a.shape[0] // tl.num_programs())
    for _ in range(a.shape[0] // tl.num_programs() // rows):
        tl.store(c[first : first + rows, :], tl.load(c[first : first + rows, :]) * 0.5)


def products(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """Each turn has products with the same square, and an inner loop."""
    first = tl.program_id() * (a.shape[0] // tl.num_programs())
    square = tl.load(b[first : first + rows, 0:rows])
    for turn in range(a.shape[0] // tl.num_programs() // rows):
        mine = slice(first + turn * rows, first + turn * rows + rows)
        for start in range(0, 32, 16):
            tl.store(c[mine, start : start + 16], tl.dot(square, tl.load(a[mine, start : start + 16])))


def shared(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """All programs load the same rows of b, which meets others on the way."""
    turns = a.shape[0] // tl.num_programs() // rows
    first = tl.program_id() * turns * rows
    for turn in range(turns):
        mine = slice(first + turn * rows, first + turn * rows + rows)
        tl.store(c[mine, :], tl.load(a[mine, :]) + tl.load(b[turn * rows : turn * rows + rows, :]))


def uneven(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """Programs take as many turns more as their number says."""
    first = tl.program_id() * (a.shape[0] // tl.num_programs())
    for turn in range(20 + tl.program_id()):
        tl.store(c[first : first + rows, :], tl.load(a[first : first + rows, :]) + turn)


def in_turns(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """Turns store to four places in turn, and load what lies there."""
    turns = a.shape[0] // tl.num_programs() // rows
    first = tl.program_id() * turns * rows
    for turn in range(turns):
        mine, place = first + turn * rows, first + turn % 4 * rows
        tl.store(c[place : place + rows, :], tl.load(a[mine : mine + rows, :]) * 2.0)
        tl.store(b[mine : mine + rows, :], tl.exp(tl.load(c[place : place + rows, :])))


def at_times_the_same(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """All turns store to one place. Half of them load from there, and the others from rows of their own."""
    turns = a.shape[0] // tl.num_programs() // rows
    first = tl.program_id() * turns * rows
    for turn in range(turns):
        place = first + (turn * rows if turn < turns // 2 else 0)
        tl.store(c[first : first + rows, :], tl.exp(tl.load(c[place : place + rows, :])))


def handed_on(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """A turn loads rows that one before has stored: the one before at first, and later one that is further back."""
    turns = a.shape[0] // tl.num_programs() // rows
    first = tl.program_id() * turns * rows
    for turn in range(turns):
        mine, before = first + turn * rows, first + max(0, turn - 1 - turn // 12) * rows
        tl.store(c[mine : mine + rows, :], tl.load(c[before : before + rows, :]) + tl.load(a[mine : mine + rows, :]))


def early(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """Loads that are asked for before they are needed, and waited for."""
    turns = a.shape[0] // tl.num_programs() // rows
    first = tl.program_id() * turns * rows
    for turn in range(turns):
        mine = slice(first + turn * rows, first + turn * rows + rows)
        left, right = tl.load_async(a[mine, :]), tl.load_async(b[mine, :])
        tl.wait(right)
        tl.store(c[mine, :], left + right)


def composites(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, rows: int) -> None:
    """Each turn has a product of several tiles, and waits for it."""
    turns = a.shape[0] // tl.num_programs() // rows
    first = tl.program_id() * turns * rows
    for turn in range(turns):
        mine = slice(first + turn * rows, first + turn * rows + rows)
        x = tl.load(a[mine, :])
        done = tl.composite("gemm", a[mine, 0:64], b[0:64, 0:64], out=c[mine, 0:64], tile=(16, 32, 32))
        tl.wait(done)
        tl.store(b[mine, :], x + x)


KERNELS: tuple[Callable[..., None], ...] = (scaled, softmax, summed, ahead, in_place, products, shared, uneven)
ISSUING: tuple[Callable[..., None], ...] = (in_turns, at_times_the_same, handed_on, early, composites)
"""Kernels whose turns meet bytes of other turns, or that wait themselves."""


class Case(NamedTuple):
    """A chip, and the launch of a kernel on *pes* PEs of it: `turns` turns of `rows` rows of `wide` elements each."""

    spec: dict[str, Any]
    kernel: Callable[..., None]
    pes: int
    turns: int
    rows: int
    wide: int
    is_local: bool


def drawn(seed: int) -> Case:
    """The case of *seed*."""
    rng = random.Random(f"loop folding {seed}")
    spec = draw(seed).spec if rng.random() < 0.5 else yaml.safe_load((TOPOLOGIES / "one_cube.yaml").read_text())
    pe = spec["cube"]["pe_template"]["nodes"]
    pe["pe_cpu"]["issue"] = rng.choice(("blocking", "scoreboard", "scoreboard", "decoupled"))
    shorten_tcm(pe, rng)
    kernel, is_local = rng.choice(rng.choice((KERNELS, ISSUING, COPIES, COPIES))), rng.random() < 0.6
    if is_local:
        spec["hbm_interleave_nbytes"] = 0
    rows, wide = rng.choice((1, 1, 2, 4)), rng.choice((64, 64, 128, 512, 512, 1024, 100, 72))
    if kernel in (products, composites):
        rows, wide = 16, 64
    return Case(spec, kernel, rng.choice((4, 5, 7, 8, 8, 8)), rng.randint(17, 60), rows, wide, is_local)


def run(case: Case, topology: Topology, exact: Any, log: bool = True) -> Outcome:
    """*case*, folded or event by event."""
    engine = Engine(topology, MemoryLogWriter() if log else None, exact=exact)
    host = Host(engine, Path(__file__).parent)
    shape = case.pes * case.turns * case.rows, case.wide
    data = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
    near: dict[str, Any] = {}
    if case.is_local:
        slices = [number * host.num_slices // case.pes for number in range(case.pes)]
        near = {"blocks": (case.pes, 1), "slices": slices}
    tensors = [host.tensor(name, data + number, DType.F32, **near) for number, name in enumerate("abc")]
    try:
        with mock.patch(_LIMIT, 1 << 20):
            result = host.launch(case.kernel, *tensors, case.rows, pes=range(case.pes))
    except KbError as error:
        return Outcome({"refusal": str(error)}, 0)
    found = state_of(engine, result, engine.close_log()) | memory_of(engine, tensors)
    return Outcome(found, engine.grid_folding.skipped if engine.grid_folding is not None else 0)


def compare(seed: int) -> Comparison:
    """The case of *seed* both ways; one in four without a log."""
    case = drawn(seed)
    topology = loads_topology(yaml.safe_dump(case.spec))
    simulated, folded = (run(case, topology, exact, bool(seed % 4)) for exact in ("events", "closed"))
    return compared(seed, folded, simulated)


if __name__ == "__main__":
    sys.exit(compare_many(__doc__, compare, 2000, "turns"))
