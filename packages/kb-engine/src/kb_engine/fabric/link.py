"""LinkState: one direction of a link, with its reservations and its counts."""

from __future__ import annotations

from typing import ClassVar

from kb_engine.block.state_visitor import DEADLINE, State, Stateful
from kb_engine.timing.units import Rate
from kb_topology import Link


class LinkState(Stateful):
    """One direction of a link.

    `free_ps` is the end of the last reservation. `busy_ps` and `nbytes` count the traffic so far; `Fabric.links` brings
    them up to date.
    """

    state: ClassVar[State] = {"free_ps": DEADLINE}  # the counts follow from those of the flows
    __slots__ = ("busy_ps", "free_ps", "link", "nbytes", "rate")

    def __init__(self, link: Link) -> None:
        self.link = link
        self.rate = Rate.from_gbs(link.bw_gbs)
        self.free_ps = 0
        self.busy_ps = 0
        self.nbytes = 0
