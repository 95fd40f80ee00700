"""LaunchAtOnce: a launch of foreseen programs on PEs that another launch reached, and whose course is known from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kb_engine.block.in_flight import CommandInFlight
from kb_engine.closed.closed_commands import ClosedCommands
from kb_engine.launch.answer_tree import Answers
from kb_engine.launch.foreseen_launch import ForeseenLaunch, Took
from kb_engine.launch.foreseen_programs import Programs
from kb_engine.launch.launch_course import LaunchCourse
from kb_engine.launch.launch_key import LaunchKey
from kb_engine.observe.run_tables import Message
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.runner import KernelCall
from kb_engine.program.session import Session
from kb_messages import Response


class LaunchAtOnce(ForeseenLaunch):
    """A launch whose programs are all foreseen, and whose messages take *course*.

    All programs that begin in one picosecond do so in one entry of the clock, and one entry more ends all of them and
    brings the answer to the host. Where a program does what others need not do, the messages are sent after all, as at
    their times.
    """

    def __init__(
        self,
        where: tuple[int, Session, Sequence[ProcessingElement]],
        call: KernelCall,
        key: LaunchKey,
        programs: Programs,
        closed: ClosedCommands,
        course: LaunchCourse,
    ) -> None:
        super().__init__(where, call, key, programs, closed)
        self._course = course
        self._durations_ps: set[int] = set()
        self._ending: dict[str, tuple[int, CommandInFlight | None]] = {}
        self._is_sent = False
        self._pe_of = dict(zip(self.pe_ids, self._pes, strict=True))
        self._send_late: Callable[[], None]
        self._answered: Callable[[Response], None]

    def called(self, send_late: Callable[[], None], answered: Callable[[Response], None]) -> None:
        """As ForeseenCall."""
        self._send_late, self._answered = send_late, answered
        clock, call_ps = self._session.clock, self._called_ps
        self._target_ps = {pe_id: call_ps + after_ps for pe_id, after_ps in self._course.targets_ps.items()}
        for after_ps, pe_ids in self._course.begins:
            clock.call_at(call_ps + after_ps, self._begin_together, pe_ids)

    def reach(self, pe_id: str, target_ps: int, done: Callable[[], None]) -> None:
        """As Launch. What begins at *target_ps* is known."""
        self._done[pe_id] = done

    def _begin_together(self, pe_ids: Sequence[str]) -> None:
        now_ps, starts_ps = self._session.clock.now_ps, self._start_ps
        try:
            for pe_id in pe_ids:
                starts_ps[pe_id] = now_ps
                self._run(pe_id)
        except BaseException:
            if not self._is_sent:
                self._tell(self._course.requests, self._called_ps)
            raise
        if self._is_sent or not self.has_begun:
            return
        course, call_ps = self._course, self._called_ps
        if len(self._durations_ps) == 1:
            (later_ps,) = self._durations_ps
            later_ps += call_ps
            answers = course.answers_at_once
        else:
            later_ps = 0
            answers = course.answers({pe_id: end_ps for pe_id, (end_ps, _) in self._ending.items()})
        self._session.clock.call_at(answers.answered_ps + later_ps, self._end_together, (answers, later_ps))

    def _run_apart(self, place: int, call: KernelCall) -> Took | None:
        took = super()._run_apart(place, call)
        if took is not None:
            self._durations_ps.add(took.duration_ps)
        elif not self._is_sent:
            self._send()
        return took

    def _ends_at(self, end_ps: int, pe: ProcessingElement, command: CommandInFlight | None) -> None:
        if self._is_sent:
            super()._ends_at(end_ps, pe, command)
        else:
            self._ending[pe.pe_id] = end_ps, command

    def _send(self) -> None:
        """Send the messages after all: each program ends, and its PE answers, in an entry of its own."""
        self._is_sent = True
        self._send_late()
        for pe_id, (end_ps, command) in self._ending.items():
            super()._ends_at(end_ps, self._pe_of[pe_id], command)

    def _end_together(self, answered: tuple[Answers, int]) -> None:
        """The last of these answers, which are so many picoseconds later than they say, is at the host now."""
        answers, later_ps = answered
        self._tell(self._course.requests, self._called_ps)
        starts_ps, targets_ps, ends_ps = self._start_ps, self._target_ps, self._end_ps
        for pe_id in answers.ends:
            end_ps, command = self._ending[pe_id]
            if command is not None:
                command.end_closed()
                command.end(end_ps)
            ends_ps[pe_id] = end_ps
            self._record(pe_id, targets_ps[pe_id], starts_ps[pe_id], end_ps)
        self.unfinished = 0
        self._tell(answers.messages, later_ps)
        self._answered(Response(number=0, refusal=None))

    def _tell(self, messages: Sequence[Message], ps: int) -> None:
        recorder = self._session.recorder
        if recorder is not None:
            recorder.tables.messages_arrived(messages, self.number, ps)
