"""MemoryRequests: the fabric's knowledge of the requests that are on their way to one memory."""

from __future__ import annotations

from operator import attrgetter
from typing import ClassVar

from kb_engine.block.state_visitor import DEADLINE, OP, PART, SAME, State, Stateful, each
from kb_engine.fabric.incoming_write import IncomingWrite


class MemoryRequests(Stateful):
    """The requests to one memory. All paths to the memory share this object.

    `awaited` counts the requests whose arrival is an event. `promised_ps` is the arrival of the last request that was
    reserved before it arrived; no request may arrive earlier. `writes` are those whose last byte has not come.

    With an op log, `holders` are the ops whose requests the memory got last: at the port of reads, which is that of
    all requests unless writes have their own, and at that of writes. -1 stands for other requests.
    """

    __slots__ = ("awaited", "holders", "promised_ps", "writes")
    state: ClassVar[State] = {"awaited": SAME, "promised_ps": DEADLINE, "holders": each(OP), "writes": each(PART)}

    def __init__(self) -> None:
        self.awaited = 0
        self.promised_ps = 0
        self.holders = [-1, -1]
        self.writes: list[IncomingWrite] = []

    def is_idle(self, now_ps: int) -> bool:
        """Whether no request is on its way at *now_ps*."""
        return not (self.awaited or self.writes) and self.promised_ps <= now_ps

    def saved(self) -> tuple[int, tuple[int, ...]]:
        """The state that requests leave behind, for `put_back`."""
        return self.promised_ps, tuple(self.holders)

    def put_back(self, state: tuple[int, tuple[int, ...]]) -> None:
        """Be as when the state was *state*. No request is on its way."""
        self.promised_ps = state[0]
        self.holders[:] = state[1]

    def forget_ops(self) -> None:
        """Another op log begins, which has none of the ops so far."""
        self.holders[:] = [-1] * len(self.holders)

    def hand_over(self, now_ps: int, finishing: IncomingWrite | None = None) -> None:
        """A request is served next: give the memory the bytes of all writes that have come by now, in their order.

        They are given in steps, from each moment to the next at which a write began or came faster. *finishing* is a
        write whose last byte comes now; what came of it last is left to its `finish`.
        """
        if finishing is not None and len(self.writes) == 1 and finishing.comes_steadily:
            return  # there is no moment between its first byte and now, and `finish` gives all of it
        writes = sorted(self.writes, key=attrgetter("came_ps"))
        for moment_ps in sorted({moment for write in writes for moment in write.moments(now_ps)}):
            for write in writes:
                if write.came_ps < moment_ps:
                    write.hand_over(moment_ps)
        for write in writes:
            if write is not finishing:
                write.hand_over(now_ps)
