"""Transfers: bytes on their way over one leg."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kb_messages import Rectangle

if TYPE_CHECKING:
    from kb_engine.fabric.link import Flow, Path


class Transfer:
    """`nbytes` under way on `flow`'s leg; `head_ps` and `tail_ps` are when the first and last byte reach its next link.

    A message has no `path`; a read or write of `memory` has one. Where links are shared, `due_ps` is when the last byte
    is at the end of the leg as far as is known now.
    """

    __slots__ = ("argument", "due_ps", "finish", "flow", "head_ps", "memory", "path", "t_start_ps", "tail_ps", "write")

    def __init__(
        self,
        flow: Flow,
        path: Path | None,
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
