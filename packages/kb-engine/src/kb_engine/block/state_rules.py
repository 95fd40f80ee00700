"""Which blocks tell their whole state, so that somebody may compare it and move it on."""

from __future__ import annotations

from typing import Any, Final

from kb_engine.block.component import ComponentBase
from kb_engine.block.fabric_roles import Initiator, MemoryComponent
from kb_engine.block.pe_roles import CommandScheduler

_WORK: Final = ("begin", "process", "reserve", "held_ps", "issued_ps", "state")
"""What a class may change in what its base does: a class that has one of these says with a `visit_state` how to fold it."""


def can_visit_state(block: ComponentBase[Any]) -> bool:
    """Whether the class of *block* says so: by a `visit_state`, or by changing nothing of what a base with one does."""
    own = vars(type(block))
    if isinstance(block, (CommandScheduler, Initiator)):
        return "visit_state" in own
    for owner in type(block).__mro__:
        attributes = vars(owner)
        if owner is ComponentBase:
            return block.has_pure_cost
        if "visit_state" in attributes and owner is not MemoryComponent:
            return True
        if any(attributes.get(name) for name in _WORK):
            return False
    return False
