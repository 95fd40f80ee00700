"""What changed in each PE's own view of two runs. PEs are matched by id."""

from __future__ import annotations

from msgspec import Struct

from kb_dataexec.analysis import Where


class PeChange(Struct, frozen=True, kw_only=True):
    """In the own view of each of `pes`: how many picoseconds more each block takes. Blocks without a change are left
    out, and so are PEs without one. A PE that one of the runs does not have has all its time as the change."""

    pes: list[str]
    change_ps: dict[str, int]


def pe_changes(before: Where, after: Where) -> list[PeChange]:
    """The changes, PEs with equal ones together, in the order in which the runs have the PEs."""
    sums: dict[str, dict[str, int]] = {}
    for sign, where in ((-1, before), (1, after)):
        for launch in where.launches:
            for view in launch.pes:
                for pe in view.pes:
                    blocks = sums.setdefault(pe, {})
                    for row in view.rows:
                        blocks[row.block] = blocks.get(row.block, 0) + sign * row.ps
    alike: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for pe, blocks in sums.items():
        changes = sorted(((block, ps) for block, ps in blocks.items() if ps), key=lambda each: (-abs(each[1]), each[0]))
        if changes:
            alike.setdefault(tuple(changes), []).append(pe)
    return [PeChange(pes=pes, change_ps=dict(changes)) for changes, pes in alike.items()]
