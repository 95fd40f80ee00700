"""TransferParts: the parts of DMA services in the order of time, and behind whose requests memories served them."""

from __future__ import annotations

from typing import Final

import numpy as np

from kb_dataexec.analysis.path_rows import PathRows
from kb_dataexec.analysis.transfers import READ, all_transfers, service_parts
from kb_dataexec.arrays.dtypes import Array

MEMORY: Final = ""
"""Stands for the kind of the memory of a transfer."""
BUSY_WITH_OTHERS: Final = "busy with others"
"""What a memory does while a request waits for it."""

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
"""The block and the work of each part."""
_READ: Final = (
    "setup_ps", "request_ps", "wait_ps", "service_ps", "memory_latency_ps", "memory_bytes_ps", "links_bytes_ps",
    "shared_ps", "response_ps",
)  # fmt: skip
_WRITE: Final = (
    "setup_ps", "request_ps", "links_bytes_ps", "shared_ps", "wait_ps", "service_ps", "memory_bytes_ps",
    "memory_latency_ps", "response_ps",
)  # fmt: skip


class TransferParts:
    """The transfers that the log of *rows* tells of. `of_op` has the transfer of each op, -1 for none.

    `bounds[i]` are the times at which the parts of transfer i meet, from the start of the service to its end, and
    `kinds[i]` numbers these parts in `PART_OF`. `memory` is the number of the memory's id in the log. `served_ps` is
    when the memory began. `behind` is the op whose request it served until then, if the transfer waited for that and
    the log tells when the memory began with it; else -1.
    """

    def __init__(self, rows: PathRows) -> None:
        log, ops = rows.log, rows.ops
        self.of_op = np.full(len(ops), -1, np.int64)
        if "transfers" in log.missing:
            self._fill(np.empty(0, np.int64), np.empty((0, len(_READ)), np.int64), np.empty(0, np.bool_), ops.t_start)
            self.memory = self.served_ps = self.behind = self.bytes_ps = np.empty(0, np.int64)
            return
        found = all_transfers(log)
        found = found[ops.find(found["op_id"]) >= 0]
        parts, op = service_parts(log, found), ops.find(found["op_id"])
        is_read = np.array([text == READ for text in log.strings], np.bool_)[ops.name[op]]
        columns = [np.where(is_read, parts[read], parts[write]) for read, write in zip(_READ, _WRITE, strict=True)]
        self._fill(op, np.stack(columns, axis=1), is_read, ops.t_start)
        self.of_op[op] = np.arange(len(op))
        self.memory = found["memory"].astype(np.int64)
        self.served_ps = found["t_served_ps"]
        self.bytes_ps = parts["memory_bytes_ps"]
        behind = ops.find(found["behind_op"])
        before = np.where(behind < 0, -1, self.of_op[behind])
        launch = rows.kernels["launch"][rows.kernel_of[ops.command]]
        follows = (before >= 0) & (parts["wait_ps"] > 0)
        follows[follows] = (
            (self.served_ps[before[follows]] >= 0)
            & (self.served_ps[before[follows]] < self.served_ps[follows])
            & (launch[behind[follows]] == launch[op[follows]])
        )
        self.behind = np.where(follows, behind, -1)

    def _fill(self, op: Array, lengths: Array, is_read: Array, t_start: Array) -> None:
        self.op = op
        self.bounds = np.concatenate([t_start[op, None], t_start[op, None] + np.cumsum(lengths, axis=1)], axis=1)
        names = list(PART_OF)
        reads, writes = (np.array([names.index(name) for name in order]) for order in (_READ, _WRITE))
        self.kinds = np.where(is_read[:, None], reads, writes)

    def cut(self, transfer: Array, start_ps: Array, end_ps: Array) -> tuple[Array, Array, Array, Array]:
        """What takes time from *start_ps* to *end_ps* in each *transfer*, the latest first.

        Returns the number of the question, the start, the end and the kind of each part.
        """
        low = np.maximum(self.bounds[transfer, :-1], start_ps[:, None])[:, ::-1]
        high = np.minimum(self.bounds[transfer, 1:], end_ps[:, None])[:, ::-1]
        which, part = np.nonzero(high > low)
        return which, low[which, part], high[which, part], self.kinds[transfer][:, ::-1][which, part]
