import numpy as np
import pytest

from kb_dataexec.arrays import parallel
from kb_dataexec.log.columns import by_column, columns_of, part
from kb_dataexec.log.table_dtypes import OPERAND_DTYPE


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    rows = np.zeros(1000, OPERAND_DTYPE)
    for name in OPERAND_DTYPE.names:
        rows[name] = rng.integers(0, 100, len(rows))
    rows["offset"] = rng.integers(0, 1 << 40, len(rows))
    return rows


@pytest.mark.parametrize("chunk", [7, 1 << 14])
def test_columns_are_those_of_the_rows_in_the_order_asked_for(table, chunk, monkeypatch):
    monkeypatch.setattr(parallel, "_CHUNK", chunk)
    order = np.random.default_rng(1).permutation(len(table))
    for rows, columns in ((table, by_column(table, None)), (table[order], by_column(table, order))):
        assert set(columns) == {*OPERAND_DTYPE.names} - {"op_id"}
        for name, column in columns.items():
            assert column.dtype == (np.int8 if OPERAND_DTYPE[name].itemsize == 1 else np.int64)
            assert (column == rows[name]).all()


def test_no_rows_have_empty_columns(table):
    assert {len(column) for column in by_column(table[:0], None).values()} == {0}


def test_a_part_is_a_view(table):
    columns = by_column(table, None)
    some = part(columns, 10, 20)
    assert (some["offset"] == table["offset"][10:20]).all()
    assert np.shares_memory(some["offset"], columns["offset"])


@pytest.mark.parametrize("chunk", [7, 1 << 14])
def test_single_columns_keep_their_dtype_and_stand_by_themselves(table, chunk, monkeypatch):
    monkeypatch.setattr(parallel, "_CHUNK", chunk)
    columns = columns_of(table, ("offset", "role"))
    assert list(columns) == ["offset", "role"]
    for name, column in columns.items():
        assert column.flags.c_contiguous
        assert column.dtype == OPERAND_DTYPE[name]
        assert (column == table[name]).all()
