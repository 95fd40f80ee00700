"""Copies columns out of tables of a log. A table is read once, and not once for each column."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.parallel import in_chunks

Columns = dict[str, Array]
"""Columns by name."""

RECTANGLE_COLUMNS: Final = ("owner", "offset", "rows", "row_nbytes", "stride")
"""The columns of the bytes of an operand, in the order of the parameters of `Rectangle.of_memory`."""

_CODES: Final = ("role", "space", "dtype", "release")


def columns_of(table: Array, names: Iterable[str], wanted: Array | None = None) -> Columns:
    """Returns the columns *names* of *table* by name, each as an array of its own with the dtype of the table.

    The columns have the rows numbered *wanted*; all rows if *wanted* is None.
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
    """Returns all columns but `op_id` of an operands table, with its rows in *order*, or as they are if it is None.

    Columns of codes are int8, and all others are int64.
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
    """Returns rows [start, stop) of each column, as views."""
    return {name: column[start:stop] for name, column in columns.items()}
