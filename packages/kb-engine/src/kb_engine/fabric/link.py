"""LinkState: one direction of a link, with its reservations and its counts."""

from __future__ import annotations

from typing import ClassVar

from kb_engine.block.state_visitor import DEADLINE, State, Stateful
from kb_engine.timing.units import Rate
from kb_topology import Link


class LinkState(Stateful):
    """One direction of a link.

    `free_ps` is the end of the last reservation. `busy_ps` and `nbytes` count the traffic so far, and `message_ps` and
    `message_nbytes` the part of the traffic that neither reads nor writes a memory. `Fabric.links` brings the counts up
    to date.
    """

    state: ClassVar[State] = {"free_ps": DEADLINE}  # the counts follow from those of the flows
    __slots__ = ("busy_ps", "free_ps", "link", "message_nbytes", "message_ps", "nbytes", "rate")

    def __init__(self, link: Link) -> None:
        self.link = link
        self.rate = Rate.from_gbs(link.bw_gbs)
        self.free_ps = 0
        self.busy_ps = 0
        self.nbytes = 0
        self.message_ps = 0
        self.message_nbytes = 0

    def count(self, busy_ps: int, nbytes: int, is_message: bool = False) -> None:
        """Adds *nbytes*, which took *busy_ps*, to the traffic."""
        self.busy_ps += busy_ps
        self.nbytes += nbytes
        if is_message:
            self.message_ps += busy_ps
            self.message_nbytes += nbytes
