"""Follows the paths of a log window by window, and compares the answer with that of the whole log."""

from collections.abc import Iterator

import msgspec
import numpy as np

from kb_dataexec import OpLog
from kb_dataexec.analysis import where
from kb_dataexec.analysis.windows.where_windows import where_in_windows
from kb_dataexec.log.tables import LeftOut


class InChunks:
    """*log* in chunks of *n* records, its further tables in the first."""

    def __init__(self, log: OpLog, n: int) -> None:
        self._log, self._n = log, n

    def chunks(self) -> Iterator[OpLog]:
        """As those of a LogFolder."""
        log = self._log
        for low in range(0, max(log.n_ops, 1), self._n):
            ops = log.ops[low : low + self._n]
            operands = log.operands[np.isin(log.operands["op_id"], ops["op_id"])]
            tables = {name: table[: None if low == 0 else 0] for name, table in log.tables.items()}
            yield OpLog(ops, operands, log.strings, log.immediates, tables=tables)

    def some_chunks(self, is_left_out: LeftOut) -> Iterator[OpLog]:
        """As those of a LogFolder."""
        return (chunk for chunk in self.chunks() if not is_left_out(*chunk.ops["t_out_ps"][[0, -1]].tolist()))


def check(log: OpLog, n: int) -> None:
    """Check the answer for *log* in chunks of *n* records."""
    expected = msgspec.json.encode(where(log))
    for most_kept in (0, log.n_ops):
        seen: list[int] = []
        found = where_in_windows(
            InChunks(log, n), lambda chunk, seen=seen: seen.append(chunk.n_ops), most=1, most_kept=most_kept
        )
        assert msgspec.json.encode(found) == expected
        assert sum(seen) == log.n_ops
