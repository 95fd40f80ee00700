"""Sanitizer: finds mistakes that hardware could make and pass 2 cannot, since pass 2 follows the order of commands.

Such mistakes are bytes that are read before their producer has finished, bytes that are overwritten before their reader
has finished, and bytes that two PEs touch in no order. Direct dependencies are enough: when the times are right at each
direct dependency, they are right along any chain. No findings means that no two records are out of order on any byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from kb_dataexec.analysis.dependencies import dependencies_in
from kb_dataexec.analysis.hazards import Hazard, Hazards, hazards
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.log.columns import RECTANGLE_COLUMNS, part
from kb_dataexec.log.schedule import Schedule
from kb_dataexec.log.tables import OpLog
from kb_dataexec.memory.names import memory_name
from kb_messages import LogError, Rectangle, Role, common_byte, split_address

_KINDS: Final = tuple(Hazard)


class Access(Struct, frozen=True, kw_only=True):
    """One record that touched the bytes: its name, its component, its kernel line and its times."""

    op_id: int
    name: str
    component: str
    line: str
    t_start_ps: int
    t_end_ps: int

    @property
    def place(self) -> str:
        """The kernel line, or the id of a record without one."""
        return self.line or f"op {self.op_id}"

    def __str__(self) -> str:
        return f"{self.place} ({', '.join(filter(None, (self.name, self.component)))})"


class Finding(Struct, frozen=True, kw_only=True):
    """One hazard between two kernel lines. `first` and `second`, in command order, are the worst of `count` pairs.

    `pes` is the number of PEs on which the second records run. `done_ps` is the earliest time at which `second` may
    begin: the end of `first`, or the end of its whole command when `second` reads its result. `early_ps` is how much
    earlier `second` began, 0 if it did not. `where` names the memory, and `offset` is the lowest byte that both
    touched.
    """

    hazard: Hazard
    first: Access
    second: Access
    done_ps: int
    early_ps: int
    where: str
    offset: int
    count: int
    pes: int

    def __str__(self) -> str:
        first, second = self.first, self.second
        does, did = _VERBS[self.hazard]
        pes = f" on {self.pes} PEs" if self.pes > 1 else ""
        more = f"; {self.count} such pairs{pes}, this one the worst" if self.count > 1 else ""
        return (
            f"{self.hazard}: {second} {does} from {_ns(second.t_start_ps)} on what {first} {did} until "
            f"{_ns(self.done_ps)}, "
            f"at {self.where} + {self.offset:#x}{more}; {self._remedy()}"
        )

    def _remedy(self) -> str:
        if self.hazard.is_race:
            return "nothing puts two PEs of a launch in order: let one of them do both, or launch twice"
        first, second = self.first.place, self.second.place
        return f"let {second} wait for {'what it issued before' if first == second else first}"


_VERBS: Final = {
    Hazard.READ_TOO_EARLY: ("reads", "writes"),
    Hazard.WRITTEN_OUT_OF_ORDER: ("overwrites", "writes"),
    Hazard.OVERWRITTEN_TOO_EARLY: ("overwrites", "reads"),
    Hazard.WRITE_RACE: ("overwrites", "writes"),
    Hazard.READ_RACE: ("reads", "writes"),
    Hazard.OVERWRITE_RACE: ("overwrites", "reads"),
}
"""The verbs of the second record and of the first, by hazard."""


def sanitize(
    log: OpLog, launches: Sequence[tuple[int, int]] = (), memories: Mapping[int, str] | None = None
) -> list[Finding]:
    """Finds the hazards of *log*: one finding for each hazard and pair of kernel lines, in command order.

    *launches* are (start, end) in picoseconds. Nothing orders the PEs within a launch, and two launches follow each
    other; without *launches* the whole log is one launch. The PE of a record is the name of its component up to the
    last dot. *memories* has names of memories by owner number. Raises LogError for an invalid log, if launches overlap,
    and if no record has a time after 0, because nothing could be found then.
    """
    schedule = Schedule(log)
    if len(schedule.ops) and not schedule.ops["t_end_ps"].any():
        raise LogError("op log", "records without times", "t_start_ps and t_end_ps", "hazards follow from times alone")
    found = hazards(schedule, dependencies_in(schedule), launches)
    return [_finding(schedule, found, group, memories or {}) for group in _groups(schedule, found)]


def _groups(schedule: Schedule, found: Hazards) -> Iterator[Array]:
    """The positions of the pairs of each hazard and pair of lines, sorted by the first position."""
    lines = schedule.ops["line"].astype(np.int64)
    size = int(lines.max(initial=0)) + 1
    key = (found.code * size + lines[found.first]) * size + lines[found.second]
    _, opens, group = np.unique(key, return_index=True, return_inverse=True)
    by_group = np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1]) if len(key) else []
    return (by_group[number] for number in np.argsort(opens).tolist())


def _finding(schedule: Schedule, found: Hazards, group: Array, memories: Mapping[int, str]) -> Finding:
    worst = int(group[np.argmax(found.early_ps[group])])
    first, second = int(found.first[worst]), int(found.second[worst])
    owner, offset = split_address(_meeting(schedule, first, second))
    return Finding(
        hazard=_KINDS[int(found.code[worst])],
        first=_access(schedule, first),
        second=_access(schedule, second),
        done_ps=int(found.done_ps[worst]),
        early_ps=max(0, int(found.early_ps[worst])),
        where=memories.get(owner) or memory_name(owner),
        offset=offset,
        count=len(group),
        pes=len(np.unique(found.pe[found.second[group]])),
    )


def _access(schedule: Schedule, index: int) -> Access:
    row, strings = schedule.ops[index], schedule.log.strings
    return Access(
        op_id=int(row["op_id"]),
        name=strings[row["name"]],
        component=strings[row["component"]],
        line=strings[row["line"]],
        t_start_ps=int(row["t_start_ps"]),
        t_end_ps=int(row["t_end_ps"]),
    )


def _meeting(schedule: Schedule, first: int, second: int) -> int:
    """The lowest address that both records touch and one of them writes."""
    theirs = _touched(schedule, second)
    return min(
        address
        for one, one_writes in _touched(schedule, first)
        for two, two_writes in theirs
        if (one_writes or two_writes) and (address := common_byte(one, two)) is not None
    )


def _touched(schedule: Schedule, index: int) -> list[tuple[Rectangle, bool]]:
    """The rectangles of a record, and whether it writes or un-initialises them."""
    columns = part(schedule.operands, schedule.first[index], schedule.first[index + 1])
    rectangles = zip(*(columns[name].tolist() for name in RECTANGLE_COLUMNS), strict=True)
    changes = zip(columns["role"].tolist(), columns["release"].tolist(), strict=True)
    return [
        (Rectangle.of_memory(*rectangle), Role(role).is_write or bool(release))
        for rectangle, (role, release) in zip(rectangles, changes, strict=True)
    ]


def _ns(ps: int) -> str:
    return f"{ps / 1000:.3f} ns"
