"""LinkState: one direction of a link, with its reservations and its counts."""

from __future__ import annotations

from kb_engine.block.state_visitor import StateVisitor
from kb_engine.timing.units import Rate
from kb_topology import Link


class LinkState:
    """One direction of a link.

    `free_ps` is the end of the last reservation. `busy_ps` and `nbytes` count the traffic so far; `Fabric.links` brings
    them up to date.
    """

    __slots__ = ("busy_ps", "free_ps", "link", "nbytes", "rate")

    def __init__(self, link: Link) -> None:
        self.link = link
        self.rate = Rate.from_gbs(link.bw_gbs)
        self.free_ps = 0
        self.busy_ps = 0
        self.nbytes = 0

    def visit_state(self, over: StateVisitor) -> None:
        """As StateVisitor says. The counts are brought up to date later, from those of the flows."""
        self.free_ps = over.deadline(self.free_ps)
