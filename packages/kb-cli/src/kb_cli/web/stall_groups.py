"""Waits of tiles that are alike, as one group: the same block, stage, line and reason, on any PE."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from kb_cli.trace.arrange import is_pe
from kb_cli.trace.protobuf import Ints
from kb_cli.web.stall_tables import LongWait, Stalls, WaitColumn

MOST_GROUPS: Final = 60
"""The most groups of an answer, those with the most time. Source: assumed; a kernel of ten lines has about thirty."""
MOST_WAITS: Final = 6
"""The longest waits of a group that are shown on their own. Source: assumed."""


class StallGroup(Struct, frozen=True, kw_only=True):
    """`tiles` waits at `stage` of blocks of the kind `block`, for the same `reason`, of commands of one `line`.

    They take `ps` picoseconds together. `pes` PEs waited, `most_pe` of them longest, `most_ps` picoseconds. `waits` are
    the longest waits, the longest first. `alike` says that all PEs waited equally often and long; then `waits` are
    those of `most_pe`.
    """

    block: str
    stage: str
    line: str
    reason: str
    tiles: int
    ps: int
    pes: int
    alike: bool
    most_pe: str
    most_ps: int
    waits: list[LongWait]


class StallGroups(NamedTuple):
    """The `groups` with the most time. There are `of` groups, and their waits take `ps` picoseconds."""

    groups: list[StallGroup]
    of: int
    ps: int


class _Alike(NamedTuple):
    """A group: its waits in `column`, rows of the ops, and the picoseconds of each."""

    column: WaitColumn
    rows: Ints
    ps: Ints


def stall_groups(stalls: Stalls, which: npt.NDArray[np.bool_]) -> StallGroups:
    """Returns the groups of the waits of the rows *which* of *stalls*, the ones with the most time first."""
    found = [group for column in stalls.columns for group in _of_column(stalls, which, column)]
    found.sort(key=lambda each: (-int(each.ps.sum()), int(each.rows[0]), each.column.reason))
    pes = _Pes(stalls.strings)
    groups = [_group(stalls, each, pes) for each in found[:MOST_GROUPS]]
    return StallGroups(groups, len(found), sum(int(each.ps.sum()) for each in found))


def _of_column(stalls: Stalls, which: npt.NDArray[np.bool_], column: WaitColumn) -> list[_Alike]:
    rows = np.flatnonzero(which & (column.ps > 0))
    if not len(rows):
        return []
    n = len(stalls.strings)
    kinds: dict[str, int] = {}
    kind_of = np.array([kinds.setdefault(text.rpartition(".")[2], len(kinds)) for text in stalls.strings], np.int64)
    key = (kind_of[stalls.component[rows]] * n + stalls.stage[rows]) * n + stalls.line[rows]
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    return [_Alike(column, each, column.ps[each]) for each in np.split(rows[order], starts[1:])]


def _group(stalls: Stalls, group: _Alike, pes: _Pes) -> StallGroup:
    strings, first = stalls.strings, group.rows[0]
    of_pes = pes.of(stalls.component[group.rows], group.ps)
    shown = np.arange(len(group.rows))
    if of_pes["alike"]:  # the waits of one PE stand for those of all
        shown = shown[pes.is_of(stalls.component[group.rows], of_pes["most_pe"])]
    longest = shown[np.argsort(-group.ps[shown], kind="stable")[:MOST_WAITS]].tolist()
    waits = [stalls.wait(int(group.ps[at]), int(group.rows[at]), group.column) for at in longest]
    return StallGroup(
        block=strings[stalls.component[first]].rpartition(".")[2],
        stage=strings[stalls.stage[first]],
        line=strings[stalls.line[first]],
        reason=group.column.reason,
        tiles=len(group.rows),
        ps=int(group.ps.sum()),
        waits=waits,
        **of_pes,
    )


class _Pes:
    """The PEs of components, whose ids are *strings*."""

    def __init__(self, strings: list[str]) -> None:
        numbers: dict[str, int] = {}
        places = [text.rpartition(".")[0] for text in strings]
        self._of = np.array(
            [numbers.setdefault(each, len(numbers)) if is_pe(each) else -1 for each in places], np.int64
        )
        self._names = list(numbers)

    def is_of(self, components: Ints, pe: str) -> npt.NDArray[np.bool_]:
        """Whether each of *components* is a block of *pe*."""
        found: npt.NDArray[np.bool_] = self._of[components] == self._names.index(pe)
        return found

    def of(self, components: Ints, ps: Ints) -> dict[str, Any]:
        """Returns what a group says of the PEs of its *components*, which waited for *ps* picoseconds each."""
        pe = self._of[components]
        inside = pe >= 0
        if not inside.any():
            return {"pes": 0, "alike": False, "most_pe": "", "most_ps": 0}
        which, number = np.unique(pe[inside], return_inverse=True)
        counts, sums = np.bincount(number), np.zeros(len(which), np.int64)
        np.add.at(sums, number, ps[inside])
        most = int(sums.argmax())
        alike = bool((sums == sums[0]).all() and (counts == counts[0]).all())
        return {"pes": len(which), "alike": alike, "most_pe": self._names[which[most]], "most_ps": int(sums[most])}
