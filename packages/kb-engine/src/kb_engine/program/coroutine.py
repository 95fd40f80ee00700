"""The kernel as a coroutine: a plain function in a greenlet, which yields to the event loop where it has to wait.

A greenlet runs one body after another, because a new greenlet is slow: Python maps memory for its frames.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import local
from types import FrameType
from typing import Final

from greenlet import GreenletExit, getcurrent, greenlet

from kb_engine.block.state_visitor import StateVisitor
from kb_engine.program.author.kernel_lines import foreign_value
from kb_engine.program.author.watchdog import watch_below
from kb_engine.program.port import Completion
from kb_engine.timing.clock import Clock

_MOST_IDLE: Final = 512
"""The most idle greenlets of a thread. Source: assumed; each keeps 16 KiB for its frames."""


_MOST_THROWS: Final = 1000
"""The most times that GreenletExit is thrown into an abandoned kernel that catches it. Source: assumed."""
_NEVER_ENDED: Final[list[greenlet]] = []
"""Greenlets of kernels that did not end. Without this reference, greenlet would throw GreenletExit once more, and
warn."""


class _Idle(local):
    """The idle greenlets of this thread."""

    def __init__(self) -> None:
        self.greenlets: list[greenlet] = []


_IDLE: Final = _Idle()


class KernelCoroutine:
    """Runs *body* until it pauses, and continues at `resume`. *returned* is called when *body* has returned.

    While the kernel waits, `waiting_at` is its line, `waiting_since_ps` the start of the wait, and `waiting_for`
    the command that it waits for, what it waits for of another program, or None for room in the submission queue.
    `waiting_at` is "" before the kernel starts, while it runs, and after it has returned. `has_returned` is true
    when the kernel has run to its end, and `is_abandoned` when it never will.
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
        self.waiting_for: object = None
        self.has_returned = self.is_abandoned = False
        self._clock = clock
        self._body: Callable[[], None] | None = body
        self._returned: Callable[[], None] | None = returned
        self._greenlet: greenlet | None = None

    def visit_state(self, over: StateVisitor) -> None:
        """Hands the state to *over*, apart from the position of the kernel in its code, which its template knows."""
        over.same(self.waiting_at, self.waiting_for is None, self.has_returned)
        if self.waiting_at:
            self.waiting_since_ps = over.moment(self.waiting_since_ps)

    def resume(self, _: object = None) -> None:
        """Starts the kernel, or continues where it paused. Raises the exceptions of the kernel."""
        self.waiting_at, self.waiting_for = "", None
        if self._greenlet is None:
            self._start()
        else:
            self._greenlet.switch()
        if self.has_returned:
            self._end()

    def pause(self, line: str, waits_for: object = None) -> None:
        """Yields to the event loop until `resume` is called. The kernel stands at *line*.

        *waits_for* is the command that the kernel waits for, or a wait for another program, unless `wait_for` has
        noted it. Raises KernelError at *line* when another kernel calls: it reads a value of this kernel, and
        cannot wait for it.
        """
        worker = getcurrent()
        if worker is not self._greenlet:
            raise foreign_value("a look at a value of another program, which has to wait for it", line)
        if waits_for is not None:
            self.waiting_for = waits_for
        self.waiting_at, self.waiting_since_ps = line, self._clock.now_ps
        assert worker.parent is not None
        worker.parent.switch()  # returns when `resume` switches back

    def abandon(self) -> bool:
        """Ends the kernel, if it has paused, so that its frames release all that they refer to. `waiting_at` stays.

        A paused greenlet keeps its frames, and no collector finds objects that the frames alone refer to. So
        GreenletExit is thrown into the kernel. Exceptions that its code raises then are dropped, because the launch has
        failed before; KeyboardInterrupt alone is raised. GreenletExit is thrown again, up to `_MOST_THROWS` times, into
        a kernel that catches it and calls again. Returns False for a kernel that goes on nevertheless: its frames stay
        with the process.
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
        except BaseException:  # noqa: BLE001  # the launch failed before, for another reason
            return True
        _NEVER_ENDED.append(worker)
        return False

    @property
    def frame(self) -> FrameType | None:
        """The innermost frame of the kernel while it waits; None otherwise."""
        frame: FrameType | None = self._greenlet.gr_frame if self._greenlet is not None and self.waiting_at else None
        return frame

    def wait_for(self, completion: Completion | None) -> None:
        """Notes the command that the kernel waits for, or is about to wait for; None for no command."""
        self.waiting_for = completion

    def _start(self) -> None:
        """Runs the body in an idle greenlet of this thread, or in a new one, which yields to the current greenlet."""
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
        """Frees the greenlet of the kernel, which has returned, for another body. No context variable stays set."""
        worker, self._greenlet = self._greenlet, None
        assert worker is not None
        if not worker.dead and len(_IDLE.greenlets) < _MOST_IDLE:
            worker.gr_context = None  # context variables of one kernel are not seen by the next
            _IDLE.greenlets.append(worker)
        returned, self._returned = self._returned, None
        if returned is not None:
            returned()


def _new_worker(parent: greenlet) -> greenlet:
    """A greenlet that waits for its first body, because a greenlet keeps the arguments that it starts with."""
    worker = greenlet(_run_bodies, parent)
    worker.switch()
    return worker


def _run_bodies() -> None:
    """The loop of a greenlet: it runs the bodies that it receives, and refers to none between two bodies."""
    while True:
        parent = getcurrent().parent
        assert parent is not None
        body = parent.switch()
        body()
        del body  # an idle greenlet must not keep the values of a kernel


watch_below(_run_bodies.__code__)
