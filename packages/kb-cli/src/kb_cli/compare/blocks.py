"""The work of blocks and PEs in two runs, and its cost on the critical path. The two differ, because hidden work is
free.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from kb_cli.terminal.units import duration
from kb_dataexec.analysis import Where

LINKS_NAME = "the links"


def block_name(block: str) -> str:
    """Returns the kind *block* as a word for sentences: `pe_gemm` is GEMM, `pe_fetch_store` is FETCH_STORE, and `links`
    is `the links`. Tables have the kind as it is in the chip's file.
    """
    if block in ("link", "links"):
        return LINKS_NAME
    if block in ("program", "host"):
        return f"the {block}"
    kind = block.removesuffix("_read").removesuffix("_write").upper()
    return kind.removeprefix("PE_") if kind.startswith("PE_") else kind.replace("_", " ")


SMALL = 0.01
"""The smallest change of the path, as a share of the latency, that is worth a sentence."""


class BlockChange(Struct, frozen=True, kw_only=True):
    """Picoseconds of a kind of block in two runs, before and after.

    `busy_ps` is its work, added up over the blocks of the kind, and `path_ps` its time on the critical path.
    """

    block: str
    busy_ps: tuple[int, int]
    path_ps: tuple[int, int]

    @property
    def changed(self) -> bool:
        """Whether anything is different."""
        return self.busy_ps[0] != self.busy_ps[1] or self.path_change_ps != 0

    @property
    def path_change_ps(self) -> int:
        """The change of its time on the path, in picoseconds."""
        return self.path_ps[1] - self.path_ps[0]

    def matters(self, latency_ps: int) -> bool:
        """Whether its part of the path changed by a share of *latency_ps* that is worth a sentence."""
        return abs(self.path_change_ps) > SMALL * latency_ps

    def sentence(self, others: Iterable[BlockChange]) -> str:
        """Returns the change of the block's work and of its cost in one sentence. *others* are the changes of all
        blocks.
        """
        text = self._said(others)
        return f"{text[0].upper()}{text[1:]}"

    def _said(self, others: Iterable[BlockChange]) -> str:
        name, work_ps, change = block_name(self.block), self.busy_ps[1] - self.busy_ps[0], self.path_change_ps
        cost = f"{duration(abs(change))} {'more' if change > 0 else 'less'} of it is on the path"
        if work_ps:
            works = "work" if name == LINKS_NAME else "works"
            joins = "and" if (work_ps > 0) == (change > 0) else "but"
            return f"{name} {works} {duration(abs(work_ps))} {'longer' if work_ps > 0 else 'less'}, {joins} {cost}."
        against = min(others, key=lambda each: each.path_change_ps * (1 if change > 0 else -1))
        text = f"The work of {name} is the same, but {cost}"
        if against.path_change_ps * change >= 0:
            return f"{text}."
        if change > 0:
            return f"{text}: it was hidden behind {block_name(against.block)}."
        return f"{text}: it is hidden behind {block_name(against.block)} now."


def block_changes(before: Where, after: Where) -> list[BlockChange]:
    """Returns the changes of every kind of block of either run, the largest change of the path first."""
    busy: dict[str, list[int]] = {}
    path: dict[str, list[int]] = {}
    for place, where in enumerate((before, after)):
        for launch in where.launches:
            for block, ps in launch.busy.items():
                busy.setdefault(block, [0, 0])[place] += ps
            for row in launch.rows:
                path.setdefault(row.block, [0, 0])[place] += row.ps
    found = [
        BlockChange(block=block, busy_ps=_pair(busy.get(block)), path_ps=_pair(path.get(block)))
        for block in dict.fromkeys((*path, *busy))
    ]
    return sorted(found, key=lambda each: (-abs(each.path_change_ps), each.block))


def _pair(values: list[int] | None) -> tuple[int, int]:
    return (values[0], values[1]) if values else (0, 0)


class PeChange(Struct, frozen=True, kw_only=True):
    """The change of the own view of each of `pes`: by how many picoseconds each block's time grew.

    Blocks and PEs without a change are left out. A PE that one of the runs does not have has all its time as the
    change.
    """

    pes: list[str]
    change_ps: dict[str, int]


def pe_changes(before: Where, after: Where) -> list[PeChange]:
    """Returns the changes of PEs, in the order in which the runs have the PEs. PEs with equal changes stand
    together.
    """
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
