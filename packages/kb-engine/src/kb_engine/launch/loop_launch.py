"""LoopLaunch: a launch that has one program on each of its PEs, of whose loop each turn is known before it begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from kb_engine.block.fold_pass import FoldPass, NotFolded
from kb_engine.launch.grid_launch import ProgramRun
from kb_engine.launch.pe_launch import PeLaunch
from kb_engine.program.command_stream import CommandStream
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.pe_port import PePort
from kb_engine.program.runner import KernelCall
from kb_engine.program.session import Session
from kb_engine.template import LoopTemplates, Repetition

_NONE = -1


class LoopLaunch(PeLaunch):
    """The programs repeat *templates*, without their kernel. Turns of their loops stand where a grid has its programs.

    A program has taken a turn when it begins it. The turn has ended when a later one begins, or the loop is over, and
    all commands of the turn are done.
    """

    why_not: ClassVar[None] = None
    """Every turn has a template."""

    def __init__(
        self,
        number: int,
        session: Session,
        pes: Sequence[ProcessingElement],
        call: KernelCall,
        templates: LoopTemplates,
    ) -> None:
        super().__init__(number, session, pes, call, self._play)
        self.templates = templates
        self.taken: list[int] = []
        self._n_pes = len(pes)
        self._open: list[list[Repetition]] = [[] for _ in pes]
        self._times: dict[int, tuple[int, int]] = {}
        self._took: Callable[[], None] = _ignore

    @property
    def will_end(self) -> bool:
        """Yes: the turns are known."""
        return True

    def watch(self, took: Callable[[], None]) -> None:
        """Call *took* when PEs have taken turns."""
        self._took = took

    def fold(self, over: FoldPass) -> None:
        """As FoldPass says, but for the turns themselves. Raises NotFolded while a program is not in its loop."""
        if not self.is_in_loop:
            raise NotFolded
        for runner in self._runners.values():
            over.part(runner)
        for place in self._open:
            over.same(len(place))
            for run in place:
                over.program(run.number)

    @property
    def streams(self) -> list[CommandStream]:
        """The streams of the PEs."""
        return self._streams

    @property
    def running(self) -> list[int]:
        """The turns that have not ended, in the order of the PEs."""
        return [run.number for place in self._open for run in place]

    @property
    def going_on(self) -> list[int]:
        """The turns that PEs are at, in the order of the PEs."""
        return [place[-1].number for place in self._open if place]

    @property
    def is_in_loop(self) -> bool:
        """Whether all programs are at a turn."""
        return all(self._open)

    @property
    def begun(self) -> list[int]:
        """As `running`: a turn begins when it is taken."""
        return self.running

    @property
    def queued(self) -> int:
        """The number of turns that have not been taken."""
        return self.templates.total - len(self.taken)

    def run_of(self, number: int) -> ProgramRun:
        """Turn *number*, which was taken. Its end is -1 if it has not ended."""
        return ProgramRun(number, self.pe_ids[number % self._n_pes], *self._times[number])

    def skip(self, ran: Sequence[ProgramRun]) -> None:
        """The turns of *ran*, in the order in which they were taken, have run, or begun to."""
        for number, _, start_ps, end_ps in ran:
            if number not in self._times:
                self.taken.append(number)
            self._times[number] = start_ps, end_ps

    def _play(self, _: KernelCall, port: PePort) -> None:
        place, (before, turn, after) = port.program_id, self.templates.parts
        played = self.templates.watch()
        run = Repetition(port, before.row(place))
        before.repeat(run)
        number = place
        while number < self.templates.total:
            run = run.followed(number, turn.row(number), played.issue)
            played.begin(turn, run)
            self._end_turns(place)
            self._open[place].append(run)
            self._times[number] = self._session.clock.now_ps, _NONE
            self.taken.append(number)
            self._took()
            turn.repeat(run)
            number = run.number + self._n_pes  # a jump may have made it a later one
        self._end_turns(place)
        self._open[place].clear()
        after.repeat(run.followed(place, after.row(place), None))

    def _end_turns(self, place: int) -> None:
        """Those turns of the program at *place* end now whose commands are done."""
        still = []
        for run in self._open[place]:
            if run.is_done:
                self._times[run.number] = self._times[run.number][0], self._session.clock.now_ps
            else:
                still.append(run)
        self._open[place] = still


def _ignore() -> None:
    """Nobody wants to know."""
