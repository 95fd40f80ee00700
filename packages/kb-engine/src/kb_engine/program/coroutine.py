"""The kernel as a coroutine: a plain function in a greenlet, which gives way to the event loop where it has to wait."""

from __future__ import annotations

from collections.abc import Callable

from greenlet import greenlet

from kb_engine.block.fold_pass import FoldPass
from kb_engine.program.port import Completion
from kb_engine.timing.clock import Clock


class KernelCoroutine:
    """Runs *body* until it pauses, and goes on with `resume`. *returned* is called when it has returned.

    While the kernel waits, `waiting_at` is its line, `waiting_since_ps` the start of the wait, and `waiting_for` the
    command it waits for. A kernel whose `waiting_for` is None waits for room in the submission queue. `waiting_at` is
    "" before the kernel starts, while it runs, and after it has returned.
    """

    def __init__(self, clock: Clock, body: Callable[[], None], returned: Callable[[], None]) -> None:
        self.waiting_at = ""
        self.waiting_since_ps = 0
        self.waiting_for: Completion | None = None
        self._clock = clock
        self._returned: Callable[[], None] | None = returned
        self._greenlet = greenlet(body)

    def fold(self, over: FoldPass) -> None:
        """As FoldPass says, but for where the kernel stands, which its template tells."""
        over.same(self.waiting_at, self.waiting_for is None, self.has_returned)
        if self.waiting_at:
            self.waiting_since_ps = over.moment(self.waiting_since_ps)

    @property
    def has_returned(self) -> bool:
        """Whether the kernel has run to its end."""
        return self._greenlet.dead

    def resume(self, _: object = None) -> None:
        """Start the kernel, or go on where it paused. Raises what the kernel raises."""
        self.waiting_at, self.waiting_for = "", None
        self._greenlet.switch()
        if self._greenlet.dead and self._returned is not None:
            returned, self._returned = self._returned, None
            returned()

    def pause(self, line: str, waits_for: Completion | None = None) -> None:
        """Give way to the event loop until somebody calls `resume`; *line* is where the kernel stands.

        *waits_for* is what the kernel waits for, where `wait_for` has not noted it.
        """
        if waits_for is not None:
            self.waiting_for = waits_for
        self.waiting_at, self.waiting_since_ps = line, self._clock.now_ps
        parent = self._greenlet.parent
        assert parent is not None
        parent.switch()

    def wait_for(self, completion: Completion | None) -> None:
        """Note what the kernel waits for, or is about to wait for."""
        self.waiting_for = completion
