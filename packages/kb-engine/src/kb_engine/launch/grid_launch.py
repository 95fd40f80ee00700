"""GridLaunch: a launch whose programs are numbered along a grid. Each PE runs one program after the other.

Design: docs/design/launch-and-host.md
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from simpy.events import NORMAL

from kb_engine.block.state_visitor import StateVisitor
from kb_engine.launch.launch import Launch, ProgramTimes
from kb_engine.program.command_stream import CommandStream
from kb_engine.program.grid import Grid, Program
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.runner import KernelCall, KernelRunner, Play, run_kernel
from kb_engine.program.session import Session


class ProgramQueue(ABC):
    """The programs of a grid that no PE has taken yet, `left` of them."""

    def __init__(self, count: int) -> None:
        self.left = count

    def take(self, place: int) -> int | None:
        """Removes the next program of the PE at *place* of the launch. Returns its number, or None if there is none."""
        number = self._next(place)
        if number is not None:
            self.left -= 1
        return number

    @abstractmethod
    def _next(self, place: int) -> int | None:
        """Returns the number of the program that `take` removes."""


class InOrder(ProgramQueue):
    """Gives the programs in order to the PEs that ask."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self._count = count

    def _next(self, place: int) -> int | None:
        return self._count - self.left if self.left else None


class RoundRobin(ProgramQueue):
    """Gives the programs p, p + P, p + 2 P and so on to PE p of P."""

    def __init__(self, count: int, n_pes: int) -> None:
        super().__init__(count)
        self._of_pe = [iter(range(place, count, n_pes)) for place in range(n_pes)]

    def _next(self, place: int) -> int | None:
        return next(self._of_pe[place], None)


def queue_of(grid: Grid, n_pes: int) -> ProgramQueue:
    """Returns the queue for the schedule of *grid* on *n_pes* PEs."""
    return InOrder(grid.n_programs) if grid.schedule == "dynamic" else RoundRobin(grid.n_programs, n_pes)


_LATE: Final = NORMAL + 1
"""The priority of entries that run after all other entries of their picosecond."""


class ProgramRun(NamedTuple):
    """A program that a PE took at `start_ps`. Its commands were done at `end_ps`, which is -1 while they are not."""

    number: int
    pe_id: str
    start_ps: int
    end_ps: int


class _PeQueue:
    """One PE of the launch, with its place, the `stream` of its commands, and its programs that have not ended."""

    def __init__(self, place: int, pe: ProcessingElement) -> None:
        self.place = place
        self.pe = pe
        self.stream = CommandStream(pe)
        self.runners: dict[int, KernelRunner] = {}
        self.has_run = False
        self._is_out_of_work = False

    @property
    def is_done(self) -> bool:
        """Whether no program is left for the PE, and all its programs have ended."""
        return self._is_out_of_work and not self.runners

    def visit_state(self, over: StateVisitor) -> None:
        """Hands the state of the PE's programs to *over*, and renumbers them."""
        over.same(self.place, self.has_run, self._is_out_of_work, len(self.runners))
        for runner in self.runners.values():
            over.part(runner)
        self.runners = {over.program(number): runner for number, runner in self.runners.items()}

    def begin(self, number: int, runner: KernelRunner) -> None:
        """Notes that the PE has taken program *number*."""
        self.has_run = True
        self.runners[number] = runner

    def end(self) -> None:
        """Notes that no program is left for the PE."""
        self._is_out_of_work = True


class GridLaunch(Launch):
    """The programs of *grid*. A PE that is free takes the next one from a queue.

    A PE is free when the kernel of its program has returned. Then it takes the next program, which costs PE_CPU its
    `program_ps`. Commands of the program before may still be in flight then. Where several PEs are free at one
    picosecond, they take programs in the order of *pes*.

    *play* makes the calls of a program. `is_known(number)` says whether *play* knows all calls of that program ahead.
    """

    def __init__(
        self,
        number: int,
        session: Session,
        pes: Sequence[ProcessingElement],
        call: KernelCall,
        grid: Grid,
        play: Play = run_kernel,
        is_known: Callable[[int], bool] = lambda _: False,
        called_ps: int | None = None,
    ) -> None:
        super().__init__(number, session, pes, grid.n_programs, called_ps)
        self._call = call
        self._play = play
        self._is_known = is_known
        self._grid = grid
        self._queue = queue_of(grid, len(pes))
        self._pes = {pe.pe_id: _PeQueue(place, pe) for place, pe in enumerate(pes)}
        self._free: list[_PeQueue] = []
        self._taken_ps: dict[int, tuple[int, int]] = {}
        self._times: list[ProgramTimes | None] = [None] * grid.n_programs
        self._n_recorded = 0
        self.taken: list[int] = []
        self._took: Callable[[], None] | None = None

    def watch(self, took: Callable[[], None]) -> None:
        """Calls *took* whenever PEs have taken programs."""
        self._took = took

    def visit_state(self, over: StateVisitor) -> None:
        """Hands the state of the PEs to *over*. `skip` accounts for programs in the queue and programs that have
        ended."""
        over.same(len(self._free))
        for each in self._pes.values():
            each.visit_state(over)

    @property
    def grid_sizes(self) -> tuple[int, ...]:
        """The sizes of the grid."""
        return self._grid.sizes

    @property
    def streams(self) -> list[CommandStream]:
        """The streams of the PEs."""
        return [each.stream for each in self._pes.values()]

    @property
    def running(self) -> list[int]:
        """The numbers of the programs that were taken and have not ended, in the order of their PEs."""
        return [number for each in self._pes.values() for number in each.runners]

    @property
    def begun(self) -> list[int]:
        """The numbers of the programs in `running` whose kernels have begun."""
        return [number for each in self._pes.values() for number, runner in each.runners.items() if runner.has_begun]

    def run_of(self, number: int) -> ProgramRun:
        """Returns the times of program *number*, which a PE has taken. The end is -1 while the program has not
        ended."""
        times = self._times[number]
        if times is not None:
            return ProgramRun(number, times.pe_id, times.start_ps, times.end_ps)
        pe_id = next(pe_id for pe_id, each in self._pes.items() if number in each.runners)
        return ProgramRun(number, pe_id, self._taken_ps[number][1], -1)

    def skip(self, ran: Sequence[ProgramRun]) -> None:
        """Enters the programs of *ran*, in the order in which PEs took them, although nothing simulated them."""
        for number, pe_id, start_ps, end_ps in ran:
            if number not in self._taken_ps:
                taken = self._queue.take(self._pes[pe_id].place)
                assert taken == number, f"program {taken} comes next, and not {number}"
                self.taken.append(number)
                self._taken_ps[number] = start_ps, start_ps
            if end_ps >= 0:
                self._times[number] = ProgramTimes(pe_id=pe_id, start_ps=start_ps, end_ps=end_ps)
                self.unfinished -= 1
        self._record_in_order()

    @property
    def runners(self) -> Sequence[KernelRunner]:
        """The programs that were taken and have not ended."""
        return [runner for each in self._pes.values() for runner in each.runners.values()]

    @property
    def will_end(self) -> bool:
        """Whether all programs that have a PE end for certain, because all their calls are known."""
        return not self.unfinished or all(map(self._is_known, self.running))

    @property
    def queued(self) -> int:
        """The number of programs in the queue."""
        return self._queue.left

    def _programs(self) -> tuple[ProgramTimes, ...]:
        return tuple(each for each in self._times if each is not None)

    def _run(self, pe_id: str) -> None:
        self._is_free(self._pes[pe_id])

    def _is_free(self, queue: _PeQueue) -> None:
        """Has the PE of *queue* take a program when everything else of this picosecond has happened."""
        if not self._free:
            clock = self._session.clock
            clock.push((clock.now_ps, _LATE, next(clock.event_order), self._take, None))
        self._free.append(queue)

    def _take(self, _: None) -> None:
        free, self._free = self._free, []
        for queue in sorted(free, key=lambda each: each.place):
            number = self._queue.take(queue.place)
            if number is not None:
                self._begin(queue, number)
            else:
                queue.end()
                self._end_if_done(queue)
        if self._took is not None:
            self._took()

    def _begin(self, queue: _PeQueue, number: int) -> None:
        clock, pe, program = self._session.clock, queue.pe, Program(number, self.total, self._grid)
        now = clock.now_ps
        self.taken.append(number)
        self._taken_ps[number] = now if queue.has_run else self._target_ps[pe.pe_id], now
        runner = KernelRunner(
            self._session,
            pe,
            self._call,
            program,
            self.exchange,
            queue.stream,
            self._ended,
            self._returned,
            self._play,
        )
        queue.begin(number, runner)
        clock.call_at(now + pe.cpu.program_ps(), runner.start, None, pe.event_order)

    def _returned(self, runner: KernelRunner) -> None:
        self._is_free(self._pes[runner.pe.pe_id])

    def _ended(self, runner: KernelRunner) -> None:
        number, queue = runner.program.number, self._pes[runner.pe.pe_id]
        del queue.runners[number]
        self.unfinished -= 1
        start_ps = self._taken_ps[number][1]
        self._times[number] = ProgramTimes(pe_id=runner.pe.pe_id, start_ps=start_ps, end_ps=runner.end_ps)
        self._record_in_order()
        self._end_if_done(queue)

    def _record_in_order(self) -> None:
        """Logs the ended programs up to the first one that has not ended, so that the log has them in order."""
        while self._n_recorded < self.total and (times := self._times[self._n_recorded]) is not None:
            target_ps, start_ps = self._taken_ps.pop(self._n_recorded)
            self._record(times.pe_id, target_ps, start_ps, times.end_ps)
            self._n_recorded += 1

    def _end_if_done(self, queue: _PeQueue) -> None:
        if queue.is_done:
            self._end(queue.pe.pe_id)
