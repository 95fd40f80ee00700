"""The parts of the time of each DMA service: the table `transfers` of a log, with the rows that it leaves out."""

from __future__ import annotations

from threading import Lock
from typing import Final

import numpy as np

from kb_dataexec.analysis.dma_ops import DmaOps
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.ranges import numbered_rows
from kb_dataexec.log import OpLog
from kb_messages import LOG_TABLES

PARTS: Final = (
    "setup_ps", "request_ps", "links_bytes_ps", "shared_ps", "wait_ps", "service_ps", "memory_latency_ps",
    "memory_bytes_ps", "response_ps",
)  # fmt: skip
"""The columns of `service_parts` behind `op_id`."""
_TIMES: Final = LOG_TABLES["transfers"].ascending


class LoggedServices:
    """The DMA ops of *log* whose services the table `transfers` describes: by a row of their own, or of an equal
    service.

    `ops` are all DMA ops; `place` are the indices of the described ops, ascending. `table` has the rows of the table in
    their order, each op once, and `own_place` has the indices of their ops. For each op of `place`, `row` is its row of
    `table`, and its times are `later_ps` picoseconds later than there. A caller that has the DMA ops of *log* passes
    them as *ops*. Raises LogError for a log without the table.
    """

    def __init__(self, log: OpLog, ops: DmaOps | None = None) -> None:
        table, self.ops = log.table("transfers"), DmaOps.of(log) if ops is None else ops
        _, first = np.unique(table["op_id"], return_index=True)
        first = np.sort(first)
        place, is_there = self.ops.find(table["op_id"][first])
        self.table, self.own_place = table[first[is_there]], place[is_there]
        row = np.full(len(self.ops), -1, np.int64)
        row[self.own_place] = np.arange(len(self.table))
        models = np.flatnonzero(
            (self.table["t_served_ps"] == self.table["t_arrived_ps"]) & (self.table["shared_ps"] == 0)
        )
        unlisted = np.flatnonzero(row < 0)
        if len(unlisted) and len(models):
            kind = _kinds(self.ops)
            model_of = np.full(int(kind.max()) + 1, -1, np.int64)
            model_of[kind[self.own_place[models]][::-1]] = models[::-1]  # of several rows, the first stays
            row[unlisted] = model_of[kind[unlisted]]
        self.place = np.flatnonzero(row >= 0)
        self.row = row[self.place]
        self.later_ps = self.ops.end_ps[self.place] - self.ops.end_ps[self.own_place[self.row]]


class LazyServices:
    """Finds the LoggedServices of *log* and *ops* at the first call, once for all threads."""

    def __init__(self, log: OpLog, ops: DmaOps | None = None) -> None:
        self._log, self._ops, self._lock = log, ops, Lock()
        self._found: LoggedServices | None = None

    def __call__(self) -> LoggedServices:
        """Returns the services. Raises LogError for a log without the table `transfers`."""
        with self._lock:
            if self._found is None:
                self._found = LoggedServices(self._log, self._ops)
            return self._found


def all_transfers(log: OpLog) -> Array:
    """Returns a row of `transfers` for each DMA op of *log* that the table describes, ascending by `op_id`.

    A service without a row has the times of the first undisturbed service of its kind (same component, name, params,
    memory and bytes), moved to its own end. Undisturbed means that it was served when it arrived, and shared no link.
    Raises LogError for a log without the table.
    """
    logged = LoggedServices(log)
    found = logged.table[logged.row]
    found["op_id"] = logged.ops.op_id[logged.place]
    for name in _TIMES:
        found[name] += logged.later_ps
    return found


def service_parts(log: OpLog, transfers: Array) -> Array:
    """Returns the picoseconds of each part of the services *transfers*, rows of `all_transfers`: `op_id` and `PARTS`.

    The parts of a service add up to `t_end_ps - t_start_ps` of its op. In the order in which they follow each other, a
    read is `setup`, `request`, `wait`, `memory_latency`, bytes, `shared`, `response`, and a write is `setup`,
    `request`, `links_bytes`, `shared`, `wait`, `memory_bytes`, `memory_latency`, `response`. The bytes of a read belong
    to the links if these are slower than the memory, else to the memory. `service` is the time of a memory that does
    not report its parts.
    """
    ops = DmaOps.of(log)
    place, _ = ops.find(transfers["op_id"])
    return parts_of(transfers, ops, place)


def parts_of(transfers: Array, ops: DmaOps, place: Array) -> Array:
    """`service_parts` of *transfers*, which belong to the ops with the indices *place* of *ops*."""
    is_read, end_ps = ops.is_read[place], ops.end_ps[place]
    parts = np.zeros(len(transfers), [("op_id", "<i8"), *((name, "<i8") for name in PARTS)])
    parts["op_id"], parts["shared_ps"] = transfers["op_id"], transfers["shared_ps"]
    parts["setup_ps"] = transfers["t_sent_ps"] - ops.start_ps[place]
    for mine, fill in ((is_read, _fill_reads), (~is_read, _fill_writes)):
        filled = parts[mine]
        fill(filled, transfers[mine], end_ps[mine])
        parts[mine] = filled
    return parts


def memory_spans(log: OpLog, services: LazyServices | None = None) -> Array:
    """Returns the time in which the bytes of each logged transfer held their memory, ascending by op.

    Columns: `row`, the index of its op in `log.ops`; `memory`, a number in `log.strings`; `start_ps` and `end_ps`.

    A read holds the memory from the time at which it is served, as long as its bytes take. The latency of the memory is
    left out, because the next request is served meanwhile. A write holds the memory until its bytes are written: from
    the time at which its last part is served, or, if nothing was left to do by then, while its bytes came. For a memory
    that does not report when it begins, it is the time from arrival to end, latency included. Raises LogError for a log
    without the table. A caller that has the services of *log* passes them as *services*.
    """
    logged = (services or LazyServices(log))()
    rows, is_read = logged.table, logged.ops.is_read[logged.own_place]
    sent, arrived, served, first, last = (rows[name] for name in _TIMES)
    is_known = served >= 0
    came = ~is_read & is_known & (first == served)
    start = np.where(came, sent + rows["latency_ps"] + rows["shared_ps"], np.where(is_known, served, arrived))
    known_end = np.where(is_read, served + last - first, first)
    end = np.where(is_known, known_end, np.where(is_read, first, last))
    spans = np.empty(len(logged.row), [("row", "<i8"), ("memory", "<i4"), ("start_ps", "<i8"), ("end_ps", "<i8")])
    spans["row"], spans["memory"] = logged.ops.row[logged.place], rows["memory"][logged.row]
    spans["start_ps"], spans["end_ps"] = start[logged.row] + logged.later_ps, end[logged.row] + logged.later_ps
    return spans


def _fill_reads(parts: Array, rows: Array, end_ps: Array) -> None:
    sent, arrived, served, first, last = (rows[name] for name in _TIMES)
    parts["request_ps"] = arrived - sent
    _fill_memory(parts, served >= 0, (served - arrived, first - served), first - arrived)
    bytes_ps = end_ps - first - rows["latency_ps"] - rows["shared_ps"]
    at_memory = bytes_ps <= last - first
    parts["memory_bytes_ps"] = np.where(at_memory, bytes_ps, 0)
    parts["links_bytes_ps"] = np.where(at_memory, 0, bytes_ps)
    parts["response_ps"] = rows["latency_ps"]


def _fill_writes(parts: Array, rows: Array, end_ps: Array) -> None:
    sent, arrived, served, first, last = (rows[name] for name in _TIMES)
    parts["request_ps"] = rows["latency_ps"]
    parts["links_bytes_ps"] = arrived - sent - rows["latency_ps"] - rows["shared_ps"]
    _fill_memory(parts, served >= 0, (served - arrived, last - first), last - arrived)
    parts["memory_bytes_ps"] = np.where(served >= 0, first - served, 0)
    parts["response_ps"] = end_ps - last


def _fill_memory(parts: Array, is_known: Array, wait_and_latency: tuple[Array, Array], whole: Array) -> None:
    wait, latency = wait_and_latency
    parts["wait_ps"] = np.where(is_known, wait, 0)
    parts["memory_latency_ps"] = np.where(is_known, latency, 0)
    parts["service_ps"] = np.where(is_known, 0, whole)


def _kinds(ops: DmaOps) -> Array:
    """A number for each of *ops*, equal for the ops of a kind."""
    return numbered_rows(ops.component, ops.params, ops.is_read.astype(np.int8), *ops.far)
