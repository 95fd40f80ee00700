"""No log loses rows, where programs of a grid are skipped whose vector programs run apart.

A register file of a few KiB cuts a vector program into many pieces, so that the program is isolated. A grid whose
programs come in a period then skips programs with isolated commands in them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import yaml

from kb_dataexec import Executor, MemoryLogWriter, OpLog
from kb_engine import Engine, Host, Language, read_tensor
from kb_engine.launch import LaunchResult
from kb_topology import loads_topology

TOPOLOGIES = Path(__file__).parents[1] / "topologies"
COLUMNS, VALUE = 256, 0.5


class Case(NamedTuple):
    """A grid of `programs`, each of which works `turns` times on `rows` rows, with `registers` of a PE."""

    rows: int
    turns: int
    programs: int
    registers: str = "8 KiB"
    pes: tuple[int, ...] = (0,)


CASES = {
    "one PE": Case(64, 12, 60),
    "few turns": Case(64, 5, 60),
    "rows that do not divide": Case(48, 12, 37),
    "fewer registers": Case(64, 12, 40, "4 KiB"),
    "three PEs": Case(64, 12, 60, pes=(0, 3, 5)),
    "all PEs": Case(32, 12, 75, "4 KiB", tuple(range(8))),
}


class Run(NamedTuple):
    """The result of a launch, its log and what it stored."""

    result: LaunchResult
    log: OpLog
    n_ops: int
    n_skipped: int
    stored: np.ndarray[Any, np.dtype[np.float64]]


def run(case: Case, exact: Any) -> Run:
    def kernel(tl: Language, b: Any, c: Any) -> None:
        first = tl.program_id() * case.rows
        v = tl.load(c[first : first + case.rows, :])
        x = v
        for _ in range(case.turns):
            x = x * v + 1.0
        tl.store(b[first : first + case.rows, :], x)

    spec = yaml.safe_load((TOPOLOGIES / "one_cube.yaml").read_text(encoding="utf-8"))
    spec["cube"]["pe_template"]["nodes"]["pe_fetch_store"]["memory"]["size"] = case.registers
    engine = Engine(loads_topology(yaml.safe_dump(spec, sort_keys=False), "x.yaml"), MemoryLogWriter(), exact=exact)
    host = Host(engine)
    data = np.full((case.rows * case.programs, COLUMNS), VALUE, np.float16)
    c, b = host.tensor("c", data, "f16", slices=[0]), host.tensor("b", np.zeros_like(data), "f16", slices=[0])
    result = host.launch(kernel, b, c, pes=list(case.pes), grid=case.programs)
    log = engine.close_log()
    assert isinstance(log, OpLog)
    stored = read_tensor(Executor(log, engine.initial_memory).run(), b).astype(np.float64)
    return Run(result, log, engine.session.n_ops, engine.work.skipped_programs + engine.work.isolated_commands, stored)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_log_has_a_row_for_each_op_and_the_data_is_right(case: Case) -> None:
    skipped, every = run(case, "isolated"), run(case, "events")
    assert (skipped.log.n_ops, skipped.log.digest) == (skipped.n_ops, every.log.digest)
    assert skipped.result == every.result
    expected = VALUE
    for _ in range(case.turns):
        expected = expected * VALUE + 1.0
    assert np.abs(skipped.stored - expected).max() < 2e-3, "of results near 2, f16 keeps 2^-10"


@pytest.mark.speed
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_programs_or_commands_of_these_grids_are_skipped(case: Case) -> None:
    assert run(case, "isolated").n_skipped > 0


@pytest.mark.parametrize("case", [CASES["one PE"]], ids=["one PE"])
def test_a_check_compares_such_a_run_with_another_engine(case: Case) -> None:
    assert run(case, "check").log.digest == run(case, "events").log.digest
