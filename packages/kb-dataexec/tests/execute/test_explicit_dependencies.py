"""Dependencies that a log states: the executor keeps their order and never runs both ends together, or refuses them."""

import re

import numpy as np
import pytest
from dataexec_gemm_log import GemmProblem

from kb_dataexec.analysis.dependencies import DependencyKind, backward_slice, dependencies
from kb_dataexec.execute.executor import Executor
from kb_dataexec.execute.fused import run as fused
from kb_dataexec.log.schedule import Schedule
from kb_dataexec.log.table_dtypes import TABLE_DTYPES
from kb_dataexec.log.tables import OpLog
from kb_messages import LogError, Rectangle

PROBLEM = GemmProblem(24, 24, 24, (4, 4, 4))
"""6 x 6 x 6 tiles of 4 records, and 36 outputs of 2 more: 936 records."""


def with_dependencies(*pairs, log=None):
    log = log or PROBLEM.log()
    return OpLog(
        log.ops, log.operands, log.strings, tables={"dependencies": np.array(list(pairs), TABLE_DTYPES["dependencies"])}
    )


def windows(monkeypatch, log):
    """What fused mode executed: the ranges of records, each at once."""
    ran = []
    real = fused._run_window
    monkeypatch.setattr(fused, "_run_window", lambda *a: ran.append(a[2:]) or real(*a))
    real_one = fused.one_by_one.run
    monkeypatch.setattr(fused.one_by_one, "run", lambda *a: ran.append(a[2:]) or real_one(*a))
    memory = Executor(log, PROBLEM.memory()).run()
    return ran, memory


def test_a_window_ends_before_an_op_that_depends_on_one_in_it(monkeypatch):
    n_ops = PROBLEM.log().n_ops
    ran, _ = windows(monkeypatch, PROBLEM.log())
    assert ran == [(0, n_ops)]
    log = with_dependencies((700, 100), (300, 299), (300, 2), (400, 10), (900, 650), (905, 901))
    ran, memory = windows(monkeypatch, log)
    # 300 depends on 299; 400 and 700 on what is done by then; 900 on 650, and 905 on 901 behind the cut at 900.
    assert ran == [(0, 300), (300, 900), (900, 905), (905, n_ops)]
    plain = Executor(PROBLEM.log(), PROBLEM.memory(), "tile").run()
    stated = Executor(log, PROBLEM.memory(), "tile").run()
    assert PROBLEM.result(stated).tobytes() == PROBLEM.result(plain).tobytes()
    np.testing.assert_allclose(PROBLEM.result(memory).astype(float), PROBLEM.result(plain).astype(float), rtol=1e-2)


@pytest.mark.parametrize("pair", [(5, 9999), (-7, 5)])
def test_an_op_that_is_not_there_is_refused(pair):
    text = (
        f"op log: dependencies row 1: got op {pair[0]} after op {pair[1]}, of which one is no op of the log, "
        "needs ops of the log"
    )
    for mode in ("tile", "fused"):
        with pytest.raises(LogError, match=f"^{re.escape(text)}$"):
            Executor(with_dependencies((1, 0), pair), PROBLEM.memory(), mode).run()


@pytest.mark.parametrize("pair", [(5, 6), (5, 5)])
def test_a_later_op_and_the_op_itself_are_refused(pair):
    text = (
        f"op log: dependencies row 1: got op {pair[0]} after op {pair[1]}, which does not come before it, "
        "needs an op with an earlier place in the order of execution"
    )
    for mode in ("tile", "fused"):
        with pytest.raises(LogError, match=f"^{re.escape(text)}$"):
            Executor(with_dependencies((1, 0), pair), PROBLEM.memory(), mode).run()


def test_the_order_is_that_of_execution_and_not_of_ids():
    log = PROBLEM.log()
    log.ops["op_id"] = log.operands["op_id"].max() - log.ops["op_id"]
    log.operands["op_id"] = log.operands["op_id"].max() - log.operands["op_id"]
    last = int(log.ops["op_id"].max())
    schedule = Schedule(with_dependencies((last - 9, last - 2), (last - 9, last), log=log))
    assert (schedule.followers.tolist(), schedule.leaders.tolist()) == ([9, 9], [0, 2])


def test_analysis_knows_them():
    log = with_dependencies((700, 100), (4, 3))
    found = dependencies(log, explicit=[(701, 100)])
    edges = {
        (follower, int(found.producer[at])): int(found.kind[at])
        for follower in range(len(found.op_id))
        for at in range(found.first[follower], found.first[follower + 1])
    }
    assert edges[700, 100] == edges[701, 100] == DependencyKind.EXPLICIT
    assert edges[4, 3] & DependencyKind.EXPLICIT
    # The last output tile needs none of the first tile's ops, unless its own ops are said to follow one of them.
    row, col = 20, 20
    corner = Rectangle.of_memory(0x400, PROBLEM.at_c + (row * 24 + col) * 2, 4, 8, 48)
    needed = backward_slice(PROBLEM.log(), [corner])
    assert 2 not in needed
    assert backward_slice(with_dependencies((max(needed), 2)), [corner]) > needed | {2}
