"""Pass 2: computes what an op log says, from the log and the initial memory alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from kb_dataexec.analysis.provenance import explained
from kb_dataexec.backends import Backend, load_backend, using
from kb_dataexec.execute.fused import run as fused
from kb_dataexec.log.schedule import Schedule
from kb_dataexec.log.tables import OpLog
from kb_dataexec.memory.store import MemoryStore, StoreError
from kb_dataexec.ops import one_by_one as tilewise
from kb_messages import MemorySpace

Mode = Literal["fused", "tile"]


class Executor:
    """Executes *log* on a snapshot of *memory*, which has a region for every memory the log names.

    Records take effect in the order (command_seq, tile_id, stage_index, op_id). An op reads all its operands, then
    un-initialises those with `release`, then writes. ``mode="tile"`` does one op at a time; ``mode="fused"`` gives
    the same bytes up to the order of f32 additions, with far fewer matrix products. *backend* (its name, or one from
    `load_backend`) computes products and functions. Raises BackendError when it is not there.
    """

    def __init__(self, log: OpLog, memory: MemoryStore, mode: Mode = "fused", backend: Backend | str = "numpy") -> None:
        if mode not in ("fused", "tile"):
            raise ValueError(f"mode: got {mode!r}, needs 'fused' or 'tile'")
        self._log = log
        self._memory = memory
        self._mode = mode
        self._backend = load_backend(backend) if isinstance(backend, str) else backend

    def run(self, progress: Callable[[int, int], None] | None = None) -> MemoryStore:
        """The memory after the log's last op. *progress* is called with (records done, records in all).

        Raises LogError for a log that cannot be executed and StoreError for reads of bytes that are not initialised
        and for addresses that no memory has; both name the op, its component and its line, and the former who wrote
        and released the byte before.
        """
        schedule = Schedule(self._log)
        store = prepared(self._log, self._memory)
        total = len(schedule.ops)
        report = None if progress is None else lambda done: progress(done, total)
        run = fused.run if self._mode == "fused" else tilewise.run
        try:
            with using(self._backend):
                run(schedule, store, 0, total, report)
        except StoreError as error:
            raise explained(self._log, error) from error
        store.remove_region(0)
        return store


def prepared(log: OpLog, memory: MemoryStore) -> MemoryStore:
    """A snapshot of *memory* with the log's immediates as memory 0."""
    store = memory.snapshot()
    blob = log.immediates
    store.add_region(0, len(blob), MemorySpace.IMMEDIATE)
    if blob:
        store.write(0, 0, blob)
    return store
