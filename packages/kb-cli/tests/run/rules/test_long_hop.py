"""A ring of programs with one hop that is longer than the others."""

import numpy as np
import pytest
from rule_runs import check_remedy, rules, run

import kernbench as kb

SNAKE = [4 * row + (column if row % 2 == 0 else 3 - column) for row in range(4) for column in range(4)]
CLOSED = [0, 1, 2, 3, 7, 6, 5, 9, 10, 11, 15, 14, 13, 12, 8, 4]
"""Ways over the 16 cubes of one_sip. The last cube of the second way is a neighbour of the first one."""


def ring(tl, x, y, order, steps, adds):
    n = tl.num_programs()
    here = order.index(tl.program_id())
    part = tl.load(x[here])
    for _ in range(steps):
        tl.send(part, order[(here + 1) % n])
        part = tl.recv(order[(here - 1) % n])
        if adds:
            part = part + 1.0
    tl.store(y[here], part)


def ring_of(order, adds=False, chip="one_sip", pes=range(0, 128, 8)):
    x = np.ones((len(order), 64, 64), np.float32)
    return run(ring, x, kb.empty(x.shape, "f32"), order, 15, adds, chip=chip, pes=pes)


def test_the_way_back_of_a_snake_is_named():
    found = check_remedy(ring_of(SNAKE), ring_of(CLOSED), "long hop")
    assert found.flaw.startswith("a message from sip0.cube12.pe0 to sip0.cube0.pe0 takes ")
    assert found.change == "order the programs of the ring so that each is near the next one"
    assert found.line.startswith("test_long_hop.py:")


@pytest.mark.parametrize("order", [CLOSED, SNAKE])
def test_a_ring_whose_work_hides_the_long_hop_has_no_flaw(order):
    assert "long hop" not in rules(ring_of(order, adds=True))


def test_a_ring_in_a_cube_has_no_flaw():
    assert "long hop" not in rules(ring_of(list(range(8)), chip="one_cube", pes=range(8)))
