"""Makes a group of the PEs of a chip, with their order around the chip.

Design: docs/design/messages.md
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kb_engine.collectives.choice import Chooser
from kb_engine.collectives.closed_way import around
from kb_engine.collectives.group import Group
from kb_engine.engine.engine import Engine
from kb_messages import KernelError

_SHARE: Final = 2
"""A rank lends half of the TCM of kernels to the slots of a collective. Source: assumed."""


def group_of(
    engine: Engine,
    places: Sequence[tuple[int, int]],
    home_of: Callable[[int], int],
    pes: Sequence[int],
    of: Sequence[int] | None = None,
) -> Group:
    """The group of *pes* of the chip of *engine*, in a launch on the PEs *of*, by default *pes*.

    *places* holds the SIP and cube of each PE, and `home_of(pe)` is the address of the memory near a PE. Raises
    KernelError for no PEs, PEs that are not in *of*, and PEs without a message queue.
    """
    if not len(pes):
        raise KernelError("group", "no PEs", "one or more")
    programs = {pe: program for program, pe in enumerate(pes if of is None else of)}
    for pe in pes:
        if pe not in programs:
            raise KernelError("group", f"PE {pe}, on which the launch has no program", "PEs of the launch")
    ids = list(engine.pes)
    elements = [engine.pes[ids[pe]] for pe in pes]
    depths = []
    for each in elements:
        if each.queue is None and len(pes) > 1:
            node = "add `pe_queue: {kind: pe_queue, impl: builtin.pe_queue}` to pe_template, and a link to the NOC"
            raise KernelError("group", f"{each.pe_id}, which has no pe_queue", "a chip whose PEs have one", node)
        depths.append(1 if each.queue is None else each.queue.depth)
    by_cube: dict[tuple[int, int], list[int]] = {}
    for rank, pe in enumerate(pes):
        by_cube.setdefault(places[pe], []).append(rank)
    cubes = tuple(tuple(by_cube[cube]) for cube in around(engine.topology, sorted(by_cube)))
    slot_nbytes = min(each.tcm.nbytes for each in elements) // _SHARE
    chooser = Chooser(engine, elements, lambda rank: home_of(pes[rank]))
    members = tuple(programs[pe] for pe in pes)
    return Group(members, tuple(pes), cubes, slot_nbytes, min(depths), chooser)
