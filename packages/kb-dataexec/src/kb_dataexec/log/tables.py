"""OpLog: an op log in memory, with its tables, a list of strings and a blob of immediates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np

from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.auxiliary import Tables, check_tables, missing_tables
from kb_dataexec.log.digest import LogSummary, RunningDigest
from kb_dataexec.log.row_checks import TEXTS, WAITS, OpIds, check_rows
from kb_dataexec.log.table_dtypes import OPS_DTYPE
from kb_messages import (
    DTYPE_BY_CODE,
    LOG_FORMAT_VERSION,
    SPACE_BY_CODE,
    LogError,
    Operand,
    OpKind,
    OpRecord,
    Role,
)

LeftOut: TypeAlias = Callable[[int, int], bool]
"""A function of two times: True if nobody needs a chunk whose records came between them, both included."""


class LogParts(Protocol):
    """The part of a log's interface that pass 2 needs. An OpLog is one part; a CommandLog makes part after part."""

    @property
    def n_ops(self) -> int:
        """The number of records."""

    @property
    def strings(self) -> list[str]:
        """The table of strings."""

    @property
    def immediates(self) -> bytes:
        """The blob of immediates: the bytes of constants."""

    @property
    def tables(self) -> Tables:
        """The auxiliary tables that the log has as a whole, by name, `sends` among them."""

    def parts(self, backwards: bool = False) -> Iterator[OpLog]:
        """Yields logs of records that follow each other in the order of pass 2; *backwards*, the last part first."""


class OpLog:
    """A whole log. *ops* and *operands* are structured arrays with `OPS_DTYPE` and `OPERAND_DTYPE`, or lists of chunks.

    Rows stand in the order in which they were written. The operands of an op keep their order. *tables* are the
    auxiliary tables, by name; `missing` has the names of the others. The constructor checks nothing; `check()` does.
    `is_complete` is False for the log of a run that was cut off. The digest is computed by format *version*.
    """

    def __init__(
        self,
        ops: Array | list[Array],
        operands: Array | list[Array],
        strings: list[str],
        immediates: bytes = b"",
        is_complete: bool = True,
        tables: Tables | None = None,
        version: int = LOG_FORMAT_VERSION,
    ) -> None:
        self._chunks = ops, operands
        self.tables: Tables = {} if tables is None else tables
        self.version = version
        self.is_complete = is_complete
        self.is_numbered_by_line = False
        self.strings = strings
        self.immediates = immediates

    @cached_property
    def ops(self) -> Array:
        """The table `ops` as one array with `OPS_DTYPE`."""
        chunks = self._chunks[0]
        return np.concatenate(chunks) if isinstance(chunks, list) else chunks

    @cached_property
    def operands(self) -> Array:
        """The table `operands` as one array with `OPERAND_DTYPE`."""
        chunks = self._chunks[1]
        return np.concatenate(chunks) if isinstance(chunks, list) else chunks

    @property
    def n_ops(self) -> int:
        """The number of rows of `ops`."""
        return len(self.ops)

    @property
    def n_operands(self) -> int:
        """The number of rows of `operands`."""
        return len(self.operands)

    def parts(self, backwards: bool = False) -> Iterator[OpLog]:  # one part has no order
        """Yields the log itself, its only part."""
        yield self

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of the auxiliary tables that the log lacks."""
        return missing_tables(self.tables)

    def table(self, name: str) -> Array:
        """Returns the auxiliary table *name*. Raises LogError if the log lacks it."""
        if name not in self.tables:
            fix = "logs of version 1 and logs from elsewhere may be without it; kb run writes one"
            raise LogError("op log", f"no table {name}", f"the {name} of the run", fix)
        return self.tables[name]

    @property
    def digest(self) -> str:
        """The digest (sha256, hex) of the log as it is now."""
        digest = RunningDigest(self.version)
        digest.feed_rows(self.ops, self.operands, self.tables)
        return digest.of(self.strings, self.immediates)

    @property
    def summary(self) -> LogSummary:
        """The digest and the length of each table."""
        return LogSummary(
            self.digest, self.n_ops, self.n_operands, {name: len(self.tables[name]) for name in self.tables}
        )

    def records(self) -> Iterator[OpRecord]:
        """Yields every row as an OpRecord, in written order."""
        return (self.record(index) for index in range(self.n_ops))

    def record(self, index: int) -> OpRecord:
        """Returns row *index* of `ops` as an OpRecord, with its operands and strings."""
        row = dict(zip(OPS_DTYPE.names or (), self.ops[index].item(), strict=True))
        order, keys = self._operand_order
        first, last = np.searchsorted(keys, (row["op_id"], row["op_id"] + 1))
        waits = tuple(row.pop(name) for name in WAITS)
        texts = {name: self.strings[row.pop(name)] for name in TEXTS}
        operands = tuple(operand(self.operands[at].item()) for at in order[first:last])
        return OpRecord(**row | texts | {"kind": OpKind(row["kind"])}, waits_ps=waits, operands=operands)

    @cached_property
    def _operand_order(self) -> tuple[Array, Array]:
        order = np.argsort(self.operands["op_id"], kind="stable")
        return order, self.operands["op_id"][order]

    def check(self, where: str) -> None:
        """Raises LogError, which begins with *where*, for invalid columns, codes, rectangles, string numbers or
        times.
        """
        check_rows(where, self.ops, self.operands, len(self.strings))
        check_tables(where, self.tables, len(self.strings))

    def check_gaps(self, where: str) -> None:
        """Raises LogError, which begins with *where*, if a closed log lacks an op between its first and its last op.

        A log that was cut off lacks ops, because rows are written in the order of completion. A log whose ops are
        numbered by the lines of a file lacks the numbers of the other lines.
        """
        if self.is_complete and not self.is_numbered_by_line:
            ids = OpIds()
            ids.add(self.ops, self.tables.get("commands"))
            ids.check(where)


def operand(row: tuple[Any, ...]) -> Operand:
    """Returns a row of the table `operands` as an Operand."""
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
