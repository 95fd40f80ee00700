"""Launch: the programs of one kernel on their PEs, from the arrival of the launch at each PE until all are done.

Design: docs/design/launch-and-host.md
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from msgspec import Struct

from kb_engine.program.command_stream import CommandStream
from kb_engine.program.grid import Program
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.runner import KernelCall, KernelRunner
from kb_engine.program.session import Session
from kb_engine.sync.exchange import Exchange
from kb_messages import KernelEnd, KernelStart


class ProgramTimes(Struct, frozen=True, kw_only=True):
    """The picoseconds at which the PE `pe_id` took a program of a grid, and at which all its commands were done."""

    pe_id: str
    start_ps: int
    end_ps: int


class LaunchResult(Struct, frozen=True, kw_only=True):
    """The times of one finished launch, in picoseconds.

    The host called at `call_ps`, and the last answer reached it at `response_ps`. The first kernel began at `start_ps`
    and the last one ended at `end_ps`; `pe_start_ps` and `pe_end_ps` hold the times of each PE, by id. The PE that
    began first had started up for `startup_ps` before, which is no part of the time from `start_ps` to `end_ps`.

    All kernels were to begin at `target_start_ps`. `late_ps` holds the delay of each PE that the launch reached after
    that time. Without a host, all kernels begin at the call, and the answer comes at the last end. `programs` has
    the times of each program of a grid, in order, and `grid` its sizes along the three axes; a launch without a grid
    has one program on each PE. `stream` is the number of the launch's stream, and None without one. A PE that another
    launch had at the target begins when that launch leaves it, which is not late.
    """

    call_ps: int
    target_start_ps: int
    start_ps: int
    end_ps: int
    response_ps: int
    pe_start_ps: dict[str, int]
    pe_end_ps: dict[str, int]
    late_ps: dict[str, int] = {}
    programs: tuple[ProgramTimes, ...] = ()
    grid: tuple[int, ...] = ()
    startup_ps: int = 0
    stream: int | None = None


class Launch(ABC):
    """One launch on *pes*: when each PE begins and ends, and how many of the `total` programs are `unfinished`.

    `exchange` has the messages between its programs. The host called at *called_ps*, by default now.
    """

    def __init__(
        self,
        number: int,
        session: Session,
        pes: Sequence[ProcessingElement],
        total: int,
        called_ps: int | None = None,
    ) -> None:
        self.number = number
        self.pe_ids = [pe.pe_id for pe in pes]
        self.total = self.unfinished = total
        self.exchange = Exchange(total, len(pes), session.signal_number)
        self._called_ps = session.clock.now_ps if called_ps is None else called_ps
        self._session = session
        self._target_ps: dict[str, int] = {}
        self._free_ps: dict[str, int] = {}
        self._start_ps: dict[str, int] = {}
        self._end_ps: dict[str, int] = {}
        self._startup_ps = {pe.pe_id: pe.cpu.startup_ps() for pe in pes}
        self._done: dict[str, Callable[[], None]] = {}

    @property
    @abstractmethod
    def runners(self) -> Sequence[KernelRunner]:
        """The programs that have a PE, in the order of the PEs."""

    @property
    @abstractmethod
    def queued(self) -> int:
        """The number of programs that no PE has taken yet."""

    @property
    def grid_sizes(self) -> tuple[int, ...]:
        """The sizes of the grid of the launch along its three axes; () without a grid."""
        return ()

    @property
    def n_ended(self) -> int:
        """The number of programs that have ended."""
        return self.total - self.unfinished

    @property
    def will_end(self) -> bool:
        """Whether all programs that have a PE end for certain."""
        return not self.unfinished

    @property
    def has_begun(self) -> bool:
        """Whether the launch has reached all PEs, and all programs that have a PE have begun."""
        return len(self._start_ps) == len(self.pe_ids) and all(runner.has_begun for runner in self.runners)

    def reach(self, pe_id: str, target_ps: int, done: Callable[[], None], free_ps: int | None = None) -> None:
        """Notes that the launch reaches PE *pe_id* now. The PE begins at *target_ps*, or now if that time has passed.

        The start-up time of PE_CPU comes before the begin, and delays the target too. `done()` is called when the PE
        has no program left to run, and all commands of its programs are done. *free_ps* is when the PE ended an earlier
        launch, if the launch waited for that.
        """
        clock = self._session.clock
        startup_ps = self._startup_ps[pe_id]
        self._target_ps[pe_id] = target_ps + startup_ps
        if free_ps is not None:
            self._free_ps[pe_id] = free_ps + startup_ps
        self._done[pe_id] = done
        clock.call_at(max(clock.now_ps, target_ps) + startup_ps, self._start, pe_id)

    def result(self, call_ps: int, response_ps: int, stream: int | None = None) -> LaunchResult:
        """Returns the times of this finished launch of *stream*, which the host called at *call_ps* and heard of at
        *response_ps*."""
        starts = {pe_id: self._start_ps[pe_id] for pe_id in self.pe_ids}
        first = min(starts, key=starts.__getitem__)
        due_ps = {pe: self._due_ps(pe) for pe in self.pe_ids} if self._free_ps else self._target_ps
        return LaunchResult(
            call_ps=call_ps,
            target_start_ps=min(self._target_ps.values()),
            start_ps=starts[first],
            end_ps=max(self._end_ps.values()),
            response_ps=response_ps,
            pe_start_ps=starts,
            pe_end_ps={pe_id: self._end_ps[pe_id] for pe_id in self.pe_ids},
            late_ps={pe: late for pe, start in starts.items() if (late := start - due_ps[pe])},
            programs=self._programs(),
            grid=self.grid_sizes,
            startup_ps=self._startup_ps[first],
            stream=stream,
        )

    def _due_ps(self, pe_id: str) -> int:
        """When PE *pe_id* was to begin: at the target, or when an earlier launch left the PE to this one."""
        return max(self._target_ps[pe_id], self._free_ps.get(pe_id, 0))

    def abandon(self, error: BaseException) -> None:
        """Ends the programs, because of *error*. A note on *error* names a program that cannot be ended."""
        going_on = [runner.kernel.waiting_at for runner in self.runners if not runner.abandon()]
        if going_on:
            error.add_note(
                f"{going_on[0]}: the kernel catches every exception, the end of its launch too, so its memory stays "
                "with the process; catch Exception instead"
            )

    def _programs(self) -> tuple[ProgramTimes, ...]:
        return ()

    def _start(self, pe_id: str) -> None:
        session = self._session
        now = self._start_ps[pe_id] = session.clock.now_ps
        if session.tracer is not None:
            late = now - self._due_ps(pe_id)
            session.tracer.launch_event(KernelStart(t_ps=now, launch=self.number, pe=pe_id, late_ps=late))
        self._run(pe_id)

    @abstractmethod
    def _run(self, pe_id: str) -> None:
        """Begins the programs of PE *pe_id*."""

    def _end(self, pe_id: str) -> None:
        """Notes that PE *pe_id* is done now."""
        session = self._session
        now = self._end_ps[pe_id] = session.clock.now_ps
        if session.tracer is not None:
            session.tracer.launch_event(KernelEnd(t_ps=now, launch=self.number, pe=pe_id))
        self._done.pop(pe_id)()

    def _record(self, pe_id: str, target_ps: int, start_ps: int, end_ps: int) -> None:
        """Logs a program that ran on PE *pe_id*."""
        recorder = self._session.recorder
        if recorder is not None:
            recorder.kernel_ended(pe_id, (self.number, self._called_ps, target_ps, start_ps, end_ps))


class PeLaunch(Launch):
    """A launch without a grid: the PE at place n of *pes* runs program n, from the begin of the launch."""

    def __init__(
        self,
        number: int,
        session: Session,
        pes: Sequence[ProcessingElement],
        call: KernelCall,
        called_ps: int | None = None,
    ) -> None:
        super().__init__(number, session, pes, len(pes), called_ps)
        self._pes = pes
        self._runners = {pe.pe_id: self._runner_at(place, call) for place, pe in enumerate(pes)}

    @property
    def runners(self) -> Sequence[KernelRunner]:
        """The programs that have not ended."""
        return list(self._runners.values())

    @property
    def queued(self) -> int:
        """Always 0, because every program has its PE."""
        return 0

    def _run(self, pe_id: str) -> None:
        self._runners[pe_id].start()

    def _runner_at(self, place: int, call: KernelCall) -> KernelRunner:
        pe, program = self._pes[place], Program(place, len(self._pes))
        return KernelRunner(self._session, pe, call, program, self.exchange, CommandStream(pe), self._ended)

    def _ended(self, runner: KernelRunner) -> None:
        pe_id = runner.pe.pe_id
        del self._runners[pe_id]
        self.unfinished -= 1
        self._record(pe_id, self._target_ps[pe_id], self._start_ps[pe_id], runner.end_ps)
        self._end(pe_id)
