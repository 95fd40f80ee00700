from types import SimpleNamespace

import numpy as np

from kb_dataexec.log.compressed.compressed_rows import RowForm
from kb_dataexec.log.compressed.row_maker import RowOrder

PES = {"pe0": 0, "pe1": 1}
FORM = RowForm(2, ops=(0,), times=(1,), came=1)


def commands(*pairs):
    return [SimpleNamespace(first_op=op, submitted=SimpleNamespace(pe=pe)) for op, pe in pairs]


def ordered(order, *rows):
    return [op_id for op_id, _ in order.sorted(np.array(rows, np.int64), FORM).tolist()]


def test_rows_are_in_order_of_time_then_of_pes_and_those_of_a_pe_stay_as_they_came():
    order = RowOrder(commands((0, "pe1"), (10, "pe0"), (20, "pe1")), PES)
    assert ordered(order, (0, 5), (21, 5), (20, 5), (11, 5), (10, 5), (1, 4)) == [1, 11, 10, 0, 21, 20]


def test_rows_of_a_command_that_was_alone_stand_between_those_before_and_behind_it_on_its_pe():
    """Ops 10 and 11 are of a isolated command on pe1: known first, though op 0 came before in the same picosecond."""
    order = RowOrder(commands((0, "pe1"), (5, "pe0"), (10, "pe1"), (20, "pe1"), (30, "pe1")), PES, isolated=[10])
    assert ordered(order, (11, 5), (10, 5), (31, 5), (21, 5), (1, 5), (0, 5), (6, 5)) == [6, 1, 0, 11, 10, 31, 21]


def test_no_rows_have_an_order():
    assert len(RowOrder([], PES).sorted(np.empty((0, 2), np.int64), FORM)) == 0
