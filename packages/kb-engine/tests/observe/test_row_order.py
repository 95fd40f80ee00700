from types import SimpleNamespace

import numpy as np

from kb_engine.observe.row_order import RowOrder

PES = {"pe0": 0, "pe1": 1}


def commands(*pairs):
    return [SimpleNamespace(first_op=op, submitted=SimpleNamespace(pe=pe)) for op, pe in pairs]


def test_rows_are_in_order_of_time_then_of_pes_and_those_of_a_pe_stay_as_they_came():
    order = RowOrder(commands((0, "pe1"), (10, "pe0"), (20, "pe1")), PES, 1 << 62)
    op_ids, times = np.array([0, 21, 20, 11, 10, 1]), np.array([5, 5, 5, 5, 5, 4])
    now, later = order.split(op_ids, times)
    assert op_ids[now].tolist() == [1, 11, 10, 0, 21, 20]
    assert later.tolist() == []


def test_rows_of_a_picosecond_that_is_not_over_are_kept_as_they_came():
    order = RowOrder(commands((0, "pe1"), (10, "pe0")), PES, 5)
    op_ids, times = np.array([0, 10, 1, 11]), np.array([5, 4, 6, 5])
    now, later = order.split(op_ids, times)
    assert op_ids[now].tolist() == [10]
    assert op_ids[later].tolist() == [0, 1, 11]


def test_no_rows_have_an_order():
    now, later = RowOrder([], PES, 5).split(np.empty(0, np.int64), np.empty(0, np.int64))
    assert len(now) == len(later) == 0
