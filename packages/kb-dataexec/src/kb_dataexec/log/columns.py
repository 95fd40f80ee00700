"""Tables of a log by column. A table is read once, and not once for each column."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.parallel import in_chunks

Columns = dict[str, Array]
"""Columns by name."""

RECTANGLE_COLUMNS: Final = ("owner", "offset", "rows", "row_nbytes", "stride")
"""The columns that say which bytes an operand is, in the order of `Rectangle.of_memory`."""

_CODES: Final = ("role", "space", "dtype", "release")


def columns_of(table: Array, names: Iterable[str], wanted: Array | None = None) -> Columns:
    """The columns *names* of any table, each an array of its own with the dtype that the table has for it.

    They have the rows number *wanted*, or all rows when *wanted* is None.
    """
    length = len(table) if wanted is None else len(wanted)
    columns = {name: np.empty(length, table.dtype[name]) for name in names}

    def fill(chunk: slice) -> None:
        rows = table[chunk] if wanted is None else table.take(wanted[chunk])
        for name, column in columns.items():
            column[chunk] = rows[name]

    in_chunks(fill, length)
    return columns


def by_column(table: Array, order: Array | None) -> Columns:
    """All columns but `op_id` of the rows *order* of an operands table, or of all its rows when *order* is None.

    The codes are int8, and all other columns int64.
    """
    length = len(table) if order is None else len(order)
    columns = {name: np.empty(length, np.int8) for name in _CODES}
    columns |= {name: np.empty(length, np.int64) for name in RECTANGLE_COLUMNS}

    def fill(chunk: slice) -> None:
        rows = table[chunk] if order is None else table.take(order[chunk])
        for name, column in columns.items():
            column[chunk] = rows[name]

    in_chunks(fill, length)
    return columns


def part(columns: Columns, start: int, stop: int) -> Columns:
    """Rows [start, stop) of each column, as views."""
    return {name: column[start:stop] for name, column in columns.items()}
