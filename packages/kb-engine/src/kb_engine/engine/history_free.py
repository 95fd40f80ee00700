"""Chips on which equal launches do the same, whatever ran before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kb_engine.block.control_roles import CommandDispatcher
from kb_engine.block.fabric_roles import MemoryComponent
from kb_engine.fastforward.isolated.pe_forms import form_of_pe, says_when_free

if TYPE_CHECKING:
    from kb_engine.engine.engine import Engine


def takes_equal_times(engine: Engine) -> bool:
    """Whether a launch behind `Engine.rebase` takes the time that it would take on a chip that was just built.

    So it is if nothing that one launch leaves behind matters to the next: the blocks of PEs say by what their costs
    follow from plans alone, memories say when they are free, and processors keep no state of their own. Memories that
    keep rows open do not say when they are free.
    """
    nodes, blocks = engine.topology.graph, engine.components
    pes = [[blocks[node.id] for node in nodes.pe_nodes(pe_id)] for pe_id in engine.pes]
    return (
        engine.closed is not None
        and all(form_of_pe(each) is not None for each in pes)
        and all(says_when_free(each) for each in blocks.values() if isinstance(each, MemoryComponent))
        and all(
            type(each).state == CommandDispatcher.state
            for each in blocks.values()
            if isinstance(each, CommandDispatcher)
        )
    )
