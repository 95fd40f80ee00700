"""Gates: resources that a service holds besides its own block, such as a port or room in the register file."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import ClassVar

from kb_engine.block.in_flight import TileToken
from kb_engine.block.state_visitor import CALL, TOKEN, NotPeriodic, State, Stateful, StateVisitor, each
from kb_messages import KbError, StageType, WaitReason


class WiringError(KbError):
    """Blocks that a plan or another block needs are not wired together."""


class Gate(Stateful):
    """Something a service holds besides its own block: a port, a slot, room in the register file.

    `waiting` are the waiting tokens, each behind a function that is called with the token and the gate that let it in.
    Waiters are served first come, first served. A subclass decides `admit`. The owner of the guarded resource calls
    `reopen` when some of it is free again.
    """

    __slots__ = ("waiting",)
    state: ClassVar[State] = {"waiting": each(CALL, TOKEN)}

    reason: WaitReason

    def __init__(self) -> None:
        self.waiting: deque[tuple[Callable[[TileToken, Gate], None], TileToken]] = deque()

    def admit(self, token: TileToken) -> bool:
        """Grants *token* its share of the resource and returns True, or changes nothing and returns False."""
        raise NotImplementedError

    def wants(self, token: TileToken) -> bool:
        """Whether *token* needs anything of this gate. A token that needs nothing passes the tokens that wait."""
        return True

    def leave(self, token: TileToken) -> None:
        """The service of *token* has ended. Override this where the end of a service frees the guarded resource."""

    def holds(self, token: TileToken, ahead: frozenset[StageType]) -> bool:
        """Whether *token*, with the stages *ahead* still to come, holds the guarded resource.

        The report of a stuck simulation asks.
        """
        return False

    def change(self, token: TileToken) -> str:
        """The smallest change of a capacity that would let *token* in, or "". The report of a stuck simulation asks."""
        return ""

    def visit_state(self, over: StateVisitor) -> None:
        """Hands the waiting tokens and the state of subclasses to *over*.

        Raises NotPeriodic for a subclass that gives no kinds to its state, because its future is then unknown.
        """
        state = type(self).state
        if state is Gate.state or isinstance(state, tuple):
            raise NotPeriodic
        super().visit_state(over)

    def reopen(self) -> None:
        """Lets waiting tokens in while they can be admitted."""
        while self.waiting and self.admit(self.waiting[0][1]):
            granted, token = self.waiting.popleft()
            granted(token, self)


class ExclusivePort(Gate):
    """A port that one service holds at a time."""

    __slots__ = ("holder", "reason")
    state: ClassVar[State] = {"holder": TOKEN}

    def __init__(self, reason: WaitReason) -> None:
        super().__init__()
        self.reason = reason
        self.holder: TileToken | None = None

    def admit(self, token: TileToken) -> bool:
        """Takes the port if it is free."""
        if self.holder is not None:
            return False
        self.holder = token
        return True

    def holds(self, token: TileToken, ahead: frozenset[StageType]) -> bool:
        """Whether *token* is on the port."""
        return token is self.holder

    def leave(self, token: TileToken) -> None:
        """Frees the port for the next in line."""
        self.holder = None
        if self.waiting:
            self.reopen()
