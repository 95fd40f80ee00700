"""The auxiliary tables of a log as structured arrays, and the checks of their columns and rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.table_dtypes import TABLE_DTYPES, other_columns
from kb_messages import ID_COLUMNS, LOG_TABLES, OPTIONAL_TABLES, LogError

Tables = Mapping[str, Array]
"""Auxiliary tables by name. A log may lack a table."""


def missing_tables(present: Iterable[str]) -> tuple[str, ...]:
    """Returns the names of the auxiliary tables that are not in *present*, without the tables that logs may lack."""
    there = frozenset(present)
    return tuple(name for name in LOG_TABLES if name not in (*there, *OPTIONAL_TABLES))


def joined(chunks: Sequence[Tables]) -> dict[str, Array]:
    """Concatenates the tables of *chunks*. Returns them by name, in the order of the schema."""
    found = {name: [chunk[name] for chunk in chunks if name in chunk] for name in LOG_TABLES}
    return {name: np.concatenate(parts) for name, parts in found.items() if parts}


def check_columns(where: str, tables: Tables) -> None:
    """Raises LogError, which begins with *where*, for a table with an unknown name or with other columns."""
    for name, table in tables.items():
        if name not in TABLE_DTYPES:
            raise LogError(f"{where}: {name}", "an unknown table", f"one of {', '.join(TABLE_DTYPES)}")
        if table.dtype != TABLE_DTYPES[name]:
            raise LogError(f"{where}: {name}", *other_columns(table.dtype, TABLE_DTYPES[name]))


def check_tables(where: str, tables: Tables, n_strings: int) -> None:
    """Raises LogError, which begins with *where*, for a row with an invalid code, string number, number or time."""
    check_columns(where, tables)
    for name, table in tables.items():
        schema = LOG_TABLES[name]
        for column, _ in schema.columns:
            values = table[column]
            if column in schema.texts:
                low, high, needs = 0, n_strings - 1, f"0 to {n_strings - 1}" if n_strings else "none, without strings"
            elif column in schema.codes:
                high = max(schema.codes[column])
                low, needs = 0, f"0 to {high}"
            elif column in ID_COLUMNS:
                continue
            else:
                low, high, needs = -1, 2**63 - 1, "-1 or more"
            _refuse(where, name, (values < low) | (values > high), column, values, needs)
        _check_times(where, name, table, schema.ascending)


def _check_times(where: str, name: str, table: Array, ascending: tuple[str, ...]) -> None:
    """Raises LogError if a known time is before a known time in an earlier column. -1 is an unknown time."""
    latest = np.full(len(table), -1, np.int64)
    for column in ascending:
        times = table[column]
        _refuse(
            where,
            name,
            (times >= 0) & (times < latest),
            column,
            times,
            "a time that is not before the times in front of it",
        )
        latest = np.maximum(latest, times)


def _refuse(where: str, name: str, bad: Array, column: str, values: Array, needs: str) -> None:
    if bad.any():
        at = int(np.argmax(bad))
        raise LogError(f"{where}: {name} row {at}", f"{column} {int(values[at])}", needs)
