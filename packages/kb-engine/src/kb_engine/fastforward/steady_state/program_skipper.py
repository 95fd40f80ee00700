"""ProgramSkipper: jumps over programs of a grid that come in periods, because they repeat what others did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from math import gcd
from typing import Any, Final

import numpy as np

from kb_engine.block.component import ComponentBase
from kb_engine.block.fabric_roles import MemoryComponent
from kb_engine.block.in_flight import CommandInFlight
from kb_engine.block.state_rules import can_visit_state
from kb_engine.block.state_visitor import NotPeriodic
from kb_engine.fastforward.replay import Templates
from kb_engine.fastforward.steady_state.clock_entries import visit_entries
from kb_engine.fastforward.steady_state.cycle_search import CycleSearch
from kb_engine.fastforward.steady_state.program_period import Again, GridSnapshot, Period
from kb_engine.fastforward.steady_state.program_snapshot import Numbers, ProgramShift
from kb_engine.fastforward.steady_state.tile_path import why_no_state
from kb_engine.launch.grid_launch import GridLaunch
from kb_engine.observe.chip import Chip
from kb_engine.observe.slow_path import NO_REMEDY, SkipRefusal
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.session import Session
from kb_engine.program.values.symbols import Ints
from kb_messages import OFFSET_BITS, OFFSET_MASK

_MOST_ENTRIES: Final = 448
"""Entries of the clock among which states are looked for. Source: assumed; there are fewer with 64 PEs."""
_FREE_LOOKS: Final = 4
_PROGRAMS_A_LOOK: Final = 16
"""Programs of a PE for which a look may be taken, beyond the free ones. Source: benchmarks/speed/program_folds.py."""
_MOST_PROGRAMS: Final = 1 << 13
"""Programs of which it is kept what they did; a longer period is not looked for. Source: assumed; they take 20 MB."""
_MOST_COMMANDS: Final = 1 << 16
"""Commands that are kept without a log; a longer period is not looked for. Source: assumed; they take 100 MB."""
_TOO_FEW: Final = 4
"""Programs of a PE with which a launch that was not folded is called short. Source: assumed."""
_MOST_RECORDS: Final = 1 << 20
"""Records that are repeated at once: they are kept until the log is written."""


class ProgramSkipper:
    """Looks for periods of programs of *launch*, which *templates* repeat, on *pes* of *chip*.

    *on_issue* is called with each command of programs that are skipped, if there is an op log.
    `skipped` counts programs that were not simulated, and `skipped_commands` counts their commands.
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
        self._launch = launch
        self._templates = templates
        self._played = templates.watch()
        self._session = session
        self._chip = chip
        self._pes = pes
        self._pes_by_id = {pe.pe_id: pe for pe in pes}
        self._first = self._numbers()
        self._search = CycleSearch[GridSnapshot]()
        self._looked_at = 0
        self._looks = 0
        self._holds = False
        self._on_issue = on_issue
        self.skipped = self.skipped_commands = 0
        self._found_other = self._has_state = self._cannot_look = self._has_too_many = False
        session.keep_commands(session.recorder is None and session.listeners.on_issue_again is not None)
        launch.watch(self._took)

    @property
    def kept(self) -> int:
        """The programs of which it is kept what they did."""
        return len(self._played.runs)

    @cached_property
    def _blocks(self) -> Sequence[ComponentBase[Any]] | None:
        """The blocks of the PEs, and all memories; None where one of them cannot be folded."""
        blocks = self._every_block()
        return blocks if all(map(can_visit_state, blocks)) else None

    def _every_block(self) -> Sequence[ComponentBase[Any]]:
        """The blocks of the PEs, and all memories."""
        components, nodes = self._chip.components, self._chip.topology.graph
        own = [components[node.id] for pe in self._pes for node in nodes.pe_nodes(pe.pe_id)]
        memories = [each for each in components.values() if isinstance(each, MemoryComponent)]
        return list({id(each): each for each in (*own, *memories)}.values())

    @property
    def why_not(self) -> SkipRefusal | None:
        """Why no program was skipped; None if one was."""
        if self.skipped:
            return None
        alone = self._templates.why_alone
        if alone is not None:
            return alone
        refused = [each for each in self._every_block() if not can_visit_state(each)]
        if refused:
            return why_no_state(refused[0])
        if self._found_other:
            return SkipRefusal(
                "programs that come later use other banks, blocks or bytes of others than those before", NO_REMEDY
            )
        if len(self._launch.taken) <= _TOO_FEW * len(self._pes):
            return SkipRefusal("each PE has too few programs for a period to show", "give each PE more of them")
        if self._has_too_many and not self._looks:
            return SkipRefusal(f"more than {_MOST_ENTRIES} events are scheduled at once", NO_REMEDY)
        if self._cannot_look and not self._has_state:
            cause = "something is under way between two programs that cannot be folded, such as a command of many tiles"
            return SkipRefusal(cause, NO_REMEDY)
        return SkipRefusal("the chip did not come into a state in which it was before", NO_REMEDY)

    def _numbers(self) -> Numbers:
        session = self._session
        return Numbers(session.n_ops, session.commands_issued, len(self._launch.taken))

    def _took(self) -> None:
        """PEs have taken programs. A look follows after each round of them."""
        launch = self._launch
        if len(launch.taken) - self._looked_at >= len(self._pes):
            self._looked_at = len(launch.taken)
            if launch.queued > len(self._pes):
                self._chip.clock.call_next(self._look, None)
        if self._holds and launch.queued <= len(self._pes) and self._session.recorder is not None:
            self._session.recorder.let_go()
            self._holds = False

    def _look(self, _: object) -> None:
        """Between two events: PEs have taken programs in the event before."""
        clock, search = self._chip.clock, self._search
        if self.kept > _MOST_PROGRAMS or len(self._session.kept or ()) > _MOST_COMMANDS:
            self._restart()
        entries = clock.entries(_MOST_ENTRIES)
        if entries is None:
            self._has_too_many = True
            return
        signature = tuple([entry[0] - clock.now_ps for entry in entries])
        found = search.earlier(signature, lambda: self._take(entries), self._is_equal)
        if found is None:
            return
        period = self._period(*found)
        if self._jump(period, entries):
            self._restart()

    def _period(self, before: GridSnapshot, after: GridSnapshot) -> Period:
        return Period(self._launch, self._session, self._templates, self._pes_by_id.__getitem__, before, after)

    def _restart(self) -> None:
        """Look for a period from now on, and forget what was before."""
        self._search.restart()
        self._played.forget(self._launch.running)
        if self._session.kept:
            self._session.kept.clear()

    def _is_equal(self, earlier: GridSnapshot, look: GridSnapshot) -> bool:
        """Whether the state of *look* is that of the *earlier* one, whose records since then can be repeated."""
        recorder = self._session.recorder
        if not look.is_like(earlier):
            return False
        n_ops = look.so_far.ops - earlier.so_far.ops
        return recorder is None or (earlier.mark is not None and recorder.rows.can_repeat(earlier.mark, n_ops))

    def _take(self, entries: Sequence[Any]) -> GridSnapshot | None:
        """The whole state now. None where it would cost too much, or where something cannot be folded now."""
        launch = self._launch
        if self._blocks is None or self._looks >= _FREE_LOOKS + len(launch.taken) // (
            _PROGRAMS_A_LOOK * len(self._pes)
        ):
            return None
        self._looks += 1
        return self._look_at(entries)

    def _look_at(self, entries: Sequence[Any]) -> GridSnapshot | None:
        """The whole state now. None where something cannot be folded now."""
        recorder = self._session.recorder
        if recorder is not None and not self._holds:
            recorder.hold()
            self._holds = True
        look = GridSnapshot(self._chip.clock.now_ps, self._numbers(), self._first)
        try:
            self._visit(look, entries)
        except NotPeriodic:
            self._cannot_look = True
            return None
        self._has_state = True
        if recorder is not None:
            look.note_records(recorder.rows.mark(), recorder.rows.n_commands)
        look.note_kept(len(self._session.kept or ()))
        launch, n_issues = self._launch, len(self._played.issues)
        look.note_programs(n_issues, launch.running, launch.going_on, self._register_cuts())
        return look

    def _visit(self, over: GridSnapshot | ProgramShift, entries: Sequence[Any]) -> None:
        launch, templates = self._launch, self._templates
        begun = launch.begun
        over.part(launch)
        over.part(templates)
        over.drain()
        for stream in launch.streams:
            over.part(stream)
        self._played.visit_state(over, begun)
        for block in self._blocks or ():
            over.part(block)
            for server in block.servers.values():
                over.part(server)
                for gate in server.own_gates:
                    over.part(gate)
        for pe in self._pes:
            over.same(pe.tcm.state)
        over.part(self._chip.fabric)
        visit_entries(over, entries)
        over.drain()

    def _jump(self, period: Period, entries: Sequence[Any]) -> bool:
        """Skip as many periods as there are alike. Whether there were any."""
        n = self._n_meeting_alike(period)
        n, issued, commands = period.commands(n, self._on_issue is not None)
        told = period.tell(n)
        if told < n:
            n, issued, commands = period.commands(told, self._on_issue is not None)
        if n == 0:
            self._found_other = True
            return False
        jump = ProgramShift(period.before, period.after, n, issued)
        ran = period.ran(n)
        begun = self._launch.begun
        self._visit(jump, entries)
        for number in begun:
            later = number + jump.numbers.programs
            found = self._templates.of(later)
            assert found is not None
            self._played.go_on(number, later, found[1], period.loaded.get(later, {}))
        recorder = self._session.recorder
        if recorder is not None and period.before.mark is not None:
            recorder.repeat(period.before.mark, n, period.ps, period.by.ops)
            self._tell_issued(commands, period.by.commands, n)
            recorder.rows.replace_commands(period.before.n_commands, commands)
        elif self._session.kept:
            self._session.notify_again(self._session.kept[period.before.n_kept : period.after.n_kept], n)
        self._launch.skip(ran)
        self._session.skip(jump.numbers.commands, jump.numbers.ops)
        self._chip.clock.skip(jump.ps)
        self.skipped += jump.numbers.programs
        self.skipped_commands += jump.numbers.commands
        self._looked_at = len(self._launch.taken)
        return True

    def _tell_issued(self, commands: Sequence[Again], n_each: int, n: int) -> None:
        """Tell of the *commands* behind the first *n_each*, which come again in *n* periods."""
        if self._on_issue is not None:
            for command in commands[n_each:]:
                assert isinstance(command, CommandInFlight), "each command was made to tell of it"
                self._on_issue(command)
        self._session.notify_again([each for each in commands[:n_each] if isinstance(each, CommandInFlight)], n)

    def _n_meeting_alike(self, period: Period) -> int:
        """How many periods follow whose programs do and meet what those of *period* did; 0 if it is not whole."""
        if not period.is_whole:
            return 0
        n = self._n_alike(period)
        if n and any(each.scoreboard is not None for each in self._launch.streams):
            n = period.n_with_equal_conflicts(n)
        return n

    def _n_alike(self, period: Period) -> int:
        """How many periods follow whose programs do what those of *period* did."""
        kinds, by = self._templates.kinds(self._kinds_of), period.by.programs
        later, before = kinds[period.lowest + by :], kinds[period.lowest : -by]
        other = np.flatnonzero((later != before) | (later < 0) | (before < 0))
        end = int(other[0]) + period.lowest + by if len(other) else len(kinds)
        n = (end - 1 - max(self._launch.taken)) // by
        return max(0, min(n, _MOST_RECORDS // max(1, period.by.ops)))

    def _kinds_of(self, addresses: Ints) -> Ints:
        """What matters about *addresses*: the memory, and where in a round of granules, or in a burst, they lie."""
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

    def _register_cuts(self) -> dict[str, Any]:
        return {pe.pe_id: pe.registers.cuts() for pe in self._pes}
