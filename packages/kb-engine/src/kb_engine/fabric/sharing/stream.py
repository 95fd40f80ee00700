"""Stream: one transfer on one shared link."""

from __future__ import annotations

from typing import Any, ClassVar, Final, Protocol

from kb_engine.block.state_visitor import BY_HAND, PART, SAME, State, Stateful, StateVisitor, only_with
from kb_engine.fabric.sharing.arrival_curve import ArrivalCurve


class StreamLink(Protocol):
    """The interface of a shared link for streams and for the links before it."""

    def arrive(self, stream: Stream) -> None:
        """The head of *stream* arrives now."""

    def regroup(self, change: tuple[Stream, ArrivalCurve, int, float]) -> None:
        """From now on the bytes of a stream come at another pace. *change* is the stream, pace, delay and offset."""

    def complete(self, stream: Stream) -> None:
        """The last byte of *stream*, whose bytes come at the share of another link, arrives now."""


class SharedHop:
    """A shared link of a leg, for transfers of *nbytes*.

    `after_ps` is the latency to the next shared link, the hop `behind`, or to the end of the leg. `duration_ps` is the
    time of the bytes on the link. `arrive`, `regroup` and `complete` are the link's own.
    """

    __slots__ = ("after_ps", "arrive", "behind", "complete", "duration_ps", "link", "nbytes", "regroup")

    def __init__(
        self, link: StreamLink, after_ps: int, duration_ps: int, nbytes: int, behind: SharedHop | None
    ) -> None:
        self.link = link
        self.arrive, self.regroup, self.complete = link.arrive, link.regroup, link.complete
        self.after_ps = after_ps
        self.duration_ps = duration_ps
        self.nbytes = nbytes
        self.behind = behind


class Passage(Protocol):
    """The interface of a transfer for shared links."""

    @property
    def due_ps(self) -> int:
        """The picosecond at which the last byte is at the end of the leg; -1 while unknown."""

    def is_due(self, due_ps: int) -> None:
        """Sets the picosecond at which the last byte is at the end of the leg; -1 while unknown."""

    def visit_state(self, over: StateVisitor) -> None:
        """Hands the state of the stream to *over*."""

    def comes(self, from_ps: int, pace: ArrivalCurve, delay_ps: int, offset: float) -> None:
        """From *from_ps* on, the bytes that have come to the end of the leg are *pace*, *delay_ps* ago, less *offset*.

        The first call gives the moment of the first byte.
        """

    def ends_ps(self, last_ps: int) -> int:
        """When the last byte is at the end of the leg, if it is there or at the narrow last link at *last_ps*."""


HERE: Final = object()
"""Stands for the next stream of a stream whose head has not left."""


class Stream(Stateful):
    """One transfer on the shared link of *hop*.

    The bytes that have come are the level of `pace`, `delay_ps` ago, less `offset`. A stream that `waits` is served at
    the equal share of its link. The bytes that have left are then the level of the link's FairShare less `own_offset`,
    and the stream ends at the level `finish`. `complete` says that all bytes have come to a stream that waits, `done`
    that all have left. `behind` is the stream of the same transfer on the next shared link, None when there is no such
    link, and HERE as long as the head has not left.
    """

    state: ClassVar[State] = {
        "passage": PART,
        "pace": PART,
        "delay_ps": SAME,
        "offset": SAME,
        "waits": SAME,
        "complete": SAME,
        "done": SAME,
        "hop": BY_HAND,
        "behind": BY_HAND,
        "own_offset": only_with("waits", SAME),
        "finish": only_with("waits", SAME),
        "group": BY_HAND,
    }
    __slots__ = (*state, "after_ps")

    def __init__(self, passage: Passage, hop: SharedHop, pace: ArrivalCurve, delay_ps: int, offset: float) -> None:
        self.passage = passage
        self.hop = hop
        self.after_ps = hop.after_ps
        self.pace = pace
        self.delay_ps = delay_ps
        self.offset = offset
        self.group: Any = None
        self.behind: Any = HERE
        self.waits = self.complete = self.done = False

    def visit_state(self, over: StateVisitor) -> None:
        """Hands the state of the stream to *over*, with its link instead of its hop."""
        super().visit_state(over)
        over.identical(self.hop.link)
        over.same(self.behind is HERE, self.behind is None)
        if hasattr(self.group, "visit_state"):
            over.part(self.group)
        if type(self.behind) is Stream:
            over.part(self.behind)

    @property
    def remainder(self) -> object:
        """The state that is left when all bytes have come."""
        return self.waits, self.complete, self.done, self.pace.rate

    def came_by(self, now_ps: int) -> float:
        """Bytes that have come by *now_ps*."""
        return min(self.pace.level_at(now_ps - self.delay_ps) - self.offset, self.hop.nbytes)

    def change_pace(self, pace: ArrivalCurve, delay_ps: int, offset: float) -> None:
        """From now on the bytes come at another pace."""
        self.pace, self.delay_ps, self.offset = pace, delay_ps, offset

    def wait(self, level: float, served: float) -> None:
        """Begins to wait. The link's share is at *level*, and *served* bytes have left."""
        self.waits = True
        self.own_offset = level - served
        self.finish = self.own_offset + self.hop.nbytes

    def catch_up(self) -> None:
        """Begins to pass."""
        self.waits = False

    def has_come(self) -> None:
        """All bytes have come."""
        self.complete = True

    def has_left(self) -> None:
        """All bytes have left."""
        self.complete = self.done = True

    def go_on(self, pace: ArrivalCurve, delay_ps: int, offset: float) -> Stream | None:
        """The head leaves for the next shared link, where the bytes come at *pace*, or for the leg's end.

        Returns the stream there, or None.
        """
        hop = self.hop.behind
        behind = self.behind = None if hop is None else Stream(self.passage, hop, pace, delay_ps, offset)
        return behind
