"""WatchedLaunch: a launch that keeps what it does, so that others with its key can do the same at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from kb_engine.closed.closed_commands import NotedCommand
from kb_engine.launch.answer_tree import AnswerTree
from kb_engine.launch.known_launch import Begin, KnownLaunch
from kb_engine.launch.launch import LaunchResult
from kb_engine.launch.launch_course import LaunchCourse, course_of
from kb_engine.launch.launch_key import LaunchKey
from kb_engine.launch.noted_port import NotedMemory, NotedPort, Notes
from kb_engine.launch.pe_launch import PeLaunch
from kb_engine.observe.run_tables import ToldRows
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.pe_port import PePort
from kb_engine.program.port import ProgramPort
from kb_engine.program.runner import KernelCall, run_kernel
from kb_engine.program.session import Session
from kb_engine.program.tensors import TEXTS_MADE


class WatchedLaunch(PeLaunch):
    """A launch with *key* that runs, and may become known.

    `known` is a launch that did what this one is to do, where that is to be checked.
    """

    def __init__(
        self,
        where: tuple[int, Session, Sequence[ProcessingElement]],
        call: KernelCall,
        key: LaunchKey,
        known: KnownLaunch | None,
    ) -> None:
        super().__init__(*where, call, self._play)
        self.key = key
        self.known = known
        self.notes = Notes()
        self.memory = NotedMemory(where[1].memory, self.notes)
        self.commands: list[NotedCommand] = []
        self._find_answers: Callable[[], AnswerTree | None] = _no_answers
        self.begin: Begin
        self._texts_made = 0

    def begins(self, begin: Begin) -> None:
        """The launch is called now, where the chip is at *begin*."""
        self.begin = begin
        self._texts_made = TEXTS_MADE.n

    def goes_over(self, find_answers: Callable[[], AnswerTree | None]) -> None:
        """The launch goes over a host. *find_answers* finds the ways of the answers of its PEs, if they are known."""
        self._find_answers = find_answers

    def ends(self) -> None:
        """The launch has ended."""
        if TEXTS_MADE.n != self._texts_made:
            self.notes.leave()

    def course(self, result: LaunchResult, told: ToldRows) -> LaunchCourse | None:
        """As `course_of`, of this launch, which has ended with *result*. *told* are its rows in the log.

        None where it went over no host, too.
        """
        tree = self._find_answers()
        if tree is None:
            return None
        moments = self._target_ps, self._start_ps, self._end_ps
        cpus = {pe.pe_id: pe.cpu.node_id for pe in self._pes}
        return course_of(moments, result, None if self._session.recorder is None else told, tree, cpus)

    def _play(self, call: KernelCall, port: PePort) -> None:
        run_kernel(call, cast(ProgramPort, NotedPort(port, self.memory, self.notes)))


def _no_answers() -> AnswerTree | None:
    """Those of a launch that goes over no host."""
    return None
