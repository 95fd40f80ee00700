"""Executor: computes the memory after an op log (pass 2), from the log and the initial memory alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from kb_dataexec.analysis.provenance import explained
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.backends import Backend, load_backend, using
from kb_dataexec.execute.fused.run import FUSE_FROM
from kb_dataexec.execute.fused.run import run as run_fused
from kb_dataexec.log.schedule import Schedule
from kb_dataexec.log.tables import LogParts
from kb_dataexec.memory.store import MemoryStore, StoreError
from kb_dataexec.ops import one_by_one
from kb_dataexec.ops.slot_releases import SlotReleases
from kb_messages import DType, MemorySpace, Rectangle

Mode = Literal["fused", "tile"]


class Look(NamedTuple):
    """A read of memory in the middle of a log: the rectangle, after all commands before *command_seq*."""

    command_seq: int
    rectangle: Rectangle
    dtype: DType


class Executor:
    """Executes *log* on a snapshot of *memory*. *memory* has a region for every memory that the log names.

    Records take effect in the order (command_seq, tile_id, stage_index, op_id). An op reads all its operands, then
    un-initialises the operands with `release`, then writes. The bytes of a message are un-initialised before the
    command at which its slot is free. Mode "tile" executes one op at a time. Mode "fused" uses
    far fewer matrix products and gives the same bytes up to the order of f32 additions; windows of fewer than
    *fuse_from* records still run one op at a time. *backend*, a name or a backend from `load_backend`, computes
    products and functions. Raises ValueError for another mode, and BackendError for a backend that is not there.
    """

    def __init__(
        self,
        log: LogParts,
        memory: MemoryStore,
        mode: Mode = "fused",
        backend: Backend | str = "numpy",
        fuse_from: int = FUSE_FROM,
    ) -> None:
        if mode not in ("fused", "tile"):
            raise ValueError(f"mode: got {mode!r}, needs 'fused' or 'tile'")
        self._log = log
        self._memory = memory
        self._mode = mode
        self._fuse_from = fuse_from
        self._backend = load_backend(backend) if isinstance(backend, str) else backend

    def run(self, progress: Callable[[int, int], None] | None = None) -> MemoryStore:
        """Executes the log, and returns the memory after its last op.

        *progress* is called with (records done, records in the log). Raises LogError for a log that cannot be executed,
        such as a closed log that lacks an op. Raises StoreError for a read of bytes that are not
        initialised and for an address that no memory has. Both errors name the op, its component and its line. A
        StoreError about a byte also names the ops that wrote and released that byte.
        """
        return self.run_and_look((), progress)[0]

    def run_and_look(
        self, looks: Sequence[Look], progress: Callable[[int, int], None] | None = None
    ) -> tuple[MemoryStore, list[Array | StoreError]]:
        """Executes the log, and returns the memory after its last op and the result of each of *looks*.

        A result is an array (rows, cols), or the error of a read that was refused. *progress* and errors are those of
        `run`. The log is executed in parts that end at the looks, so many of them make fused mode slower.
        """
        store = prepared(self._log, self._memory)
        seen: list[Array | StoreError] = [np.empty(0)] * len(looks)
        pending = sorted(range(len(looks)), key=lambda each: looks[each].command_seq, reverse=True)
        begin = 0
        for schedule in schedules(self._log):
            seqs = np.ascontiguousarray(schedule.ops["command_seq"])
            report = None if progress is None else _progress_behind(begin, self._log.n_ops, progress)
            done = 0
            while pending and len(seqs) and looks[pending[-1]].command_seq <= seqs[-1]:
                number = pending.pop()
                stop = int(np.searchsorted(seqs, looks[number].command_seq))
                self._part(schedule, store, done, stop, report)
                done = stop
                seen[number] = self._seen(store, looks[number])
            self._part(schedule, store, done, len(seqs), report)
            begin += schedule.n_records(len(seqs))
        for number in pending:
            seen[number] = self._seen(store, looks[number])
        store.remove_region(0)
        return store, seen

    def _part(
        self, schedule: Schedule, store: MemoryStore, start: int, stop: int, report: Callable[[int], None] | None
    ) -> None:
        """Executes records [start, stop) on *store*."""
        try:
            with using(self._backend):
                if self._mode == "fused":
                    run_fused(schedule, store, start, stop, report, self._fuse_from)
                else:
                    one_by_one.run(schedule, store, start, stop, report)
        except StoreError as error:
            raise explained(self._log, error) from error

    def _seen(self, store: MemoryStore, look: Look) -> Array | StoreError:
        try:
            return store.read(*look.rectangle.in_memory, look.dtype).copy()
        except StoreError as error:
            return error


def _progress_behind(begin: int, total: int, progress: Callable[[int, int], None]) -> Callable[[int], None]:
    """Returns a function that reports records of a part, behind *begin* records of other parts, to *progress*."""
    return lambda done: progress(begin + done, total)


def schedules(log: LogParts) -> Iterator[Schedule]:
    """Yields the records of each part of *log* in the order of pass 2.

    Raises LogError for an invalid log, and for a closed log that lacks an op.
    """
    slots, n_records = SlotReleases(log.tables.get("sends")), 0
    for part in log.parts():
        n_records += part.n_ops
        schedule = Schedule(part)
        slots.insert_into(schedule, n_records == log.n_ops)
        if part is log:  # the parts of a CommandLog are whole commands, which lack nothing
            part.check_gaps("op log")
        yield schedule


def prepared(log: LogParts, memory: MemoryStore) -> MemoryStore:
    """Returns a snapshot of *memory* with the immediates of *log* as memory 0."""
    store = memory.snapshot()
    blob = log.immediates
    store.add_region(0, len(blob), MemorySpace.IMMEDIATE)
    if blob:
        store.write(0, 0, blob)
    return store
