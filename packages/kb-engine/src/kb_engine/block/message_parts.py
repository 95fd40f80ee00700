"""The parts of a host's message: one for each place (SIP or cube) that the message is for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from kb_engine.block.block_directory import Cube
from kb_messages import CubeTarget, HostMessage, KernelLaunch

PlaceT = TypeVar("PlaceT")


def split_message(
    message: HostMessage, place: Callable[[Cube], PlaceT], cube_of: Callable[[str], Cube]
) -> list[tuple[PlaceT, HostMessage]]:
    """The part of *message* for each place, in the order of the first targets.

    A target belongs to the place that *place* returns for its cube. A message that names PEs by id asks *cube_of* for
    their cubes; errors of *cube_of* pass through.
    """
    if isinstance(message, KernelLaunch):
        targets: dict[PlaceT, list[CubeTarget]] = {}
        for target in message.targets:
            targets.setdefault(place((target.sip, target.cube)), []).append(target)
        return [(each, replace(message, targets=tuple(mine))) for each, mine in targets.items()]
    pes: dict[PlaceT, list[str]] = {}
    for pe in message.pes:
        pes.setdefault(place(cube_of(pe)), []).append(pe)
    return [(each, replace(message, pes=tuple(mine))) for each, mine in pes.items()]
