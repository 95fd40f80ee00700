"""Transfer: bytes on their way over one leg."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

from kb_engine.block.in_flight import TileToken
from kb_engine.block.state_visitor import (
    BY_HAND,
    CALL,
    IDENTICAL,
    MOMENT,
    MOMENT_OR_NONE,
    OP,
    PART,
    NotPeriodic,
    State,
    Stateful,
    StateVisitor,
    optional,
    row,
)
from kb_engine.fabric.incoming_write import IncomingWrite
from kb_engine.fabric.interleaved import Gathering
from kb_engine.fabric.paths import Flow, MemoryPath
from kb_engine.fabric.sharing.arrival_curve import ArrivalCurve
from kb_engine.fabric.sharing.last_link import LastLink
from kb_messages import CountedPieces, DmaParams, Rectangle

ServedRead: TypeAlias = tuple[int, int, int, int, int]
"""Its op, the op that it stands behind, and three times: when its bytes begin to hold the memory (-1 if the memory does
not say), and when the first and the last of them leave.
"""


class Transfer(Stateful):
    """One transfer of *flow*. `finish(argument)` is called when the transfer is done.

    `head_ps` and `tail_ps` are the times at which the first and the last byte leave the links before the first shared
    link. A read or write of the rectangle `memory` has a `path`; a message has neither. A write has an `incoming`. On
    shared links, `due_ps` is the time at which the last byte reaches the end of the leg, as far as the fabric knows.
    With an op log, `served` is the data of a read that are known since its memory began with the read.
    """

    state: ClassVar[State] = {
        "argument": BY_HAND,
        "memory": BY_HAND,
        "finish": CALL,
        "flow": IDENTICAL,
        "path": IDENTICAL,
        "last_link": PART,
        "t_start_ps": MOMENT,
        "head_ps": MOMENT,
        "tail_ps": MOMENT,
        "due_ps": MOMENT_OR_NONE,
        "served": optional(row(OP, OP, MOMENT_OR_NONE, MOMENT, MOMENT)),
        "incoming": BY_HAND,
    }
    __slots__ = tuple(state)

    def __init__(
        self,
        flow: Flow,
        path: MemoryPath | None,
        memory: Rectangle | None,
        incoming: IncomingWrite | None,
        start_ps: int,
        finish: Callable[[Any], None],
        argument: Any,
    ) -> None:
        self.flow = flow
        self.path = path
        self.memory = memory
        self.incoming = incoming
        self.finish = finish
        self.argument = argument
        self.t_start_ps = self.head_ps = self.tail_ps = start_ps
        self.due_ps = -1
        self.served: ServedRead | None = None
        self.last_link = None if flow.narrowing is None else LastLink(flow.narrowing, flow.nbytes)

    def visit_state(self, over: StateVisitor) -> None:
        """Hands the state to *over*. Raises NotPeriodic for a transfer that carries no tile."""
        token = self.argument
        if type(token) is Gathering:
            over.part(token)
        elif type(token) is TileToken:
            over.token(token)
            params = token.stages[token.index].params
            if type(params) is DmaParams:
                moved = self._memory_of(params)
                if self.memory is None or moved.owner == self.memory.owner:  # else it is a part, in a slice
                    self.memory = moved
        else:
            raise NotPeriodic
        super().visit_state(over)
        if self.incoming is not None and self.memory is not None:
            self.incoming.become(self.memory)
            over.part(self.incoming)

    def _memory_of(self, params: DmaParams) -> Rectangle:
        if not params.pieces:
            return params.memory
        assert self.path is not None, "the way to a memory"
        return CountedPieces.of(params.pieces, self.path.burst_nbytes)

    def comes(self, from_ps: int, pace: ArrivalCurve, delay_ps: int, offset: float) -> None:
        """From *from_ps* on, the bytes at the end of the leg are the level of *pace*, *delay_ps* ago, less *offset*."""
        if self.incoming is not None:
            self.incoming.comes(from_ps, pace, delay_ps, offset)
        elif self.last_link is not None:
            self.last_link.comes(from_ps, pace, delay_ps, offset)

    def ends_ps(self, last_ps: int) -> int:
        """When the last byte is at the end of the leg, if it would be there at *last_ps* but for the last link."""
        return last_ps if self.last_link is None else self.last_link.ends_ps(last_ps)

    def is_due(self, due_ps: int) -> None:
        """Sets the picosecond at which the last byte is at the end of the leg; -1 while unknown."""
        self.due_ps = due_ps
