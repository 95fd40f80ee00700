"""MulticastFork: the node where ways part. Shared links before the node see the fork as a transfer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kb_engine.block.state_visitor import NotPeriodic, StateVisitor
from kb_engine.fabric.multicast.route_tree import RouteTree
from kb_engine.fabric.sharing.arrival_curve import ArrivalCurve, FairShare, SteadyPace
from kb_engine.fabric.sharing.stream import Passage, Stream
from kb_engine.fabric.transfer import Transfer
from kb_engine.timing.clock import Clock


class Copy(NamedTuple):
    """The bytes on the branch of *tree*, which end at *passage*, and their stream on its first shared link, if any."""

    tree: RouteTree
    passage: Passage
    stream: Stream | None


class MulticastFork:
    """Bytes that come to a node where ways part, and leave as they come on the branch of each of *trees*.

    *receivers* are the transfers of all receivers of the tree, and *deliver* gets a passage whose last byte is at its
    end.
    """

    __slots__ = ("_clock", "_copies", "_deliver", "_pace", "_receivers", "_trees", "due_ps")

    def __init__(
        self, clock: Clock, trees: Sequence[RouteTree], receivers: Sequence[Transfer], deliver: Callable[[Any], None]
    ) -> None:
        self._clock = clock
        self._trees = trees
        self._receivers = receivers
        self._deliver = deliver
        self._copies: list[Copy] = []
        self._pace: ArrivalCurve | None = None
        self.due_ps = -1

    def is_due(self, due_ps: int) -> None:
        """Sets the picosecond at which the last byte is at the node; -1 while unknown."""
        self.due_ps = due_ps

    def visit_state(self, over: StateVisitor) -> None:
        """Raises NotPeriodic: nothing is skipped on a chip that multicasts."""
        raise NotPeriodic

    def ends_ps(self, last_ps: int) -> int:
        """*last_ps*, because nothing holds up the bytes here."""
        return last_ps

    def passage_of(self, tree: RouteTree) -> Passage:
        """The end of the branch of *tree*: its receiver, or the node where ways part behind it."""
        if tree.receiver >= 0:
            return self._receivers[tree.receiver]
        return MulticastFork(self._clock, tree.behind, self._receivers, self._deliver)

    def comes(self, from_ps: int, pace: ArrivalCurve, delay_ps: int, offset: float) -> None:
        """From *from_ps* on, the bytes follow *pace*. Each copy comes to its next link a latency later."""
        self._pace = pace
        if type(pace) is FairShare:
            pace.look_back(delay_ps + max(tree.branch.lead_ps for tree in self._trees))
        if not self._copies:
            self._copies = [self._first_of(tree, from_ps, pace, (delay_ps, offset)) for tree in self._trees]
            return
        for tree, passage, stream in self._copies:
            lead_ps = tree.branch.lead_ps
            if stream is None:
                self._come_to(passage, from_ps + lead_ps, pace, (delay_ps + lead_ps, offset))
            else:
                change = stream, pace, delay_ps + lead_ps, offset
                self._clock.call_at(from_ps + lead_ps, stream.hop.link.regroup, change)

    def complete(self) -> None:
        """The last byte is here now. Copies of bytes with a SteadyPace know their end."""
        if type(self._pace) is SteadyPace:
            return
        now = self._clock.now_ps
        for tree, passage, stream in self._copies:
            last_ps = now + tree.branch.lead_ps
            if stream is None:
                self._expect(passage, passage.ends_ps(last_ps))
            else:
                self._clock.call_at(last_ps, stream.hop.link.complete, stream)

    def _first_of(self, tree: RouteTree, from_ps: int, pace: ArrivalCurve, since: tuple[int, float]) -> Copy:
        delay_ps, offset = since
        passage, shared, lead_ps = self.passage_of(tree), tree.branch.shared, tree.branch.lead_ps
        tree.branch.count()
        if shared is None:
            self._come_to(passage, from_ps + lead_ps, pace, (delay_ps + lead_ps, offset))
            return Copy(tree, passage, None)
        stream = Stream(passage, shared, pace, delay_ps + lead_ps, offset)
        self._clock.call_at(from_ps + lead_ps, shared.link.arrive, stream)
        return Copy(tree, passage, stream)

    def _come_to(self, passage: Passage, from_ps: int, pace: ArrivalCurve, since: tuple[int, float]) -> None:
        """From *from_ps* on, the bytes at the end of a branch without a shared link follow *pace*."""
        delay_ps, offset = since
        passage.comes(from_ps, pace, delay_ps, offset)
        if type(pace) is SteadyPace:
            self._expect(passage, passage.ends_ps(pace.end_ps + delay_ps))
        else:
            passage.is_due(-1)

    def _expect(self, passage: Passage, due_ps: int) -> None:
        passage.is_due(due_ps)
        self._clock.call_at(due_ps, self._arrived, passage)

    def _arrived(self, passage: Passage) -> None:
        """Ends the branch, whose last byte is here now, unless a later change has moved that moment."""
        if passage.due_ps == self._clock.now_ps:
            passage.is_due(-1)
            self._deliver(passage)
