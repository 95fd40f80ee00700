"""Circles of full buffers: each waits for room in the next one, so no packet in them will ever leave."""

from __future__ import annotations

from collections.abc import Sequence

from kb_engine.fabric.packet_train import TrainLink
from kb_engine.timing.units import ns_text
from kb_messages import SimulationStuckError


def circle_through(link: TrainLink) -> list[TrainLink]:
    """The links whose full buffers wait for each other, beginning with *link*. Empty if it is in no circle.

    The first packet of a full buffer waits for the link that it wants, which waits for room in its own buffer.
    """
    found, here = [link], link
    while (packet := here.first_buffered) is not None:
        here = packet.link
        if here is link:
            return found
        if not here.is_full or here in found:
            break
        found.append(here)
    return []


def circle_error(circle: Sequence[TrainLink], now_ps: int) -> SimulationStuckError:
    """The error of a simulation in which the buffers behind the links of *circle* wait for each other."""
    names = [f"{each.state.link.src} -> {each.state.link.dst}" for each in (*circle, circle[0])]
    waits = ", which waits for room behind ".join(names)
    return SimulationStuckError(
        "fabric",
        f"a circle of {len(circle)} full buffers at {ns_text(now_ps)}: {waits}",
        "a packet in one of them that can go on",
        "a larger `buffer_nbytes` puts the circle off, and routes that close no circle rule it out",
    )
