"""TransferParts: the parts of DMA services in the order of time, and the requests that they waited for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from kb_dataexec.analysis.critical_path.rows import PathRows
from kb_dataexec.analysis.transfers import LazyServices, parts_of
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.ranges import numbered

MEMORY: Final = ""
"""Stands for the kind of the memory of a transfer."""
BUSY_WITH_OTHERS: Final = "busy with others"
"""The work of a memory while a request waits for it."""

PART_OF: Final = {
    "setup_ps": ("pe_dma", "setup"),
    "request_ps": ("links", "request"),
    "wait_ps": (MEMORY, BUSY_WITH_OTHERS),
    "service_ps": (MEMORY, "service"),
    "memory_latency_ps": (MEMORY, "latency"),
    "memory_bytes_ps": (MEMORY, "bytes"),
    "links_bytes_ps": ("links", "bytes"),
    "shared_ps": ("links", "shared"),
    "response_ps": ("links", "response"),
}
"""The block and the work of each part. Parts are numbered from 0 on in this order."""
MEMORY_BYTES: Final = list(PART_OF).index("memory_bytes_ps")
"""The number of the part in which bytes hold the memory."""
_READ: Final = (
    "setup_ps", "request_ps", "wait_ps", "service_ps", "memory_latency_ps", "memory_bytes_ps", "links_bytes_ps",
    "shared_ps", "response_ps",
)  # fmt: skip
_WRITE: Final = (
    "setup_ps", "request_ps", "links_bytes_ps", "shared_ps", "wait_ps", "service_ps", "memory_bytes_ps",
    "memory_latency_ps", "response_ps",
)  # fmt: skip


class Cut(NamedTuple):
    """Pieces of services within parts of one kind: the number of the query, and the start and end of the piece."""

    part: int
    which: Array
    start_ps: Array
    end_ps: Array


class TransferParts:
    """The transfers in the log of *rows*, with its *services*.

    `of_op` is the transfer of each op, -1 for none. `op` is the op of each transfer. `memory` is the index of its
    memory in `memories`, which has string numbers. `served_ps` is the time at which the memory began. `behind` is the
    op whose request the memory served until then, if the transfer waited for it and the log has its time; else -1.
    `logged_behind` is the id of that op as the log states it.
    """

    def __init__(self, rows: PathRows, services: LazyServices) -> None:
        log, self._ops = rows.log, rows.ops
        self.of_op = np.full(len(rows.ops), -1, np.int64)
        self.op = self.memory = self.memories = self.served_ps = self.behind = np.empty(0, np.int64)
        self.logged_behind = self.op
        self._row = self._setup_ps = np.empty(0, np.int64)
        self._is_read = np.empty(0, np.bool_)
        self._lengths = {name: np.empty(0, np.int64) for name in PART_OF}
        self._takes_time = dict.fromkeys(PART_OF, False)
        if "transfers" in log.missing:
            return
        logged = services()
        op = rows.ops.find(logged.ops.op_id[logged.place])
        kept = op >= 0
        self.op, place, self._row, later_ps = op[kept], logged.place[kept], logged.row[kept], logged.later_ps[kept]
        self.of_op[self.op] = np.arange(len(self.op))
        self._is_read = logged.ops.is_read[place]
        parts = parts_of(logged.table, logged.ops, logged.own_place)
        self._lengths = {name: np.ascontiguousarray(parts[name]) for name in PART_OF}
        self._takes_time |= {name: bool(lengths.any()) for name, lengths in self._lengths.items()}
        took_ps = logged.ops.end_ps - logged.ops.start_ps
        self._setup_ps = parts["setup_ps"][self._row] + took_ps[place] - took_ps[logged.own_place[self._row]]
        self._takes_time["setup_ps"] = bool(self._setup_ps.any())
        self.memories, memory = numbered(logged.table["memory"])
        self.memory = memory[self._row]
        self.served_ps = logged.table["t_served_ps"][self._row] + later_ps
        self.logged_behind = logged.table["behind_op"][self._row]
        self.behind = self._followed(rows, self.logged_behind)

    def _followed(self, rows: PathRows, behind_op: Array) -> Array:
        """The op of each id *behind_op*; -1 if the log lacks the time at which the memory began to serve that op."""
        behind = np.full(len(self.op), -1, np.int64)
        waited = np.flatnonzero(self.lengths("wait_ps", np.arange(len(self.op))) > 0)
        ops = rows.ops.find(behind_op[waited])
        before = np.where(ops < 0, -1, self.of_op[ops])
        there = before >= 0
        waited, ops, before = waited[there], ops[there], before[there]
        launch = _launches(rows)
        follows = (
            (self.served_ps[before] >= 0)
            & (self.served_ps[before] < self.served_ps[waited])
            & (self.memory[before] == self.memory[waited])
            & (launch[rows.ops.command[ops]] == launch[rows.ops.command[self.op[waited]]])
        )
        behind[waited[follows]] = ops[follows]
        return behind

    def lengths(self, name: str, transfers: Array) -> Array:
        """Returns the picoseconds of the part *name* of each of *transfers*."""
        return self._setup_ps[transfers] if name == "setup_ps" else self._lengths[name][self._row[transfers]]

    def cut(self, transfer: Array, start_ps: Array, end_ps: Array) -> Iterator[Cut]:
        """Yields the pieces of each *transfer* between *start_ps* and *end_ps*, part by part."""
        is_read = self._is_read[transfer]
        for mine, order in ((is_read, _READ), (~is_read, _WRITE)):
            which = np.flatnonzero(mine)
            asked = transfer[which]
            starts, ends = start_ps[which], end_ps[which]
            high = self._ops.t_start[self.op[asked]]
            for name in order if len(which) else ():
                if not self._takes_time[name]:
                    continue
                low, high = high, high + self.lengths(name, asked)
                first, last = np.maximum(low, starts), np.minimum(high, ends)
                there = np.flatnonzero(last > first)
                if len(there):
                    yield Cut(list(PART_OF).index(name), which[there], first[there], last[there])


def _launches(rows: PathRows) -> Array:
    """The launch of each command. A program without a row did not end, and so is of the last launch."""
    launches = rows.kernels["launch"]
    return np.append(launches, launches[-1:] if len(launches) else -1)[rows.kernel_of]
