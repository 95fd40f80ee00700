"""A log's operands by column: the table is read once, in the order that pass 2 wants, and not again for each column."""

from __future__ import annotations

from typing import Final

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.parallel import in_chunks

Columns = dict[str, Array]
"""By name: codes (`role`, `space`, `dtype`, `release`) as int8, all others as int64."""

_CODES: Final = ("role", "space", "dtype", "release")
_NUMBERS: Final = ("owner", "offset", "rows", "row_nbytes", "stride")


def by_column(table: Array, order: Array | None) -> Columns:
    """The columns of rows *order* of the operands table (of all rows, when None), but for `op_id`."""
    length = len(table) if order is None else len(order)
    columns = {name: np.empty(length, np.int8) for name in _CODES}
    columns |= {name: np.empty(length, np.int64) for name in _NUMBERS}

    def fill(chunk: slice) -> None:
        rows = table[chunk] if order is None else table.take(order[chunk])
        for name, column in columns.items():
            column[chunk] = rows[name]

    in_chunks(fill, length)
    return columns


def part(columns: Columns, start: int, stop: int) -> Columns:
    """Rows [start, stop), as views."""
    return {name: column[start:stop] for name, column in columns.items()}
