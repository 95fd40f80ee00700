"""ForeseenLaunch: of programs that are known before they run, and go to no common place, one of each kind is run."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from kb_engine.block.closable import ClosableWork
from kb_engine.block.in_flight import CommandInFlight
from kb_engine.closed.closed_commands import ClosedCommands, NotedCommand
from kb_engine.closed.outcome import Outcome
from kb_engine.launch.foreseen_programs import ForeseenProgram, Programs
from kb_engine.launch.launch_key import LaunchKey
from kb_engine.launch.watched_launch import WatchedLaunch
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.runner import KernelCall, KernelRunner
from kb_engine.program.session import Session
from kb_messages import KbError, SubmittedCommand


class Took(NamedTuple):
    """How long a program took that began at `began_ps`, when its command began to run after the program, what that came
    to, and the command."""

    began_ps: int
    duration_ps: int
    fed_ps: int
    outcome: Outcome
    command: CommandInFlight

    def is_like(self, other: Took) -> bool:
        """Whether programs of one kind may have taken both."""
        times = self.duration_ps, self.fed_ps
        return times == (other.duration_ps, other.fed_ps) and not self.outcome.differs_from(other.outcome)


class ForeseenLaunch(WatchedLaunch):
    """A launch with *key* whose *programs*, one for each PE, are foreseen.

    The first program of each kind runs apart when its PE begins. Nobody else comes to its PE, memories and links. The
    others leave behind what it left, and end as much later than they began. With an op log, one whose transfers the log
    knows less or more of runs apart, too.
    """

    has_all_runners = False

    def __init__(
        self,
        where: tuple[int, Session, Sequence[ProcessingElement]],
        call: KernelCall,
        key: LaunchKey,
        programs: Programs,
        closed: ClosedCommands,
    ) -> None:
        super().__init__(where, call, key, None)
        self._closed = closed
        self._foreseen = {
            pe_id: (place, program, call)
            for place, (pe_id, program) in enumerate(zip(self.pe_ids, programs, strict=True))
        }
        self._took: dict[Hashable, list[Took | None]] = {}
        self._works: dict[str, list[ClosableWork]] = {}
        if self._session.recorder is None:
            self._session.late_places.add(self._works, len(self._foreseen))
        self._apart: KernelRunner | None = None

    def _run(self, pe_id: str) -> None:
        place, program, call = self._foreseen.pop(pe_id)
        if program is None:
            self._run_at(place, call)
        else:
            self._begin(place, program, call)

    def _begin(self, place: int, program: ForeseenProgram, call: KernelCall) -> None:
        known = self._took.setdefault(program.kind, [])
        if None in known:
            self._run_at(place, call)
            return
        took = _fitting(known, program)
        if took is None:
            known.append(self._run_apart(place, call))
        elif not self._closed.checks_next:
            self._do(place, program, took)
        else:
            again = self._run_apart(place, call)
            if again is None or not again.is_like(took):
                self._session.clock.mark_broken()
                got = "another time or outcome than those of an equal program of the launch"
                fix = "run with --exact events, and report the kernel"
                raise KbError(f"{program.line} on {self.pe_ids[place]}", got, "the same", fix)

    def _run_at(self, place: int, call: KernelCall) -> None:
        runner = self._runners[self.pe_ids[place]] = self._runner_at(place, call, self._play)
        runner.start()

    def _run_apart(self, place: int, call: KernelCall) -> Took | None:
        """Run the program at *place* to its end, as nothing can meet it. None where others need not do the same."""
        clock, n_before, pe = self._session.clock, len(self.commands), self._pes[place]
        began_ps = clock.now_ps
        with clock.apart():
            self._run_at(place, call)
            clock.run_out()
            ran_ps = clock.now_ps
        runner, self._apart = self._apart, None
        if runner is None:
            clock.call_at(ran_ps, _do_nothing, None, pe.tickets)  # it is stuck, and the clock has to come there
            return None
        self._ends_at(runner.end_ps, pe, None)
        if len(self.commands) != n_before + 1 or self.commands[-1].outcome.moved:
            return None
        done, command = self.commands[-1], self.commands[-1].work.command
        if command.t_done_ps != runner.end_ps:
            return None
        return Took(began_ps, runner.end_ps - began_ps, done.begin_ps - began_ps, done.outcome, command)

    def _do(self, place: int, program: ForeseenProgram, took: Took) -> None:
        """The program at *place* does what another one of its kind did, from now on."""
        session, pe, shape = self._session, self._pes[place], program.shape
        clock = session.clock
        for mark in program.marks:
            self.memory.pending.mark(*mark)
        self.notes.count()
        seq, first_op = session.next_command_seq(), session.take_op_ids(program.plan.n_stages)
        submitted = SubmittedCommand(command_seq=seq, pe=pe.pe_id, line=program.line, command=program.command)
        complete = pe.scheduler.complete
        command = CommandInFlight(submitted, program.plan, first_op, complete, addresses=program.addresses)
        command.t_call_ps = clock.now_ps
        work = pe.scheduler.known_work(command)
        assert work is not None  # that of an equal PE was closed
        if session.recorder is None:
            self._works[pe.pe_id] = [work]
        else:
            work.place_again(command)
        begin_ps, end_ps = clock.now_ps + took.fed_ps, clock.now_ps + took.duration_ps
        shape.footprint.apply(took.outcome, begin_ps)
        self._closed.take((shape.known,), 1)
        self.commands.append(NotedCommand(work, begin_ps, shape.footprint, shape.known, took.outcome))
        session.tell_again((command,))
        recorder = session.recorder
        if recorder is not None and took.outcome.rows is not None:
            command.close_like(took.command, clock.now_ps - took.began_ps)
            recorder.on_issue(command)
            span_ps = begin_ps, begin_ps + took.outcome.duration_ps
            recorder.expect(command, took.outcome.rows, span_ps, shape.footprint.memories)
        self._ends_at(end_ps, pe, command)

    def _ends_at(self, end_ps: int, pe: ProcessingElement, command: CommandInFlight | None) -> None:
        """The program on *pe* ends at *end_ps*, and so does *command*, where the program did not run."""
        self._session.clock.call_at(end_ps, self._finish, (pe.pe_id, command), pe.tickets)

    def _ended(self, runner: KernelRunner) -> None:
        if self._session.clock.is_apart:
            self._apart = self._runners.pop(runner.pe.pe_id)
        else:
            super()._ended(runner)

    def _finish(self, ending: tuple[str, CommandInFlight | None]) -> None:
        """The program on a PE ends now, and so does its command, where the program did not run."""
        pe_id, command = ending
        now_ps = self._session.clock.now_ps
        if command is not None:
            command.end_closed()
            command.end(now_ps)
        self.unfinished -= 1
        self._record(pe_id, self._target_ps[pe_id], self._start_ps[pe_id], now_ps)
        self._end(pe_id)


def _fitting(known: Sequence[Took | None], program: ForeseenProgram) -> Took | None:
    """What of *known*, of other programs of its kind, *program* takes, too, by what the log has of its transfers."""
    fits = program.shape.footprint.fits
    for each in known:
        if each is not None and fits(each.outcome):
            return each
    return None


def _do_nothing(_: None) -> None:
    """An entry of the clock that only takes time."""
