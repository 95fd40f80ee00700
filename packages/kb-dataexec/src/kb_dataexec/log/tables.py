"""OpLog: an op log in memory. It has two tables, a list of strings and a blob of immediates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, Final

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.parallel import in_chunks
from kb_dataexec.log.digest import LogSummary, RunningDigest
from kb_messages import (
    DTYPE_BY_CODE,
    OFFSET_BITS,
    OPERAND_COLUMNS,
    OPS_COLUMNS,
    SPACE_BY_CODE,
    LogError,
    Operand,
    OpKind,
    OpRecord,
    Role,
    WaitReason,
)

OPS_DTYPE: Final = np.dtype(list(OPS_COLUMNS))
OPERAND_DTYPE: Final = np.dtype(list(OPERAND_COLUMNS))
_WAITS: Final = tuple(f"wait_{reason.name.lower()}_ps" for reason in WaitReason)
_TEXTS: Final = ("name", "component", "line", "params")
_OPS_CODES: Final[dict[str, frozenset[int]]] = {"kind": frozenset(OpKind)}
_CODES: Final[dict[str, frozenset[int]]] = {
    "role": frozenset(Role),
    "space": frozenset(SPACE_BY_CODE),
    "dtype": frozenset(DTYPE_BY_CODE),
    "release": frozenset((0, 1)),
}

_RECTANGLE: Final = ("offset", "rows", "row_nbytes", "stride")
_MOST_NBYTES: Final = 1 << OFFSET_BITS


class OpLog:
    """A whole log. *ops* and *operands* are structured arrays with `OPS_DTYPE` and `OPERAND_DTYPE`, or lists of chunks.

    Rows stand in the order in which they were written. The operands of an op keep their order. The constructor checks
    nothing; `check()` does. `is_complete` is false for the log of a run that was cut off.
    """

    def __init__(
        self,
        ops: Array | list[Array],
        operands: Array | list[Array],
        strings: list[str],
        immediates: bytes = b"",
        is_complete: bool = True,
    ) -> None:
        self._chunks = ops, operands
        self.is_complete = is_complete
        self.strings = strings
        self.immediates = immediates

    @cached_property
    def ops(self) -> Array:
        """The ops table as one array."""
        chunks = self._chunks[0]
        return np.concatenate(chunks) if isinstance(chunks, list) else chunks

    @cached_property
    def operands(self) -> Array:
        """The operands table as one array."""
        chunks = self._chunks[1]
        return np.concatenate(chunks) if isinstance(chunks, list) else chunks

    @property
    def n_ops(self) -> int:
        """The number of rows of the ops table."""
        return len(self.ops)

    @property
    def n_operands(self) -> int:
        """The number of rows of the operands table."""
        return len(self.operands)

    @property
    def digest(self) -> str:
        """The digest (sha256, hex) of the log as it is now. See `Digest`."""
        digest = RunningDigest()
        digest.feed_rows(self.ops, self.operands)
        return digest.of(self.strings, self.immediates)

    @property
    def summary(self) -> LogSummary:
        """The digest and the counts."""
        return LogSummary(self.digest, self.n_ops, self.n_operands)

    def records(self) -> Iterator[OpRecord]:
        """Every row as an OpRecord, in written order."""
        return (self.record(index) for index in range(self.n_ops))

    def record(self, index: int) -> OpRecord:
        """Row *index* of `ops` with its operands and texts."""
        row = dict(zip(OPS_DTYPE.names or (), self.ops[index].item(), strict=True))
        order, keys = self._operand_order
        first, last = np.searchsorted(keys, (row["op_id"], row["op_id"] + 1))
        waits = tuple(row.pop(name) for name in _WAITS)
        texts = {name: self.strings[row.pop(name)] for name in _TEXTS}
        operands = tuple(operand(self.operands[at].item()) for at in order[first:last])
        return OpRecord(**row | texts | {"kind": OpKind(row["kind"])}, waits_ps=waits, operands=operands)

    @cached_property
    def _operand_order(self) -> tuple[Array, Array]:
        order = np.argsort(self.operands["op_id"], kind="stable")
        return order, self.operands["op_id"][order]

    def check(self, where: str) -> None:
        """Raise LogError, which begins with *where*, unless columns, codes, rectangles and string indices are right."""
        for name, table, dtype in (("ops", self.ops, OPS_DTYPE), ("operands", self.operands, OPERAND_DTYPE)):
            if table.dtype != dtype:
                raise LogError(f"{where}: {name}", f"columns {table.dtype.descr}", f"columns {dtype.descr}")
        for table, allowed in ((self.ops, _OPS_CODES), (self.operands, _CODES)):
            _check_codes(where, table, allowed)
        _check_rectangles(where, self.operands)
        _check_texts(where, self.ops, len(self.strings))


def operand(row: tuple[Any, ...]) -> Operand:
    """A row of the operands table as an Operand."""
    _, role, space, dtype, release, owner, offset, rows, row_nbytes, stride = row
    return Operand(
        role=Role(role),
        space=SPACE_BY_CODE[space],
        owner=owner,
        offset=offset,
        rows=rows,
        row_nbytes=row_nbytes,
        stride=stride,
        dtype=DTYPE_BY_CODE[dtype],
        release=bool(release),
    )


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
    """Raise LogError for a rectangle without bytes, or one that no address reaches. The bound excludes overflow."""
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
    """(the end of a rectangle, the bytes of its rows, which are more when rows overlap)."""
    return offset + (rows - 1) * stride + row_nbytes, rows * row_nbytes


def _check_texts(where: str, ops: Array, n_strings: int) -> None:
    for column, (low, high) in _bounds(ops, _TEXTS).items():
        if low < 0 or high >= n_strings:
            at = int(np.argmax((ops[column] < 0) | (ops[column] >= n_strings)))
            needs = f"0 to {n_strings - 1}" if n_strings else "none, there being no strings"
            raise LogError(f"{where}: ops row {at}", f"{column} {int(ops[column][at])}", needs)


def _bounds(table: Array, columns: Iterable[str]) -> dict[str, tuple[int, int]]:
    """The least and the greatest value of each of *columns*. Empty for an empty table."""
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
