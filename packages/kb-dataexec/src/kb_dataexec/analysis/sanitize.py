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
from kb_dataexec.analysis.findings import Access, ElementNames, Finding, unnamed
from kb_dataexec.analysis.hazards import Hazard, Hazards, hazards
from kb_dataexec.analysis.programs import Numbering
from kb_dataexec.analysis.races.race_search import RaceSearch
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.ranges import spread
from kb_dataexec.log.columns import RECTANGLE_COLUMNS, part
from kb_dataexec.log.schedule import Schedule
from kb_dataexec.log.tables import OpLog
from kb_dataexec.memory.names import memory_name
from kb_messages import LogError, Rectangle, Role, common_byte, split_address

_KINDS: Final = tuple(Hazard)
_RACES: Final = tuple(number for number, each in enumerate(_KINDS) if each.is_race)


class Searched(Struct, frozen=True, kw_only=True):
    """The findings in a log, and sentences on what was not decided or not looked for."""

    findings: list[Finding]
    notes: list[str]


def sanitize(
    log: OpLog, launches: Sequence[tuple[int, int]] = (), memories: Mapping[int, str] | None = None
) -> list[Finding]:
    """Finds the hazards of *log*: one finding for each hazard and pair of kernel lines, in command order.

    *launches* are (start, end) in picoseconds. Nothing orders the programs within a launch, and two launches follow
    each other; without *launches* the whole log is one launch. Where the log has the table of programs, races are those
    between programs, and the launches those of the table. Otherwise they are between PEs. The PE of a record is the
    name of its component up to the last dot. *memories* has names of memories by owner number. Raises LogError for an
    invalid log, for a closed log that lacks an op, if launches overlap, and if no record has a time after 0, because
    nothing could be found then.
    """
    return search(log, launches, memories).findings


def search(
    log: OpLog,
    launches: Sequence[tuple[int, int]] = (),
    memories: Mapping[int, str] | None = None,
    names: ElementNames = unnamed,
    grids: Sequence[Numbering] = (),
) -> Searched:
    """Finds hazards as `sanitize` does, and says what is not decided.

    *names* finds the element with a byte. *grids* has the numbering of the programs of each launch.
    """
    schedule = Schedule(log)
    log.check_gaps("op log")
    if len(schedule.ops) and not schedule.ops["t_end_ps"].any():
        raise LogError("op log", "records without times", "t_start_ps and t_end_ps", "hazards follow from times alone")
    found = hazards(schedule, dependencies_in(schedule), launches)
    by_program = RaceSearch(thorough=True)
    by_program.look(log)
    if not by_program.has_programs:
        findings = [_finding(schedule, found, group, memories or {}) for group in _groups(schedule, found)]
        return Searched(findings=findings, notes=[])
    others = found.chosen(~np.isin(found.code, _RACES) & ~_of_streams(schedule, found))
    report = by_program.report(log, names, memories, grids)
    findings = [_finding(schedule, others, group, memories or {}) for group in _groups(schedule, others)]
    findings += report.races
    place = {int(op_id): at for at, op_id in enumerate(schedule.ops["op_id"])} if findings else {}
    findings.sort(key=lambda each: (place.get(each.first.op_id, -1), place.get(each.second.op_id, -1)))
    return Searched(findings=findings, notes=report.notes)


def _of_streams(schedule: Schedule, found: Hazards) -> Array:
    """Whether a pair has a write or a copy of a stream of the host, which the search for races looks at."""
    calls = schedule.log.tables.get("calls")
    if calls is None:
        return np.zeros(len(found.code), np.bool_)
    moves = calls[(calls["end_seq"] > calls["first_seq"]) & (calls["first_seq"] >= 0)]
    seqs = spread(moves["first_seq"], moves["end_seq"] - moves["first_seq"])[0]
    of_host = np.isin(schedule.ops["command_seq"], seqs)
    result: Array = of_host[found.first] | of_host[found.second]
    return result


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
