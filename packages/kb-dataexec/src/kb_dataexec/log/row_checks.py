"""Checks the rows of the tables `ops` and `operands`: codes, rectangles, string numbers, times, waits, missing ops."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.parallel import in_chunks
from kb_dataexec.log.table_dtypes import OPERAND_DTYPE, OPS_DTYPE, other_columns
from kb_messages import (
    DTYPE_BY_CODE,
    OFFSET_BITS,
    SPACE_BY_CODE,
    LogError,
    OpKind,
    Role,
    WaitReason,
)

WAITS: Final = tuple(f"wait_{reason.name.lower()}_ps" for reason in WaitReason)
"""The columns of `ops` with the waits of an op, in the order of WaitReason."""
TIMES: Final = ("t_ready_ps", "t_start_ps", "t_end_ps", "t_out_ps")
"""The columns of `ops` with the times of an op. No time is before the time in the column in front of it."""
TIMES_NEED: Final = " <= ".join(TIMES)
_ROWS_AT_ONCE: Final = 1 << 13
"""Rows whose times are checked together. Source: assumed; half a chunk of a run, 650 kB of times."""
_N_NUMBERS: Final = len((*TIMES, *WAITS))
_HALVES: Final = np.dtype(
    [("before", np.void, OPS_DTYPE.itemsize - 8 * _N_NUMBERS), ("times_and_waits", np.void, 8 * _N_NUMBERS)]
)
"""A row of `ops` in two parts: the times and waits stand at its end, next to each other."""

TEXTS: Final = ("name", "component", "line", "params")
_OPS_CODES: Final[dict[str, frozenset[int]]] = {"kind": frozenset(OpKind)}
_CODES: Final[dict[str, frozenset[int]]] = {
    "role": frozenset(Role),
    "space": frozenset(SPACE_BY_CODE),
    "dtype": frozenset(DTYPE_BY_CODE),
    "release": frozenset((0, 1)),
}

_RECTANGLE: Final = ("offset", "rows", "row_nbytes", "stride")
_MOST_NBYTES: Final = 1 << OFFSET_BITS
_NO_IDS: Final = np.empty(0, np.int64)


def check_rows(where: str, ops: Array, operands: Array, n_strings: int) -> None:
    """Raises LogError, which begins with *where*, for invalid columns, codes, rectangles, string numbers or times."""
    for name, table, dtype in (("ops", ops, OPS_DTYPE), ("operands", operands, OPERAND_DTYPE)):
        if table.dtype != dtype:
            raise LogError(f"{where}: {name}", *other_columns(table.dtype, dtype))
    for table, allowed in ((ops, _OPS_CODES), (operands, _CODES)):
        _check_codes(where, table, allowed)
    _check_rectangles(where, operands)
    _check_texts(where, ops, n_strings)
    _check_times(where, ops)


class OpIds:
    """Collects the ids of the ops of a log, chunk by chunk, and the ids that the rows of `commands` state.

    Ops are logged in the order of completion, and few commands are under way at a time. So the ids so far are a few
    ranges, however long the log is.
    """

    def __init__(self) -> None:
        self._firsts, self._ends = _NO_IDS, _NO_IDS
        self._low: int | None = None
        self._high = 0

    def add(self, ops: Array, commands: Array | None) -> None:
        """Adds the ids of *ops*, and the ranges of ids that the rows of *commands* state."""
        ids = np.sort(ops["op_id"])
        if len(ids):
            is_first = np.append(True, ids[1:] > ids[:-1] + 1)
            firsts, lasts = ids[is_first], ids[np.append(is_first[1:], True)]
            self._merge(firsts, lasts + 1)
            self._state(int(firsts[0]), int(lasts[-1]))
        if commands is not None:
            stated = commands[(commands["first_op_id"] >= 0) & (commands["n_ops"] > 0)]
            if len(stated):
                first_ids = stated["first_op_id"]
                self._state(int(first_ids.min()), int((first_ids + stated["n_ops"]).max()) - 1)

    def _state(self, low: int, high: int) -> None:
        if self._low is None:
            self._low, self._high = low, high
        else:
            self._low, self._high = min(self._low, low), max(self._high, high)

    def _merge(self, firsts: Array, ends: Array) -> None:
        """Adds ranges from *firsts* to before *ends*, and joins ranges that touch."""
        firsts, ends = np.append(self._firsts, firsts), np.append(self._ends, ends)
        order = np.argsort(firsts, kind="stable")
        firsts, ends = firsts[order], np.maximum.accumulate(ends[order])
        is_apart = firsts[1:] > ends[:-1]
        self._firsts, self._ends = firsts[np.append(True, is_apart)], ends[np.append(is_apart, True)]

    def check(self, where: str, fix: str = "run again to write the whole log") -> None:
        """Raises LogError, which begins with *where* and ends with *fix*, if an op between the first and the last op is
        missing.
        """
        if self._low is None:
            return
        low, high = self._low, self._high
        firsts, ends = self._firsts.tolist(), self._ends.tolist()
        n_missing = high + 1 - low - sum(end - first for first, end in zip(firsts, ends, strict=True))
        if n_missing:
            missing = low if not firsts or firsts[0] > low else ends[0]
            got = f"no row of {n_missing} of the ops {low} to {high}, the first of them op {missing}"
            raise LogError(f"{where}: ops", got, "a row for each op of a closed log", fix)


def _check_codes(where: str, table: Array, codes: dict[str, frozenset[int]]) -> None:
    for column, (low, high) in _bounds(table, codes).items():
        allowed = codes[column]
        bottom, top = min(allowed), max(allowed)
        if bottom <= low and high <= top and len(allowed) == top - bottom + 1:
            continue
        values = table[column]
        for bad in np.unique(values).tolist():
            if bad not in allowed:
                name = "ops" if table.dtype == OPS_DTYPE else "operands"
                at = int(np.argmax(values == bad))
                raise LogError(f"{where}: {name} row {at}", f"{column} {bad}", f"{bottom} to {top}")


def _check_rectangles(where: str, operands: Array) -> None:
    """Raises LogError for a rectangle without bytes or beyond all addresses. The bound excludes overflow."""
    bounds = _bounds(operands, _RECTANGLE)
    if not bounds:
        return
    lows, highs = ([bounds[name][side] for name in _RECTANGLE] for side in (0, 1))
    if all(low >= least for low, least in zip(lows, (0, 1, 1, 0), strict=True)) and (
        max(_reach(*highs)) <= _MOST_NBYTES
    ):
        return
    offset, rows, row_nbytes, stride = (operands[name].astype(np.float64) for name in _RECTANGLE)
    bad = (offset < 0) | (rows < 1) | (row_nbytes < 1) | (stride < 0)
    bad |= np.maximum(*_reach(offset, rows, row_nbytes, stride)) > _MOST_NBYTES
    if bad.any():
        at = int(np.argmax(bad))
        row = operands[at]
        got = f"{row['rows']} rows of {row['row_nbytes']} bytes, {row['stride']} apart, from {row['offset']} on"
        raise LogError(f"{where}: operands row {at}", got, f"1 byte or more within {_MOST_NBYTES} of a memory")


def _reach(offset: Any, rows: Any, row_nbytes: Any, stride: Any) -> tuple[Any, Any]:
    """Returns (the end of a rectangle, the bytes of its rows), in bytes. The second is larger if rows overlap."""
    return offset + (rows - 1) * stride + row_nbytes, rows * row_nbytes


def _check_texts(where: str, ops: Array, n_strings: int) -> None:
    for column, (low, high) in _bounds(ops, TEXTS).items():
        if low < 0 or high >= n_strings:
            at = int(np.argmax((ops[column] < 0) | (ops[column] >= n_strings)))
            needs = f"0 to {n_strings - 1}" if n_strings else "none, there being no strings"
            raise LogError(f"{where}: ops row {at}", f"{column} {int(ops[column][at])}", needs)


def _check_times(where: str, ops: Array) -> None:
    """Raises LogError for a time before the time in front of it, and for a time or a wait below 0."""
    for begin in range(0, len(ops), _ROWS_AT_ONCE):
        rows = ops[begin : begin + _ROWS_AT_ONCE]
        numbers = np.ascontiguousarray(rows.view(_HALVES)["times_and_waits"]).view(np.int64)
        numbers = numbers.reshape(-1, _N_NUMBERS)  # three times as quick as columns of rows of 124 bytes
        ready, start, end, out = numbers.T[: len(TIMES)]
        falls = (start < ready) | (end < start) | (out < end)
        if falls.any() or numbers.min() < 0:
            at = int(np.argmax(falls | (numbers < 0).any(axis=1)))
            raise LogError(f"{where}: ops row {begin + at}", *_wrong_time(rows[at], bool(falls[at])))


def _wrong_time(row: Any, falls: bool) -> tuple[str, str]:
    """Returns (got, needs) for the error about *row*: its times fall, or else a number is below 0."""
    if falls:
        return f"the times {', '.join(str(row[name]) for name in TIMES)}", TIMES_NEED
    return next(f"{name} {row[name]}" for name in (*TIMES, *WAITS) if row[name] < 0), "0 or more"


def _bounds(table: Array, columns: Iterable[str]) -> dict[str, tuple[int, int]]:
    """The least and the greatest value of each of *columns*, by name. Empty for an empty table."""
    found: list[tuple[str, int, int]] = []

    def look(chunk: slice) -> None:
        for column in columns:
            values = table[column][chunk]
            found.append((column, int(values.min()), int(values.max())))

    in_chunks(look, len(table))
    bounds: dict[str, tuple[int, int]] = {}
    for column, low, high in found:
        least, most = bounds.get(column, (low, high))
        bounds[column] = min(least, low), max(most, high)
    return bounds
