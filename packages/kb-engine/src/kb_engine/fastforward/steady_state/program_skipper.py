"""ProgramSkipper: skips programs of a grid that come in periods, because they repeat earlier programs.

Design: docs/design/steady-state.md
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from math import gcd
from typing import Any, Final

import numpy as np

from kb_dataexec.log.compressed import LogMark
from kb_engine.block.component import ComponentBase
from kb_engine.block.fabric_roles import MemoryComponent
from kb_engine.block.in_flight import CommandInFlight
from kb_engine.block.state_rules import can_visit_state, works_for_virtual_addresses_alone
from kb_engine.fastforward.isolated.isolated_commands import LEAST_ISOLATED_STAGES
from kb_engine.fastforward.refusals import OTHERS_UNDER_WAY
from kb_engine.fastforward.replay import Templates
from kb_engine.fastforward.steady_state.cycle_search import CycleSearch
from kb_engine.fastforward.steady_state.period_skipper import PeriodSkipper
from kb_engine.fastforward.steady_state.program_period import Again, Period
from kb_engine.fastforward.steady_state.program_snapshot import Numbers, ProgramShift, ProgramSnapshot
from kb_engine.fastforward.steady_state.state_snapshot import visit_entries, visit_servers
from kb_engine.fastforward.steady_state.tile_path import why_no_state
from kb_engine.launch.grid_launch import GridLaunch
from kb_engine.observe.chip import Chip
from kb_engine.observe.slow_path import NO_REMEDY, SkipRefusal
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.session import Session
from kb_engine.program.values.symbols import Ints
from kb_messages import OFFSET_BITS, OFFSET_MASK

_MOST_ENTRIES: Final = 448
"""The most entries of the clock at a snapshot. Source: assumed; there are fewer with 64 PEs."""
_FREE_SNAPSHOTS: Final = 4
_PROGRAMS_A_SNAPSHOT: Final = 16
"""The programs of a PE for each snapshot beyond the free ones. Source: benchmarks/speed/program_folds.py."""
_MOST_PROGRAMS: Final = 1 << 13
"""The programs whose steps are kept; no longer period is found. Source: assumed; they take 20 MB."""
_MOST_COMMANDS: Final = 1 << 16
"""The commands that are kept without a log; no longer period is found. Source: assumed; they take 100 MB."""
_TOO_FEW: Final = 4
"""Up to so many programs of a PE, a launch without a period is called short. Source: assumed."""
_MOST_RECORDS: Final = 1 << 20
"""The records that one shift repeats at most, because they are kept until the log is written."""
_WITHOUT_LOG: Final = "keep no op log, because without a log no rows have to be repeated"
_ISOLATED: Final = SkipRefusal(
    "its programs issue commands that are isolated, whose rows a period cannot repeat",
    f"issue commands of fewer than {LEAST_ISOLATED_STAGES} stages, or {_WITHOUT_LOG}",
)
_WRITTEN: Final = SkipRefusal(
    "a period has more rows than the op log holds back, and written rows cannot be repeated", _WITHOUT_LOG
)


class ProgramSkipper(PeriodSkipper[ProgramSnapshot, ProgramShift]):
    """Searches periods of programs of *launch*, which *templates* repeat, on *pes* of *chip*, and skips them.

    *on_issue* is called with each command of programs that are skipped, if there is an op log.
    `skipped_commands` counts the commands of the programs that were not simulated.
    """

    def __init__(
        self,
        launch: GridLaunch,
        templates: Templates,
        session: Session,
        chip: Chip,
        pes: Sequence[ProcessingElement],
        on_issue: Callable[[CommandInFlight], None] | None,
    ) -> None:
        super().__init__(chip.clock, session.recorder)
        self._launch = launch
        self._templates = templates
        self._replayed = templates.watch()
        self._session = session
        self._chip = chip
        self._pes = pes
        self._pes_by_id = {pe.pe_id: pe for pe in pes}
        self._first = self._numbers()
        self._search = CycleSearch[ProgramSnapshot]()
        self._n_taken_before = 0
        self._n_snapshots = 0
        self._on_issue = on_issue
        self.skipped_commands = 0
        self._n_begun = session.under_way.n_begun
        self._found_other = self._has_state = self._lacks_state = self._has_too_many = False
        self._lacks_records: SkipRefusal | None = None
        session.keep_commands(session.recorder is None and session.listeners.on_issue_again is not None)
        launch.watch(self._took)

    @property
    def kept(self) -> int:
        """The number of programs whose steps are kept."""
        return len(self._replayed.runs)

    @cached_property
    def _blocks(self) -> Sequence[ComponentBase[Any]] | None:
        """The blocks of the PEs, and all memories; None where a block has no `visit_state`."""
        blocks = self._every_block()
        return blocks if all(map(can_visit_state, blocks)) else None

    def _every_block(self) -> Sequence[ComponentBase[Any]]:
        """Returns the blocks of the PEs, and all memories. MMUs are left out, because no program with a template uses
        virtual addresses."""
        components, nodes = self._chip.components, self._chip.topology.graph
        own = [components[node.id] for pe in self._pes for node in nodes.pe_nodes(pe.pe_id)]
        own = [each for each in own if not works_for_virtual_addresses_alone(each)]
        memories = [each for each in components.values() if isinstance(each, MemoryComponent)]
        return list({id(each): each for each in (*own, *memories)}.values())

    @property
    def is_searching(self) -> bool:
        """Whether programs have templates, and no program was skipped so far."""
        return not self.skipped and self._templates.why_not is None and not self._has_company

    @property
    def _has_company(self) -> bool:
        """Whether another launch, or a transfer of the host, has begun since the begin of this launch."""
        return self._session.under_way.n_begun != self._n_begun

    @property
    def why_not(self) -> SkipRefusal | None:
        """Why no program was skipped; None if one was."""
        if self.skipped:
            return None
        if self._templates.why_not is not None:
            return self._templates.why_not
        refused = [each for each in self._every_block() if not can_visit_state(each)]
        if refused:
            return why_no_state(refused[0])
        if self._has_company:
            return OTHERS_UNDER_WAY
        if self._found_other:
            return SkipRefusal(
                "later programs use other banks or blocks, or conflict with other commands, than earlier programs",
                NO_REMEDY,
            )
        if self._lacks_records is not None:
            return self._lacks_records
        if len(self._launch.taken) <= _TOO_FEW * len(self._pes):
            return SkipRefusal("each PE has too few programs for a period to show", "give each PE more of them")
        if self._has_too_many and not self._n_snapshots:
            return SkipRefusal(f"more than {_MOST_ENTRIES} events are scheduled at once", NO_REMEDY)
        if self._lacks_state and not self._has_state:
            cause = "between programs, work is in flight that has no snapshot"
            return SkipRefusal(f"{cause}, such as a command that has many tiles or is isolated", NO_REMEDY)
        return SkipRefusal("the chip did not return to an earlier state", NO_REMEDY)

    def _numbers(self) -> Numbers:
        session = self._session
        return Numbers(session.n_ops, session.commands_issued, len(self._launch.taken))

    def _took(self) -> None:
        """Plans a snapshot after each round of programs that PEs have taken."""
        launch = self._launch
        if len(launch.taken) - self._n_taken_before >= len(self._pes):
            self._n_taken_before = len(launch.taken)
            if launch.queued > len(self._pes) and not self._has_company:
                self._clock.call_next(self._search_period, None)
        if launch.queued <= len(self._pes):
            self._release_records()

    def _search_period(self, _: object) -> None:
        """Searches a period, between two events, after PEs have taken programs in the event before."""
        clock = self._clock
        if self._has_company:
            self._release_records()
            return
        if self.kept > _MOST_PROGRAMS or len(self._session.kept or ()) > _MOST_COMMANDS:
            self._restart()
        entries = clock.entries(_MOST_ENTRIES)
        if entries is None:
            self._has_too_many = True
            return
        signature = tuple([entry[0] - clock.now_ps for entry in entries])
        found = self._search.find(signature, lambda: self._snapshot_if_cheap(entries), self._may_repeat)
        if found is None:
            return
        period = Period(self._launch, self._session, self._templates, self._pes_by_id.__getitem__, *found)
        if self._shift(period, entries):
            self._restart()

    def _restart(self) -> None:
        """Searches a period from now on, and forgets earlier snapshots."""
        self._search.restart()
        self._replayed.forget(self._launch.running)
        if self._session.kept:
            self._session.kept.clear()

    def _may_repeat(self, earlier: ProgramSnapshot) -> bool:
        """Whether the records since the *earlier* snapshot, which has the present state, can be repeated."""
        if self._has_records_since(earlier):
            return True
        self._lacks_records = _WRITTEN if self._wrote_records_since(earlier) else _ISOLATED
        return False

    def _snapshot_if_cheap(self, entries: Sequence[Any]) -> ProgramSnapshot | None:
        """Returns a snapshot, or None where it would cost too much or a part has no snapshot now."""
        launch = self._launch
        if self._blocks is None or self._n_snapshots >= _FREE_SNAPSHOTS + len(launch.taken) // (
            _PROGRAMS_A_SNAPSHOT * len(self._pes)
        ):
            return None
        self._n_snapshots += 1
        snapshot = self._take_snapshot(entries)
        if snapshot is None:
            self._lacks_state = True
            return None
        self._has_state = True
        n_commands = len(self._session.kept or ()) if self._recorder is None else self._recorder.rows.n_commands
        cuts = {pe.pe_id: pe.registers.cuts() for pe in self._pes}
        snapshot.note_programs(n_commands, len(self._replayed.issues), launch.running, cuts)
        return snapshot

    def _begin_snapshot(self, mark: LogMark | None) -> ProgramSnapshot:
        return ProgramSnapshot(self._clock.now_ps, mark, self._numbers(), self._first)

    @property
    def _next_op(self) -> int:
        return self._session.n_ops

    def _visit(self, over: ProgramSnapshot | ProgramShift, entries: Sequence[Any]) -> None:
        launch, templates = self._launch, self._templates
        begun = launch.begun
        over.part(launch)
        over.part(templates)
        over.drain()
        for stream in launch.streams:
            over.part(stream)
        self._replayed.visit_state(over, begun)
        for block in self._blocks or ():
            over.part(block)
            visit_servers(over, block.servers.values())
        for pe in self._pes:
            over.same(pe.tcm.state)
        over.part(self._chip.fabric)
        visit_entries(over, entries)
        over.drain()

    def _shift(self, period: Period, entries: Sequence[Any]) -> bool:
        """Skips the periods that repeat *period*. Returns whether there were any."""
        n = self._n_repeatable(period)
        n, issued, commands = period.commands(n, self._on_issue is not None)
        n_good = period.repeat_memory_steps(n)
        if n_good < n:
            n, issued, commands = period.commands(n_good, self._on_issue is not None)
        if n == 0:
            self._found_other = True
            return False
        shift = ProgramShift(period.before, period.after, n, issued)
        ran = period.ran(n)
        begun = self._launch.begun
        self._move_on(shift, entries)
        for number in begun:
            later = number + shift.numbers.programs
            found = self._templates.of(later)
            assert found is not None
            self._replayed.go_on(number, later, found[1], period.loaded.get(later, {}))
        if self._recorder is not None:
            self._notify_issued(commands, period.by.commands, n)
            self._recorder.rows.replace_commands(period.before.n_commands, commands)
        elif self._session.kept:
            self._session.notify_again(self._session.kept[period.before.n_commands : period.after.n_commands], n)
        self._launch.skip(ran)
        self._session.skip(shift.numbers.commands, shift.numbers.ops)
        self._clock.skip(shift.ps)
        self.skipped += shift.numbers.programs
        self.skipped_commands += shift.numbers.commands
        self._n_taken_before = len(self._launch.taken)
        return True

    def _notify_issued(self, commands: Sequence[Again], n_each: int, n: int) -> None:
        """Notifies observers of *commands* after the first *n_each*, which come again in *n* periods."""
        if self._on_issue is not None:
            for command in commands[n_each:]:
                assert isinstance(command, CommandInFlight), "each command was made to notify observers"
                self._on_issue(command)
        self._session.notify_again([each for each in commands[:n_each] if isinstance(each, CommandInFlight)], n)

    def _n_repeatable(self, period: Period) -> int:
        """Returns how many periods follow that repeat *period* with its conflicts; 0 if it is not whole."""
        if not period.is_whole:
            return 0
        n = self._n_equal(period)
        if n and any(each.scoreboard is not None for each in self._launch.streams):
            n = period.n_with_equal_conflicts(n)
        return n

    def _n_equal(self, period: Period) -> int:
        """Returns how many periods follow whose programs repeat the programs of *period*."""
        kinds, by = self._templates.kinds(self._kinds_of), period.by.programs
        later, before = kinds[period.lowest + by :], kinds[period.lowest : -by]
        other = np.flatnonzero((later != before) | (later < 0) | (before < 0))
        end = int(other[0]) + period.lowest + by if len(other) else len(kinds)
        n = (end - 1 - max(self._launch.taken)) // by
        return max(0, min(n, _MOST_RECORDS // max(1, period.by.ops)))

    def _kinds_of(self, addresses: Ints) -> Ints:
        """Returns the properties of *addresses* that decide times: memory, and place in a round of granules or in a
        burst."""
        owners, offsets = addresses >> OFFSET_BITS, addresses & OFFSET_MASK
        burst_nbytes, interleaved = self._session.memory.burst_nbytes, self._chip.topology.address_map.interleaved
        moduli = np.full_like(owners, burst_nbytes)
        for owner in sorted(set(owners.reshape(-1).tolist())):  # np.unique imports numpy.ma, which takes long
            region = interleaved.get(owner)
            if region is not None:
                spread = region.interleaving
                bursts = burst_nbytes // gcd(spread.granule_nbytes, burst_nbytes)
                moduli[owners == owner] = spread.round_nbytes * bursts
        return np.concatenate((owners, offsets % moduli), axis=1)
