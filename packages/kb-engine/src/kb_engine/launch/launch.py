"""Launch: the programs of one kernel on their PEs, from the arrival of the launch at each PE until all are done."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from kb_engine.program.pe import ProcessingElement
from kb_engine.program.runner import KernelCall, KernelRunner
from kb_engine.program.session import Session
from kb_messages import KernelEnd, KernelStart


class LaunchResult(Struct, frozen=True, kw_only=True):
    """The times of one finished launch, in picoseconds.

    The host called at `call_ps`, and the last answer reached it at `response_ps`. The first kernel began at `start_ps`
    and the last one ended at `end_ps`; `pe_start_ps` and `pe_end_ps` hold the times of each PE, by id.

    All kernels were to begin at `target_start_ps`. `late_ps` holds the delay of each PE that the launch reached after
    that time. Without a host, all kernels begin at the call, and the answer comes at the last end.
    """

    call_ps: int
    target_start_ps: int
    start_ps: int
    end_ps: int
    response_ps: int
    pe_start_ps: dict[str, int]
    pe_end_ps: dict[str, int]
    late_ps: dict[str, int] = {}


class Launch:
    """One launch: its kernel runners by PE id, and the start of each."""

    def __init__(
        self,
        number: int,
        session: Session,
        pes: Sequence[ProcessingElement],
        call: KernelCall,
    ) -> None:
        self.number = number
        self.runners = {
            pe.pe_id: KernelRunner(session, pe, call, (place, len(pes)), self._ended) for place, pe in enumerate(pes)
        }
        self.unfinished = len(pes)
        self._called_ps = session.clock.now_ps
        self._session = session
        self._target_ps: dict[str, int] = {}
        self._start_ps: dict[str, int] = {}
        self._done: dict[str, Callable[[], None]] = {}

    def reach(self, pe_id: str, target_ps: int, done: Callable[[], None]) -> None:
        """The launch reaches PE *pe_id* now. Its kernel begins at *target_ps*, or now if that time has passed.

        *done()* is called when the kernel has returned and all its commands are done.
        """
        clock = self._session.clock
        self._target_ps[pe_id] = target_ps
        self._done[pe_id] = done
        clock.call_at(max(clock.now_ps, target_ps), self._start, pe_id)

    def has_begun(self, pe_id: str) -> bool:
        """Whether the kernel on PE *pe_id* was started."""
        return pe_id in self._start_ps

    def result(self, call_ps: int, response_ps: int) -> LaunchResult:
        """The times of this finished launch. The host called at *call_ps* and had the answer at *response_ps*."""
        ends = {pe_id: runner.end_ps for pe_id, runner in self.runners.items()}
        starts = {pe_id: self._start_ps[pe_id] for pe_id in self.runners}
        return LaunchResult(
            call_ps=call_ps,
            target_start_ps=min(self._target_ps.values()),
            start_ps=min(starts.values()),
            end_ps=max(ends.values()),
            response_ps=response_ps,
            pe_start_ps=starts,
            pe_end_ps=ends,
            late_ps={pe: late for pe, start in starts.items() if (late := start - self._target_ps[pe])},
        )

    def _start(self, pe_id: str) -> None:
        session = self._session
        now = self._start_ps[pe_id] = session.clock.now_ps
        if session.tracer is not None:
            late = now - self._target_ps[pe_id]
            session.tracer.launch_event(KernelStart(t_ps=now, launch=self.number, pe=pe_id, late_ps=late))
        self.runners[pe_id].start()

    def _ended(self, runner: KernelRunner) -> None:
        session, pe_id = self._session, runner.pe.pe_id
        self.unfinished -= 1
        if session.tracer is not None:
            session.tracer.launch_event(KernelEnd(t_ps=runner.end_ps, launch=self.number, pe=pe_id))
        if session.recorder is not None:
            times = self._called_ps, self._target_ps[pe_id], self._start_ps[pe_id], runner.end_ps
            session.recorder.tables.kernel_ended(pe_id, (self.number, *times))
        self._done.pop(pe_id)()
