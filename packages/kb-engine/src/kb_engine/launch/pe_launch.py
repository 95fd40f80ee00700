"""PeLaunch: a launch that has one program on each of its PEs."""

from __future__ import annotations

from collections.abc import Sequence

from kb_engine.launch.launch import Launch
from kb_engine.program.command_stream import CommandStream
from kb_engine.program.grid import Program
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.runner import KernelCall, KernelRunner
from kb_engine.program.session import Session


class PeLaunch(Launch):
    """The PE at place n of *pes* runs program n. It begins with the launch."""

    def __init__(
        self,
        number: int,
        session: Session,
        pes: Sequence[ProcessingElement],
        call: KernelCall,
    ) -> None:
        super().__init__(number, session, pes, len(pes))
        self._pes = pes
        self._runners = {pe.pe_id: self._runner_at(place, call) for place, pe in enumerate(pes)}

    @property
    def runners(self) -> Sequence[KernelRunner]:
        """Those that have not ended."""
        return list(self._runners.values())

    @property
    def queued(self) -> int:
        """None: every program has its PE."""
        return 0

    def _run(self, pe_id: str) -> None:
        self._runners[pe_id].start()

    def _runner_at(self, place: int, call: KernelCall) -> KernelRunner:
        pe, program = self._pes[place], Program(place, len(self._pes))
        return KernelRunner(self._session, pe, call, program, CommandStream(pe), self._ended)

    def _ended(self, runner: KernelRunner) -> None:
        pe_id = runner.pe.pe_id
        del self._runners[pe_id]
        self.unfinished -= 1
        self._record(pe_id, self._target_ps[pe_id], self._start_ps[pe_id], runner.end_ps)
        self._end(pe_id)
