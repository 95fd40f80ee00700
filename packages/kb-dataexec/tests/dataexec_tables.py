"""A log with every auxiliary table, by hand: two commands of one program, of which the second waits for the first.

The second command is a message to another program, which has a signal for the first one.
"""

from collections.abc import Collection, Sequence

import numpy as np
from dataexec_gemm_log import GemmProblem

from kb_dataexec.log.table_dtypes import TABLE_DTYPES
from kb_dataexec.log.tables import OpLog
from kb_messages import LOG_TABLES

ROWS = {
    "dependencies": [(5, 4), (5, 2)],
    "commands": [
        (0, "pe0", "kernel.py:3", "gemm", 2, 0, 12, 0, 4, 4, 4, 8, 8, 90, -1, 0, -1, 0),
        (1, "pe0", "kernel.py:4", "store", 1, 12, 1, 4, 90, 95, 95, -1, -1, 99, 0, 1, 0, 82),
    ],
    "dispatches": [(6, 20, 30)],
    "transfers": [(0, "hbm0", 8, 10, 10, 40, 42, 2, 0, -1), (6, "hbm0", 30, 31, 42, 50, 60, 2, 3, 0)],
    "kernels": [(0, "pe0", 0, 3, 3, 99)],
    "messages": [(0, "host", "io_cpu", 0, 0, 2), (0, "io_cpu", "host", 1, 101, 103)],
    "sends": [(1, "pe1", "tag 0", 2, 64, 88, 97, 98, 100, 105, "kernel.py:7", 2, 2)],
    "signals": [
        (0, "pe1", "pe0", "flag 0", 1, 66, 70, 80, "kernel.py:6", 2, 4, 0, -1),
        (1, "pe1", "pe0", "flag 0", 1, 86, 90, 100, "kernel.py:6", 2, 4, 0, -1),
    ],
    "waits": [
        ("pe0", "kernel.py:3", 2, 60, 80, 0, 1, "pe1", 4, 2, 8, 0, -1),
        ("pe1", "kernel.py:7", 0, 80, 98, 1, 2, "pe0", 4, 1, 0, 2, 1),
    ],
    "calls": [
        (0, 1, 0, "bench.py:9", 0, -1, -1, -1, 0, 1, 1, 103),
        (1, 0, 2, "bench.py:10", -1, -1, 2, -1, 1, 2, 2, 104),
    ],
    "reads": [(1, 5, 64, 1, 256, 256)],
}


def log_with_tables(size: int = 12, left_out: Collection[str] = ()) -> OpLog:
    """A product of *size* x *size* x *size* with the tables above, but those *left_out*."""
    log = GemmProblem(size, size, size, (4, 4, 4)).log()
    strings = list(log.strings)

    def number(value: int | str) -> int:
        if isinstance(value, str) and value not in strings:
            strings.append(value)
        return strings.index(value) if isinstance(value, str) else value

    tables = {
        name: np.array([tuple(map(number, row)) for row in rows], TABLE_DTYPES[name])
        for name, rows in ROWS.items()
        if name not in left_out
    }
    return OpLog(log.ops, log.operands, strings, b"12345678", tables=tables)


def lines_of_tables() -> list[dict[str, object]]:
    """The rows as objects of lines of JSON."""
    lines = []
    for name, rows in ROWS.items():
        schema = LOG_TABLES[name]
        for row in rows:
            fields = dict(zip([column for column, _ in schema.columns], row, strict=True))
            fields |= {column: code(fields[column]).name.lower() for column, code in schema.codes.items()}
            lines.append({"table": name, **fields})
    return lines


def table_of(name: str, rows: Sequence[tuple[int, ...]]) -> np.ndarray:
    """*rows* as the table *name*. Its last columns, which *rows* lack, are 0."""
    dtype = TABLE_DTYPES[name]
    return np.array([(*row, *[0] * (len(dtype) - len(row))) for row in rows], dtype)
