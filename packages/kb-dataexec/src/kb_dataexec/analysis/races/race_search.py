"""RaceSearch: looks for races of programs in a log, on the way of its chunks, within limits that keep the cost small.

The limits are numbers of accesses and never seconds, so equal logs give equal answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from kb_dataexec.analysis.findings import Access, Element, ElementNames, Finding, RaceReport, unnamed
from kb_dataexec.analysis.hazards import Hazard, pe_of
from kb_dataexec.analysis.programs import Numbering, ProgramName, Programs
from kb_dataexec.analysis.races.actors import Actors
from kb_dataexec.analysis.races.far_accesses import Accesses, AccessKind, far_accesses, host_accesses, tcm_accesses
from kb_dataexec.analysis.races.race_pairs import RacePair, contested, racing
from kb_dataexec.analysis.races.stream_order import StreamOrder
from kb_dataexec.analysis.races.synced import Synced
from kb_dataexec.log.auxiliary import Tables, joined
from kb_dataexec.log.table_dtypes import TABLE_DTYPES
from kb_dataexec.log.tables import OpLog
from kb_dataexec.memory.names import memory_name
from kb_messages import OPTIONAL_TABLES, SYNC_TABLES, MemorySpace, Rectangle, common_byte, split_address

_MOST_GATHERED: Final = 1 << 21
"""Accesses that a limited search keeps. Source: assumed; 200 MB."""
_FEW_CONTESTED: Final = 1 << 12
"""Accesses whose bytes a limited search always compares. Source: assumed; some milliseconds."""
_RECORDS_FOR_ONE: Final = 16
"""Records of the log for each access whose bytes a limited search compares, above the few.

Source: measured by benchmarks/speed/races.py; a comparison takes 2 us, and a record of a run at least 3 us. Besides,
each further rectangle of a record allows two more accesses: a scatter of single elements takes 30 us for each.
"""
_SHOWN: Final = 2
"""Pairs of lines that are named where nothing is decided."""


class RaceSearch:
    """Looks for races in a log: pass each chunk, or the whole log, to `look`, and then call `report`.

    A search that is not *thorough* leaves out logs in which very many accesses would have to be compared.
    """

    def __init__(self, thorough: bool = False) -> None:
        self._thorough = thorough
        self._programs = Programs()
        self._parts: list[Accesses] = []
        self._moves: list[Accesses] = []
        self._strings: Sequence[str] = ()
        self._n_records = self._n_accesses = self._n_pieces = 0
        self._synced: list[Tables] = []

    @property
    def has_programs(self) -> bool:
        """Whether the log says which programs ran, so that their races can be looked for."""
        return self._programs.is_known

    def look(self, chunk: OpLog) -> None:
        """Takes *chunk*, a part of a log with the operands of its ops, or a whole log."""
        self._strings = chunk.strings
        self._programs.look(chunk)
        self._n_records += chunk.n_ops
        self._synced.append({name: chunk.tables[name] for name in OPTIONAL_TABLES if name in chunk.tables})
        if self._thorough or self._n_accesses <= _MOST_GATHERED:
            self._moves.append(host_accesses(chunk))
            part = far_accesses(chunk)
            self._n_accesses += len(part.op_id)
            self._n_pieces += int(np.count_nonzero(part.op_id[1:] == part.op_id[:-1]))
            self._parts.append(part)

    def report(
        self,
        log: OpLog | None,
        names: ElementNames = unnamed,
        memories: Mapping[int, str] | None = None,
        grids: Sequence[Numbering] = (),
    ) -> RaceReport:
        """Returns the races. *log* is the whole log, or None where only its chunks were there.

        *names* finds the element with a byte, *memories* has names of memories by owner number, and *grids* the
        numbering of the programs of each launch. Without the table of programs, nothing is looked for.
        """
        if not self._programs.is_known or not self._parts:
            return RaceReport(races=[], left_out="" if self._programs.is_known else _without("no table of programs"))
        if not self._thorough and self._n_accesses > _MOST_GATHERED:
            return RaceReport(races=[], left_out=_without(f"more than {_MOST_GATHERED:,} accesses to memories"))
        labels = memories or {}
        rows, tables = self._programs.rows, joined(self._synced)
        calls = tables.get("calls")
        streams = None if calls is None or not len(calls) else StreamOrder(calls)
        if streams is None and len(np.unique(rows.launch)) == len(rows.launch):  # one program in each launch
            return RaceReport(races=[])
        found = Accesses.joined(self._parts)
        order = np.argsort(found.command_seq, kind="stable")
        found, is_whole = self._with_tcm(found.at(order), log, labels)
        reads = tables.get("reads", np.empty(0, TABLE_DTYPES["reads"]))
        actors = Actors.of(self._programs, found, streams, (self._moves, reads, self._strings))
        found, returns = actors.found.with_atomics
        synced = Synced.of(
            found, {name: tables[name] for name in SYNC_TABLES if name in tables}, self._strings, actors.launch
        )
        at = contested(found, actors.actor, actors.group)
        if synced is not None:
            at = at[~synced.by_protocol[at]]
        most = max(_FEW_CONTESTED, self._n_records // _RECORDS_FOR_ONE + 2 * self._n_pieces)
        if not self._thorough and len(at) > most:
            n_programs = len(np.unique(actors.program[at]))
            many = f"{len(at):,} accesses of {n_programs:,} programs lie close together"
            return RaceReport(races=[], left_out=_without(many))
        pairs = list(racing(found, actors.actor, actors.group, returns, at, actors.order(synced)))
        findings = [self._finding(found, actors, each, (names, labels, grids)) for each in pairs]
        decided = [each for each, pair in zip(findings, pairs, strict=True) if pair.is_decided]
        others = [each for each, pair in zip(findings, pairs, strict=True) if not pair.is_decided]
        left_out = "" if is_whole else _without("the log was read in parts, and PEs use TCMs of other PEs", " there")
        return RaceReport(races=decided, undecided=_undecided(others), left_out=left_out)

    def _with_tcm(self, found: Accesses, log: OpLog | None, labels: Mapping[int, str]) -> tuple[Accesses, bool]:
        """Adds the accesses of PEs to their own TCM, where another PE uses it too. Returns whether all are there."""
        near = np.flatnonzero((found.owner >> 10 & 15) == MemorySpace.TCM.code)
        if log is None:  # messages alone are in order in their slots, whatever the receivers do
            sends = joined(self._synced).get("sends")
            near = near if sends is None else near[~np.isin(found.command_seq[near], sends["command_seq"])]
        pairs = set(zip(found.owner[near].tolist(), found.component[near].tolist(), strict=True))
        shared = sorted({owner for owner, block in pairs if self._pe_of(block) != _home(owner, labels)})
        if not shared:
            return found, True
        if log is None:
            return found, False
        both = Accesses.joined([found, tcm_accesses(log, np.array(shared))])
        return both.at(np.argsort(both.command_seq, kind="stable")), True

    def _pe_of(self, component: int) -> str:
        return pe_of(self._strings[component])

    def _finding(
        self,
        found: Accesses,
        actors: Actors,
        pair: RacePair,
        naming: tuple[ElementNames, Mapping[int, str], Sequence[Numbering]],
    ) -> Finding:
        names, labels, grids = naming
        one, two = pair.first, pair.second
        address = common_byte(_rectangle(found, one), _rectangle(found, two))
        assert address is not None, "the two share a set of bytes"
        owner, offset = split_address(address)
        launches = np.unique(self._programs.rows.launch)
        launch = int(np.searchsorted(launches, max(actors.launch[one], actors.launch[two])))
        element: Element | None = names(launch, owner, offset)
        accesses = [self._access(found, each, actors.name(each, grids)) for each in (one, two)]
        done_ps = int(found.t_end_ps[one])
        fields = {} if element is None else {"element": element}
        return Finding(
            hazard=_hazard(int(found.kind[one]), int(found.kind[two])),
            first=accesses[0],
            second=accesses[1],
            done_ps=done_ps,
            early_ps=max(0, done_ps - int(found.t_start_ps[two])),
            where=labels.get(owner) or memory_name(owner),
            offset=offset,
            count=len(pair.programs),
            pes=actors.n_pes(pair.programs),
            **fields,
        )

    def _access(self, found: Accesses, at: int, program: ProgramName) -> Access:
        strings = self._strings
        return Access(
            op_id=int(found.op_id[at]),
            name=strings[int(found.name[at])],
            component=strings[int(found.component[at])],
            line=strings[int(found.line[at])],
            t_start_ps=int(found.t_start_ps[at]),
            t_end_ps=int(found.t_end_ps[at]),
            program=program,
        )


def _home(owner: int, labels: Mapping[int, str]) -> str | None:
    """The PE of a TCM; None where its name is not known."""
    return pe_of(labels[owner]) if owner in labels else None


def _rectangle(found: Accesses, at: int) -> Rectangle:
    columns = found.owner, found.offset, found.rows, found.row_nbytes, found.stride
    return Rectangle.of_memory(*(int(column[at]) for column in columns))


def _hazard(first: int, second: int) -> Hazard:
    if AccessKind.READ not in (first, second):
        return Hazard.WRITE_RACE
    return Hazard.OVERWRITE_RACE if first == AccessKind.READ else Hazard.READ_RACE


def _without(why: str, where: str = "") -> str:
    return f"races were not looked for{where}: {why}; --sanitize looks"


def _undecided(findings: Sequence[Finding]) -> str:
    """One sentence on pairs of accesses that atomics may put in order; "" without one."""
    if not findings:
        return ""
    named = list(dict.fromkeys(map(_pair, findings)))
    more = f", and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
    return f"races not decided: {', '.join(named[:_SHOWN])}{more}; atomics or polls may put these accesses in order"


def _pair(finding: Finding) -> str:
    """The kernel lines of *finding*, and the element or byte at which they meet."""
    lines = dict.fromkeys((finding.first.place, finding.second.place))
    element = finding.element
    at = str(element) if isinstance(element, Element) else f"{finding.where} + {finding.offset:#x}"
    return f"{' and '.join(lines)} at {at}"
