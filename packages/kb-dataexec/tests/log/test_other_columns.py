"""A table with other columns is refused with those that differ."""

import numpy as np
import pytest

from kb_dataexec.log.table_dtypes import other_columns

TYPE = np.dtype([("op_id", "<i8"), ("kind", "<i2"), ("name", "<i4")])


@pytest.mark.parametrize(
    ("found", "got", "needs"),
    [
        (
            [("op_id", "<i4"), ("kind", "<i2"), ("name", "<i4")],
            "columns [('op_id', '<i4')]",
            "columns [('op_id', '<i8')]",
        ),
        ([("op_id", "<i8"), ("kind", "<i2")], "no columns [('name', '<i4')]", "these too"),
        ([*TYPE.descr, ("x", "<i4")], "further columns [('x', '<i4')]", "none but those of the format"),
        (
            [("kind", "<i2"), ("op_id", "<i8"), ("name", "<i4")],
            "columns in the order kind, op_id, name",
            "the order op_id, kind, name",
        ),
        ("<f8", "columns [('', '<f8')]", f"columns {TYPE.descr}"),
    ],
)
def test_the_columns_that_differ_are_named(found, got, needs):
    assert other_columns(np.dtype(found), TYPE) == (got, needs)


def test_names_of_a_hostile_file_do_not_fill_the_screen():
    got, _ = other_columns(np.dtype([("x" * 10_000, "<i8")]), TYPE)
    assert len(got) < 500
