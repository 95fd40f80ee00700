"""The kernel as a coroutine: a plain function in a greenlet, which gives way to the event loop where it has to wait.

A greenlet runs one body after another. Making one takes as long as a tenth of a program's start, because Python maps
memory for its frames.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import local
from typing import Final

from greenlet import GreenletExit, getcurrent, greenlet

from kb_engine.block.state_visitor import StateVisitor
from kb_engine.program.author.kernel_lines import foreign_value
from kb_engine.program.port import Completion
from kb_engine.timing.clock import Clock

_MOST_IDLE: Final = 512
"""The greenlets of a thread that wait for a body. Source: assumed; each keeps 16 KiB for its frames."""


_MOST_THROWS: Final = 1000
"""How often an abandoned kernel is told to end that catches this and calls again. Source: assumed."""
_NEVER_ENDED: Final[list[greenlet]] = []
"""Greenlets of kernels that did not end. The last reference to one would make greenlet try once more, and complain."""


class _Idle(local):
    """The greenlets of this thread that wait for a body."""

    def __init__(self) -> None:
        self.greenlets: list[greenlet] = []


_IDLE: Final = _Idle()


class KernelCoroutine:
    """Runs *body* until it pauses, and goes on with `resume`. *returned* is called when it has returned.

    While the kernel waits, `waiting_at` is its line, `waiting_since_ps` the start of the wait, and `waiting_for` the
    command it waits for. A kernel whose `waiting_for` is None waits for room in the submission queue. `waiting_at` is
    "" before the kernel starts, while it runs, and after it has returned. `has_returned` says that it has run to its
    end. `is_abandoned` says that it never will.
    """

    __slots__ = (
        "_body",
        "_clock",
        "_greenlet",
        "_returned",
        "has_returned",
        "is_abandoned",
        "waiting_at",
        "waiting_for",
        "waiting_since_ps",
    )

    def __init__(self, clock: Clock, body: Callable[[], None], returned: Callable[[], None]) -> None:
        self.waiting_at = ""
        self.waiting_since_ps = 0
        self.waiting_for: Completion | None = None
        self.has_returned = self.is_abandoned = False
        self._clock = clock
        self._body: Callable[[], None] | None = body
        self._returned: Callable[[], None] | None = returned
        self._greenlet: greenlet | None = None

    def fold(self, over: StateVisitor) -> None:
        """As FoldPass says, but for where the kernel stands, which its template tells."""
        over.same(self.waiting_at, self.waiting_for is None, self.has_returned)
        if self.waiting_at:
            self.waiting_since_ps = over.moment(self.waiting_since_ps)

    def resume(self, _: object = None) -> None:
        """Start the kernel, or go on where it paused. Raises what the kernel raises."""
        self.waiting_at, self.waiting_for = "", None
        if self._greenlet is None:
            self._start()
        else:
            self._greenlet.switch()
        if self.has_returned:
            self._end()

    def pause(self, line: str, waits_for: Completion | None = None) -> None:
        """Give way to the event loop until somebody calls `resume`; *line* is where the kernel stands.

        *waits_for* is what the kernel waits for, where `wait_for` has not noted it. Raises KernelError at *line* where
        another kernel runs, which looks at a value of this one.
        """
        worker = getcurrent()
        if worker is not self._greenlet:
            raise foreign_value("a look at a value of another program, which has to wait for it", line)
        if waits_for is not None:
            self.waiting_for = waits_for
        self.waiting_at, self.waiting_since_ps = line, self._clock.now_ps
        assert worker.parent is not None
        worker.parent.switch()

    def abandon(self) -> bool:
        """Have the frames of the kernel, if it has paused, forget all that they hold. `waiting_at` stays what it is.

        A paused greenlet keeps its frames, and no collector finds what these alone refer to. The kernel hears of the
        end by GreenletExit. What its own code raises then is dropped, because the launch has failed before; only
        KeyboardInterrupt is not. A kernel that catches GreenletExit and calls again hears of the end again, up to
        `_MOST_THROWS` times. Returns False for a kernel that goes on nevertheless: its frames stay with the process.
        """
        self.is_abandoned = True
        worker, self._greenlet = self._greenlet, None
        if worker is None or not self.waiting_at:
            return True
        worker.parent = getcurrent()
        try:
            for _ in range(_MOST_THROWS):
                worker.throw(GreenletExit)
                if worker.dead:
                    return True
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001  # whatever the kernel raises is not why the launch failed
            return True
        _NEVER_ENDED.append(worker)
        return False

    def wait_for(self, completion: Completion | None) -> None:
        """Note what the kernel waits for, or is about to wait for."""
        self.waiting_for = completion

    def _start(self) -> None:
        """Have an idle greenlet of this thread, or a new one, run the body. It gives way to the current greenlet."""
        idle, current = _IDLE.greenlets, getcurrent()
        worker = self._greenlet = idle.pop() if idle else _new_worker(current)
        if worker.parent is not current:
            worker.parent = current
        worker.switch(self._run)

    def _run(self) -> None:
        body, self._body = self._body, None
        assert body is not None
        try:
            body()
        finally:
            self.has_returned = True

    def _end(self) -> None:
        """The kernel has returned: its greenlet is free for another body, in which no context variable is set."""
        worker, self._greenlet = self._greenlet, None
        assert worker is not None
        if not worker.dead and len(_IDLE.greenlets) < _MOST_IDLE:
            worker.gr_context = None
            _IDLE.greenlets.append(worker)
        returned, self._returned = self._returned, None
        if returned is not None:
            returned()


def _new_worker(parent: greenlet) -> greenlet:
    """A greenlet that waits for its first body. It begins without, because a greenlet keeps what it begins with."""
    worker = greenlet(_run_bodies, parent)
    worker.switch()
    return worker


def _run_bodies() -> None:
    """What a greenlet does: run the bodies that it is given, one after another, and refer to none in between."""
    while True:
        parent = getcurrent().parent
        assert parent is not None
        body = parent.switch()
        body()
        del body
