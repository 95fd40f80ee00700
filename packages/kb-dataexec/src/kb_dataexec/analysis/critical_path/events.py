"""PathEvents: the events of a critical path, each with its time, its cause, and the work between the two."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from kb_dataexec.analysis.critical_path.rows import PathRows
from kb_dataexec.arrays.dtypes import Array


class OpEvent(IntEnum):
    """The events of a tile at an op: it comes, its service starts, a memory serves its request, it ends, the tile
    leaves.
    """

    READY = 0
    START = 1
    END = 2
    LEFT = 3
    SERVED = 4


class CommandEvent(IntEnum):
    """The events of a command, from the call in the kernel on."""

    CALL = 0
    ISSUED = 1
    SUBMITTED = 2
    TAKEN = 3
    DECODED = 4
    FED = 5
    DONE = 6


class KernelEvent(IntEnum):
    """The events of a program."""

    START = 0
    END = 1


class SyncEvent(IntEnum):
    """The events of a call that waits for, or signals, other programs: the kernel calls, PE_CPU has issued the call,
    and the kernel goes on. A wait ends because of an event on another PE, ORIGIN; BETWEEN lies on the way from there.
    ORIGIN of a signal is its departure.
    """

    CALLED = 0
    ISSUED = 1
    WENT_ON = 2
    BETWEEN = 3
    ORIGIN = 4


class Work(IntEnum):
    """The kind of the time between an event and its cause: none, work, or unknown.

    MEMORY: the bytes of a request held the memory. PROGRAM: PE_CPU began a program. CALL: PE_CPU issued a call that
    waits or signals. DOORBELL, CREDIT: PE_QUEUE rang, or sent a credit. WAY: a credit or a signal was on its way. WAIT:
    the kernel waited for another program.
    """

    NONE = 0
    SERVICE = 1
    DECODE = 2
    ISSUE = 3
    UNKNOWN = 4
    MEMORY = 5
    PROGRAM = 6
    CALL = 7
    DOORBELL = 8
    CREDIT = 9
    WAY = 10
    WAIT = 11


VIA: Final = (
    "", "data", "transfer_order", "queue_full", "throughput", "register_file", "tcm_port", "compute_slot",
    "tile_buffer", "fetch_order", "dispatch", "earlier_commands", "submission_queue", "submission", "operand",
    "program", "end", "start", "memory", "launch", "answer", "engine_queue",
    "message", "credit", "signal", "barrier",
)  # fmt: skip
"""The edges of a path, by number: how an event made the next event wait. "" takes the edge of the event behind it."""


def via(name: str) -> int:
    """Returns the number of the edge *name*."""
    return VIA.index(name)


class Events(NamedTuple):
    """Numbers of events: five for each op, seven for each command, two for each row of `kernels`, and five for each
    call that waits or signals.
    """

    n_ops: int
    n_commands: int
    n_kernels: int
    n_syncs: int

    @classmethod
    def of(cls, rows: PathRows) -> Events:
        """The events of *rows*."""
        return cls(len(rows.ops), len(rows.commands), len(rows.kernels), len(rows.syncs))

    @property
    def total(self) -> int:
        """The number of all events."""
        return self._first_sync + len(SyncEvent) * self.n_syncs

    @property
    def _first_sync(self) -> int:
        return len(OpEvent) * self.n_ops + len(CommandEvent) * self.n_commands + len(KernelEvent) * self.n_kernels

    def op(self, event: OpEvent, ops: Array) -> Array:
        """The numbers of the events *event* of *ops*."""
        return event * self.n_ops + ops

    def all_ops(self, event: OpEvent) -> slice:
        """The numbers of the events *event* of all ops, in their order."""
        return slice(event * self.n_ops, (event + 1) * self.n_ops)

    def command(self, event: CommandEvent, commands: Array) -> Array:
        """The numbers of the events *event* of *commands*."""
        return len(OpEvent) * self.n_ops + event * self.n_commands + commands

    def command_of(self, events: Array) -> Array:
        """The commands of *events*, all of which are events of commands."""
        return (events - len(OpEvent) * self.n_ops) % max(self.n_commands, 1)

    def kernel_of(self, events: Array) -> Array:
        """The rows of `kernels` of *events*, all of which are events of programs."""
        return (events - len(OpEvent) * self.n_ops - len(CommandEvent) * self.n_commands) % max(self.n_kernels, 1)

    def kernel(self, event: KernelEvent, kernels: Array) -> Array:
        """The numbers of the events *event* of the rows *kernels*."""
        return len(OpEvent) * self.n_ops + len(CommandEvent) * self.n_commands + event * self.n_kernels + kernels

    def sync(self, event: SyncEvent, syncs: Array) -> Array:
        """The numbers of the events *event* of *syncs*, calls that wait or signal."""
        return self._first_sync + event * self.n_syncs + syncs

    def sync_of(self, events: Array) -> Array:
        """The call that waits or signals of each of *events*; -1 for another event."""
        return np.where(events < self._first_sync, -1, (events - self._first_sync) % max(self.n_syncs, 1))


Which: TypeAlias = Array | slice
"""Numbers of events. numpy does not copy the elements of a slice."""


class PathEvents:
    """Arrays with an element for each event. Its `cause` is an event, -1 for the start of a program.

    `work` is the kind of the time between the two: work of the op, the command or the program of the cause. `edge` is
    the number in `VIA` of the edge. `is_tie` is True if another cause came at the same time.
    """

    def __init__(self, rows: PathRows) -> None:
        self.numbers = Events.of(rows)
        count = self.numbers.total
        self.time = np.zeros(count, np.int64)
        self.cause: Array = np.full(count, -1, np.int32 if count < 1 << 31 else np.int64)
        self.work, self.edge = np.zeros(count, np.int8), np.zeros(count, np.int8)
        self.is_tie = np.zeros(count, np.bool_)
        self._is_open = np.ones(count, np.bool_)

    def explain(self, events: Which, cause: Which, edge: str = "", tie: Array | bool = False) -> None:
        """Sets *cause* for each of *events* without a cause, if *cause* is an event at the same time."""
        fits = self._open(events, cause)
        fits &= self.time[cause] == self.time[events]  # -1 is no cause, whatever time stands at the end
        self._set(events, fits, cause, Work.NONE, edge)
        if isinstance(events, slice):
            np.copyto(self.is_tie[events], tie, where=fits)
        else:
            self.is_tie[events[fits]] = np.broadcast_to(tie, fits.shape)[fits]

    def work_since(self, events: Which, cause: Which, work: Work, edge: str = "") -> None:
        """Sets *cause*, an earlier event, for each of *events* without a cause.

        Its op or command did *work* since then.
        """
        fits = self._open(events, cause)
        self._set(events, fits, cause, work, edge)

    def give_up(self, events: Which, cause: Which) -> None:
        """Sets *cause*, an earlier event, for each of *events* without a cause; the time between is unexplained."""
        self.work_since(events, cause, Work.UNKNOWN)

    def has_cause(self, events: Array) -> Array:
        """Whether each of *events* has a cause."""
        return ~self._is_open[events]

    def _open(self, events: Which, cause: Which) -> Array:
        """Whether each of *events* may get *cause*: it has no cause, and *cause* is an event."""
        fits: Array = self._is_open[events].copy() if isinstance(events, slice) else self._is_open[events]
        if not isinstance(cause, slice):
            fits &= cause >= 0
        return fits

    def _set(self, events: Which, fits: Array, cause: Which, work: Work, edge: str) -> None:
        if isinstance(cause, slice):
            cause = np.arange(cause.start, cause.stop)
        if isinstance(events, slice):
            values: list[tuple[Array, Array | int | bool]] = [
                (self.cause, cause),
                (self.work, work),
                (self.edge, via(edge)),
                (self._is_open, False),
            ]
            for column, value in values:
                np.copyto(column[events], value, where=fits)
            return
        events = events[fits]
        self.cause[events] = cause[fits]
        self.work[events] = work
        self.edge[events] = via(edge)
        self._is_open[events] = False
