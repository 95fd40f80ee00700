"""Actors: the programs, and the calls of the host's streams, that access bytes, and which of them may race."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kb_dataexec.analysis.programs import Numbering, ProgramName, Programs
from kb_dataexec.analysis.races.far_accesses import Accesses
from kb_dataexec.analysis.races.stream_order import StreamOrder
from kb_dataexec.analysis.races.synced import Synced
from kb_dataexec.analysis.races.unordered_pairs import IsOrdered
from kb_dataexec.arrays.dtypes import Array
from kb_dataexec.arrays.ranges import numbered_rows
from kb_messages import MemorySpace


class Actors(NamedTuple):
    """The accesses `found`, in the order of commands, and who makes them.

    `program` has the row of the program of each access, -1 for none, and, behind the rows of all programs, a number for
    each call of the host. `actor` is the program too, but that of an access to a TCM is the first program of its launch
    and PE: the programs of a PE use its TCM one after the other. `launch` is -1 for the host. Accesses of other
    `group`s are in order. `call` is the row of the call in the table of `streams`; -1 where there is none.
    """

    found: Accesses
    program: Array
    actor: Array
    launch: Array
    group: Array
    call: Array
    programs: Programs
    streams: StreamOrder | None

    @classmethod
    def of(
        cls,
        programs: Programs,
        found: Accesses,
        streams: StreamOrder | None,
        host: tuple[list[Accesses], Array, Sequence[str]],
    ) -> Actors:
        """Returns the actors of the accesses *found*, and, with *streams*, of the accesses of the host.

        *host* has the host's writes and copies, the table `reads`, and the texts of the log.
        """
        rows = programs.rows
        program = programs.of_commands(found.command_seq)
        launch = np.where(program >= 0, rows.launch[program], -1)
        pair = numbered_rows(rows.launch, rows.pe)
        first = np.full(len(pair), len(pair), np.int64)
        np.minimum.at(first, pair, np.arange(len(pair)))
        in_tcm = (found.owner >> 10 & 15) == MemorySpace.TCM.code
        actor = np.where(in_tcm & (program >= 0), first[pair[program]], program)
        if streams is None:
            return cls(found, program, actor, launch, launch, np.full(len(launch), -1), programs, None)
        call = streams.call_of_launches(launch)
        moves, reads, strings = host
        of_host, call_of_host = streams.accesses(Accesses.joined(moves), reads, strings)
        numbers = len(rows.launch) + call_of_host
        none = np.full(len(numbers), -1, np.int64)
        columns = [(program, numbers), (actor, numbers), (launch, none), (call, call_of_host)]
        program, actor, launch, call = map(np.concatenate, columns)
        both = Accesses.joined([found, of_host])
        order = np.argsort(both.command_seq, kind="stable")
        program, actor, launch, call = (each[order] for each in (program, actor, launch, call))
        group = streams.groups(call, launch)
        return cls(both.at(order), program, actor, launch, group, call, programs, streams)

    def order(self, synced: Synced | None) -> IsOrdered | None:
        """Tells for pairs of accesses whether messages, streams, events or looks put them in order.

        None where nothing but launches puts accesses in order.
        """
        streams = self.streams
        if streams is None:
            return None if synced is None else synced.is_ordered

        def is_ordered(first: Array, second: Array) -> Array:
            found = streams.are_ordered(self.call[first], self.call[second])
            same = np.flatnonzero(self.call[first] == self.call[second])
            if synced is not None:
                found[same] |= synced.is_ordered(first[same], second[same])
            return found

        return is_ordered

    def name(self, at: int, grids: Sequence[Numbering]) -> ProgramName:
        """The name of the program of access *at*; of the host, that of the stream."""
        if self.launch[at] < 0 and self.streams is not None:
            return ProgramName(launch=-1, ids=(), pe=f"stream {self.streams.stream(int(self.call[at]))}")
        return self.programs.name(int(self.program[at]), grids)

    def n_pes(self, programs: Array) -> int:
        """The number of PEs of *programs*, rows of programs; calls of the host have none."""
        pes = self.programs.rows.pe
        return len(np.unique(pes[programs[programs < len(pes)]]))
