"""Transfer: bytes on their way over one leg."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kb_engine.fabric.paths import Flow, MemoryPath
from kb_messages import Rectangle


class Transfer:
    """One transfer of *flow*. `finish(argument)` is called when the transfer is done.

    `head_ps` and `tail_ps` are the times at which the first and the last byte reach the next link. A read or write of
    the rectangle `memory` has a `path`; a message has neither. On shared links, `due_ps` is the time at which the last
    byte reaches the end of the leg, as far as the fabric knows now.
    """

    __slots__ = ("argument", "due_ps", "finish", "flow", "head_ps", "memory", "path", "t_start_ps", "tail_ps", "write")

    def __init__(
        self,
        flow: Flow,
        path: MemoryPath | None,
        memory: Rectangle | None,
        write: bool,
        start_ps: int,
        finish: Callable[[Any], None],
        argument: Any,
    ) -> None:
        self.flow = flow
        self.path = path
        self.memory = memory
        self.write = write
        self.finish = finish
        self.argument = argument
        self.t_start_ps = self.head_ps = self.tail_ps = start_ps
        self.due_ps = -1
