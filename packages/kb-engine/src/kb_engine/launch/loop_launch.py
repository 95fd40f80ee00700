"""LoopLaunch: a launch that has one program on each of its PEs, of whose loop each turn is known before it begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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

    A program has taken a turn when it begins it, and the turn has ended when the next one begins.
    """

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
        self._turns = [_NONE] * len(pes)
        self._times: dict[int, tuple[int, int]] = {}
        self._took: Callable[[], None] = _ignore

    def watch(self, took: Callable[[], None]) -> None:
        """Call *took* when PEs have taken turns."""
        self._took = took

    def fold(self, over: FoldPass) -> None:
        """As FoldPass says. Raises NotFolded while a program is not in its loop."""
        if _NONE in self._turns:
            raise NotFolded
        for runner in self._runners.values():
            over.part(runner)
        self._turns = [over.program(number) for number in self._turns]

    @property
    def streams(self) -> list[CommandStream]:
        """The streams of the PEs."""
        return self._streams

    @property
    def running(self) -> list[int]:
        """The turns that PEs are at, in the order of the PEs."""
        return [number for number in self._turns if number != _NONE]

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
        played, clock = self.templates.watch(), self._session.clock
        run = Repetition(port, before.row(place))
        before.repeat(run)
        number = place
        while number < self.templates.total:
            run = run.followed(number, turn.row(number), played.issue)
            played.begin(turn, run)
            self._turns[place], self._times[number] = number, (clock.now_ps, _NONE)
            self.taken.append(number)
            self._took()
            turn.repeat(run)
            last, self._turns[place] = self._turns[place], _NONE  # a jump may have made it a later one
            self._times[last] = self._times[last][0], clock.now_ps
            number = last + self._n_pes
        after.repeat(run.followed(place, after.row(place), None))


def _ignore() -> None:
    """Nobody wants to know."""
