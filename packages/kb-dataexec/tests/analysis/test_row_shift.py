"""Rows that come later by a shift."""

import numpy as np

from kb_dataexec.analysis.windows.row_shift import RowShift
from kb_dataexec.log.compressed.compressed_rows import CompressedRows, Repeat, RowForm
from kb_dataexec.log.table_dtypes import OPS_DTYPE, TABLE_DTYPES

SHIFT = RowShift(ops=10, tiles=2, ps=700)


def test_ids_and_times_of_a_row_come_later():
    rows = np.zeros(1, OPS_DTYPE)
    rows["op_id"], rows["tile_id"], rows["t_out_ps"], rows["wait_channel_ps"], rows["line"] = 3, 4, 5, 6, 7
    (later,) = SHIFT.later(rows)
    assert [later[name] for name in ("op_id", "tile_id", "t_out_ps", "wait_channel_ps", "line")] == [13, 6, 705, 6, 7]
    assert rows["op_id"] == 3


def test_what_is_no_op_and_no_time_stays():
    rows = np.zeros(2, TABLE_DTYPES["transfers"])
    rows["behind_op"], rows["t_served_ps"] = (-1, 8), (-1, 9)
    later = SHIFT.later(rows)
    assert later["behind_op"].tolist() == [-1, 18]
    assert later["t_served_ps"].tolist() == [-1, 709]


def test_a_shift_leads_to_rows_that_differ_in_nothing_else():
    rows = np.zeros(5000, OPS_DTYPE)
    later = SHIFT.later(rows)
    assert SHIFT.leads(rows, later)
    assert not SHIFT.leads(rows[1:], later)
    later["wait_barrier_ps"][4999] = 1
    assert not SHIFT.leads(rows, later)


def test_the_period_of_a_repeat_begins_with_its_first_row():
    form = RowForm(2, ops=(0,), times=(1,), came=1)
    rows = [np.array([[0, 5]]), np.array([[1, 10], [2, 14]]), Repeat(1, 3, 2, 20), np.array([[9, 90]])]
    (period,) = CompressedRows(form, rows).periods
    assert period == (20, 2, 10, 14 + 3 * 20)
