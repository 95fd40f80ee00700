"""Makes rows of the auxiliary tables `commands`, `dispatches` and `transfers` of the op log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import Final

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.compressed.command import CommandLike
from kb_dataexec.log.compressed.compressed_rows import Table
from kb_dataexec.log.compressed.int_arrays import int64s
from kb_dataexec.log.table_dtypes import TABLE_DTYPES
from kb_messages import LOG_TABLES

_COMMAND_NUMBERS: Final = {
    "command_seq": "submitted.command_seq",
    "n_tiles": "shared_plan.n_tiles",
    "first_op_id": "first_op",
    "n_ops": "shared_plan.n_stages",
    **{name: name for name in LOG_TABLES["commands"].ascending},
    **{name: name for name in ("after_seq", "after", "operand_seq", "operand_ps")},
}
"""The columns of `commands` that are numbers, each with the attribute of CommandLike that has the number."""
_numbers_of: Final = attrgetter(*_COMMAND_NUMBERS.values())


def command_table(finished: Sequence[CommandLike], intern: Callable[[str], int]) -> Array:
    """Returns the rows of `commands` for the *finished* commands. *intern* returns the number of a string of the log.

    Raises LogError for a time that does not fit 64 bits.
    """
    found = int_columns(map(_numbers_of, finished), len(_COMMAND_NUMBERS))
    columns = dict(zip(_COMMAND_NUMBERS, found, strict=True))
    columns |= dict(zip(("pe", "line", "name"), int_columns(_texts_of(finished, intern), 3), strict=True))
    return table("commands", [columns[name] for name, _ in LOG_TABLES["commands"].columns])


def _texts_of(finished: Sequence[CommandLike], intern: Callable[[str], int]) -> Iterator[tuple[int, int, int]]:
    """The string numbers of PE, line and name of each of *finished*. Equal texts are looked up once."""
    known: dict[tuple[str, str, str], tuple[int, int, int]] = {}
    for each in finished:
        submitted = each.submitted
        texts = submitted.pe, submitted.line, each.shared_plan.kind
        numbers = known.get(texts)
        if numbers is None:
            numbers = known[texts] = intern(texts[0]), intern(texts[1]), intern(texts[2])
        yield numbers


def tile_tables(dispatches: Table, transfers: Table) -> dict[str, Array]:
    """Returns the tables `dispatches` and `transfers`. The first column of *transfers*, a time, is left out."""
    return {
        "dispatches": table("dispatches", list(dispatches.T)),
        "transfers": table("transfers", list(transfers.T[1:])),
    }


def int_columns(rows: Iterable[Iterable[int]], width: int) -> Sequence[Array]:
    """Returns the *width* columns of *rows* as int64. Raises LogError for a number that needs more than 64 bits."""
    return list(int64s(chain.from_iterable(rows)).reshape(-1, width).T)


def table(name: str, columns: Sequence[Array]) -> Array:
    """Returns the auxiliary table *name* as a structured array with *columns*, in the order of its schema."""
    rows = np.empty(len(columns[0]), TABLE_DTYPES[name])
    for column, values in zip(rows.dtype.names or (), columns, strict=True):
        rows[column] = values
    return rows
