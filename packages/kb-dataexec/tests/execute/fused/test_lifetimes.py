"""Lifetimes of rectangles that share bytes, and what happens to a read across two of them."""

import numpy as np
import pytest
from dataexec_gemm_log import HBM, REG, LogBuilder
from dataexec_random_log import one_move, outcome, outcome_of_one_window, resolves

from kb_dataexec.execute.fused.accesses.byte_matches import Accesses, lifetimes

READ, LAST, WRITE = (False, False), (False, True), (True, False)


def found(*steps):
    """The lifetimes of (record, cell, what) in a row; all cells are of one group."""
    record, cell, what = (list(column) for column in zip(*steps, strict=True))
    flags = np.array(what)
    group = np.zeros(len(steps), np.int64)
    at = np.arange(len(steps))
    return lifetimes(
        Accesses(at, np.array(record), np.array(cell), group, ~flags[:, 0], flags[:, 0], flags[:, 1])
    ).tolist()


def test_a_lifetime_ends_when_all_is_released():
    """Cell 1 is still there when cell 0 is released, and cell 2 begins a lifetime of its own."""
    steps = [(0, 0, WRITE), (1, 1, WRITE), (2, 0, LAST), (3, 1, LAST), (4, 2, WRITE), (5, 2, READ)]
    assert found(*steps) == [0, 0, 0, 0, 1, 1]


def test_an_op_that_works_in_place_ends_no_lifetime():
    assert found((0, 0, WRITE), (1, 0, LAST), (1, 0, WRITE), (2, 0, LAST), (3, 0, WRITE)) == [0, 0, 0, 0, 1]


def test_what_was_never_written_is_not_alive():
    assert found((0, 0, READ), (1, 1, LAST), (2, 0, WRITE), (3, 0, WRITE), (4, 0, LAST)) == [0, 1, 2, 2, 2]


def registers_used_twice():
    """Two values that overlap in registers, one after the other, and a value behind them that nobody has written."""
    builder = LogBuilder()
    for offset in (0, 4):
        one_move(builder, (HBM, offset), (REG, offset), shape=(1, 8, 8))
        one_move(builder, (REG, offset), (HBM, 64 + offset), release=1, shape=(1, 8, 8))
    one_move(builder, (REG, 20), (HBM, 80), shape=(1, 4, 4))
    return builder


def test_a_read_of_memory_that_no_lifetime_touched_resolves():
    """All overlap the last write, so they are of one group."""
    builder = registers_used_twice()
    one_move(builder, (HBM, 0), (REG, 0), shape=(1, 32, 32))
    outcome_of_one_window(builder)


@pytest.mark.parametrize("byte", [0, 8, 11])
def test_a_read_of_what_an_earlier_lifetime_released_is_split(byte):
    builder = registers_used_twice()
    one_move(builder, (REG, byte), (HBM, 84), shape=(1, 4, 4))
    one_move(builder, (HBM, 0), (REG, 0), shape=(1, 32, 32))
    log = builder.log()
    assert not resolves(log)
    assert "released" in outcome(log, "fused")
    assert outcome(log, "fused") == outcome(log, "tile")
