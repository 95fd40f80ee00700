"""BoundedQueue: a queue of the depth that the hardware has. Senders wait while the queue is full.

A full queue blocks the sender, which keeps its token and its block until there is room. Overlap and backpressure follow
from this rule alone.

Design: docs/design/processing-element.md
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import ClassVar

from kb_engine.block.in_flight import TileToken
from kb_engine.block.state_visitor import CALL, TOKEN, State, Stateful, each
from kb_engine.timing.clock import Clock


class BoundedQueue(Stateful):
    """At most `depth` tokens wait in `queue`, in order, while `token` is in front: at a gate, in service, or blocked.

    `blocked` are the senders that wait for room. A subclass serves the token in front and calls `_next` when that token
    has left. `state` names the attributes that change.
    """

    __slots__ = ("blocked", "clock", "depth", "queue", "token")
    state: ClassVar[State] = {"token": TOKEN, "queue": each(TOKEN), "blocked": each(CALL, TOKEN)}

    def __init__(self, clock: Clock, depth: int) -> None:
        self.clock = clock
        self.depth = depth
        self.queue: deque[TileToken] = deque()
        self.token: TileToken | None = None
        self.blocked: deque[tuple[Callable[[TileToken], None], TileToken]] = deque()

    @property
    def has_room(self) -> bool:
        """Whether a token put now would be taken without blocking the sender."""
        return self.token is None or len(self.queue) < self.depth

    def put(self, token: TileToken) -> None:
        """Takes *token*. The caller has checked `has_room`."""
        token.t_ready = self.clock.now_ps
        if self.token is None:
            self._serve(token)
        else:
            self.queue.append(token)

    def wait_for_room(self, send: Callable[[TileToken], None], token: TileToken) -> None:
        """Calls `send(token)` when there is room. Senders are let in first come, first served.

        The caller has checked that there is no room: the queue serves waiting senders only when a token leaves while it
        is full.
        """
        self.blocked.append((send, token))

    def _serve(self, token: TileToken) -> None:
        """Makes *token* the one in front, and begins with it."""
        raise NotImplementedError

    def _next(self) -> None:
        """Serves the next token, because the token in front has left, and lets senders in."""
        queue = self.queue
        had_room = len(queue) < self.depth
        if queue:
            self._serve(queue.popleft())
        else:
            self.token = None
        if had_room:
            return
        while self.blocked and (self.token is None or len(queue) < self.depth):
            send, token = self.blocked.popleft()
            send(token)
