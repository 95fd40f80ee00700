"""Stream, Event and Pending: the host's work that goes on while its Python runs ahead, and its results.

Design: docs/design/launch-and-host.md
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from kb_engine.engine.engine import Engine
from kb_engine.engine.streams.engine_streams import StreamPlace
from kb_engine.launch.streams import HostEvent, StreamCall
from kb_engine.program.author.author_errors import calling_line
from kb_messages import HostCallKind, KernelError

ResultT = TypeVar("ResultT")


class Pending(Generic[ResultT]):
    """The result of a call of a stream, which may not have ended. `result()` waits for the end."""

    def __init__(self, call: StreamCall, wait_for: Callable[[StreamCall], None], made: Callable[[], ResultT]) -> None:
        self._call = call
        self._wait_for = wait_for
        self._made = made

    @property
    def is_done(self) -> bool:
        """Whether the call has ended. Asking simulates nothing."""
        return self._call.has_ended

    def result(self) -> ResultT:
        """Waits until the call has ended, and returns its result. Other streams may go on afterwards.

        Raises the errors of all calls of streams that are simulated up to then.
        """
        self._wait_for(self._call)
        return self._made()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.result(), dtype=dtype)


class Event:
    """A moment in a stream, which other streams can wait for. One call records it, and any number may wait for it."""

    def __init__(self, engine: Engine, event: HostEvent) -> None:
        self._engine = engine
        self._event = event

    @property
    def number(self) -> int:
        """The number of the event among those of the host, from 0 on."""
        return self._event.number

    def on(self, engine: Engine, call: str) -> HostEvent:
        """The event on the chip of *engine*. Raises KernelError, for *call*, where it belongs to another chip."""
        if engine is not self._engine:
            raise KernelError(call, f"event {self.number} of another chip", "an event of this host")
        return self._event


class Stream:
    """Calls of the host that take effect one after the other: launches, writes, reads and copies.

    `Host.stream` makes a stream. The calls of two streams have no order, but for events and calls without a stream.
    """

    def __init__(self, engine: Engine, root: Path) -> None:
        self._engine = engine
        self._root = root
        self._began = engine.streams.n_restarts
        self.number = engine.streams.new_stream()

    def record(self, event: Event | None = None) -> Event:
        """Has *event*, by default a new one, happen when all earlier calls of this stream have ended. Returns it.

        Raises KernelError for an event that is recorded already, and for one of another chip.
        """
        place = self.place(self._engine, "record")
        found = event or Event(self._engine, self._engine.streams.new_event(place.line))
        self._engine.order_in(place, HostCallKind.RECORD, found.on(self._engine, f"{place.line}: record"))
        return found

    def wait(self, event: Event) -> None:
        """Has all later calls of this stream wait until *event* has happened.

        Raises KernelError for something that is no event, and for an event of another chip.
        """
        place = self.place(self._engine, "wait")
        if not isinstance(event, Event):
            needs, fix = "an event", "stream.record() returns one"
            raise KernelError(f"{place.line}: wait", f"{type(event).__name__}", needs, fix)
        self._engine.order_in(place, HostCallKind.WAIT, event.on(self._engine, f"{place.line}: wait"))

    def place(self, engine: Engine, call: str) -> StreamPlace:
        """The place of a call of the host at the present line. Raises KernelError, for *call*, for a stream of another
        chip, or from before `Engine.rebase`.
        """
        line = calling_line(self._root) or "?:0"
        if engine is not self._engine or engine.streams.n_restarts != self._began:
            got = f"stream {self.number} of another chip, or from before Engine.rebase"
            raise KernelError(f"{line}: {call}", got, "a stream of this host", "host.stream() makes one")
        return StreamPlace(self.number, line)


def stream_of(given: object, call: str, root: Path) -> Stream:
    """*given* as a stream. Raises KernelError, for *call*, for anything else."""
    if not isinstance(given, Stream):
        got, fix = f"stream={type(given).__name__}", "host.stream() makes one"
        raise KernelError(f"{calling_line(root) or '?:0'}: {call}", got, "a stream", fix)
    return given
