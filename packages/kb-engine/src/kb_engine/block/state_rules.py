"""The rule by which the tiles that pass a block may be skipped: its class states all of its state with kinds."""

from __future__ import annotations

from typing import Any, Final

from kb_engine.block.component import ComponentBase
from kb_engine.block.fabric_roles import Initiator, MemoryComponent
from kb_engine.block.pe_roles import AddressTranslator, CommandScheduler
from kb_engine.block.state_visitor import kinds_of

_WORK: Final = ("begin", "process", "reserve", "held_ps", "issued_ps", "state")
"""The attributes by which a class changes the work of its base. A class with one of these has to state kinds anew."""


def can_visit_state(block: ComponentBase[Any]) -> bool:
    """Whether the class of *block* states that its state can be compared and moved on.

    A class states it by kinds for its own state (`state = {}` if it has none) or by a `visit_state` of its own. A class
    that changes nothing in the work of its base inherits the statement, except from a scheduler or an initiator.
    """
    for owner in type(block).__mro__:
        attributes = vars(owner)
        if owner is ComponentBase:
            return block.has_pure_cost
        if "visit_state" in attributes:
            return True
        if kinds_of(owner) is not None and owner is not MemoryComponent:
            return not _names_without_kinds(owner)
        if any(attributes.get(name) for name in _WORK) or isinstance(block, (CommandScheduler, Initiator)):
            return False
    return False


def works_for_virtual_addresses_alone(block: ComponentBase[Any]) -> bool:
    """Whether *block* is an MMU that serves no stage.

    Commands at physical addresses neither change such an MMU nor depend on it, because a DMA asks it about transfers at
    virtual addresses alone.
    """
    return isinstance(block, AddressTranslator) and not block.servers


def _names_without_kinds(kind: type) -> bool:
    """Whether a base of *kind* names state that has no kind, and that no `visit_state` hands over."""
    stated = {name for owner in kind.__mro__ for name in kinds_of(owner) or ()}
    for owner in kind.__mro__:
        if "visit_state" in vars(owner):
            return False
        if not stated.issuperset(vars(owner).get("state", ())):
            return True
    return False
