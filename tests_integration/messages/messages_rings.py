"""Rings of messages on a chip: simulated, and by the recursion."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2] / "tests_shared"))
sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from chip_specs import changed_chip
from messages_reference import Ring, Ways, costs_of, ring

from kb_dataexec import MemoryLogWriter, OpLog
from kb_engine import DType, Engine, Host, Language, TensorRef


class RingCase(NamedTuple):
    """A ring of *steps* steps over *pes* (numbers of PEs, in the order of the ring) of the chip *spec*.

    Each message has *n* elements of f32. *forwards* is as in `messages_reference.ring`.
    """

    spec: dict[str, Any]
    pes: Sequence[int]
    n: int
    steps: int
    forwards: bool


def forwarding(tl: Language, xs: list[TensorRef], steps: int) -> None:
    """Each program sends on what it received last."""
    me, n = tl.program_id(), tl.num_programs()
    value = tl.load(xs[me])
    for _ in range(steps):
        tl.send(value, (me + 1) % n)
        value = tl.recv((me - 1) % n)


def repeating(tl: Language, xs: list[TensorRef], steps: int) -> None:
    """Each program sends its own value, and drops what it receives."""
    me, n = tl.program_id(), tl.num_programs()
    value = tl.load(xs[me])
    for _ in range(steps):
        tl.send(value, (me + 1) % n)
        tl.recv((me - 1) % n)


def everyone(tl: Language, xs: list[TensorRef]) -> None:
    """Each program sends its value to each other one, and then receives from each."""
    me, n = tl.program_id(), tl.num_programs()
    value = tl.load(xs[me])
    for step in range(1, n):
        tl.send(value, (me + step) % n)
    for step in range(1, n):
        tl.recv((me - step) % n)


def simulated(case: RingCase, exact: Any = "isolated") -> OpLog:
    """The log of the ring."""
    engine = Engine(changed_chip(case.spec), MemoryLogWriter(), exact=exact)
    host = Host(engine, Path(__file__).parent)
    numbers = np.arange(case.n, dtype=np.float32).reshape(1, -1)
    xs = [host.tensor(f"x{number}", numbers, DType.F32, slices=[host.hbm_slice_of(number)]) for number in case.pes]
    host.launch(forwarding if case.forwards else repeating, xs, case.steps, pes=case.pes)
    log = engine.close_log()
    assert log is not None
    return log


def rings_of(case: RingCase) -> tuple[Ring, Ring]:
    """The times of *case* by the simulation and by the recursion, apart from slots that the last step frees and the
    first credits, which nobody waits for."""
    log = simulated(case)
    topology = changed_chip(case.spec)
    ids = topology.graph.pe_ids
    names = [ids[number] for number in case.pes]
    place = {name: number for number, name in enumerate(names)}
    texts, commands = log.strings, log.tables["commands"]
    arrivals = {int(row["command_seq"]): int(row["t_submitted_ps"]) for row in commands}
    sends: dict[int, list[Any]] = defaultdict(list)
    for row in np.sort(log.tables["sends"], order="command_seq"):
        sends[place[texts[row["dst"]]] - 1].append(row)
    ways, nbytes = Ways(case.spec, topology), 4 * case.n
    count = len(names)
    hops = [ways.hop(names[i], names[(i + 1) % count], nbytes) for i in range(count)]
    ordered = [sends[i if i + 1 < count else -1] for i in range(count)]
    starts = [arrivals[int(rows[0]["command_seq"])] for rows in ordered]
    expected = ring([costs_of(case.spec, name) for name in names], hops, starts, case.steps, case.forwards)
    found = Ring(*([] for _ in Ring._fields))
    for k in range(case.steps):
        for name in Ring._fields:
            getattr(found, name).append([int(rows[k][f"t_{name}_ps"]) for rows in ordered])
    n_freed = len(expected.freed)
    del found.freed[n_freed:], found.credited[n_freed:]
    del found.credit[0], expected.credit[0]  # a PE_CPU that issues ahead calls the first send before the load is done
    return found, expected
