"""PeLaunch: a launch that has one program on each of its PEs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from kb_engine.launch.launch import Launch
from kb_engine.program.command_stream import CommandStream
from kb_engine.program.grid import Program
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.runner import KernelCall, KernelRunner, Play, run_kernel
from kb_engine.program.session import Session


class PeLaunch(Launch):
    """The PE at place n of *pes* runs program n. It begins with the launch.

    With `has_all_runners`, there is a runner for each PE from the begin of the launch on.
    """

    has_all_runners: ClassVar[bool] = True

    def __init__(
        self,
        number: int,
        session: Session,
        pes: Sequence[ProcessingElement],
        call: KernelCall,
        play: Play = run_kernel,
    ) -> None:
        super().__init__(number, session, pes, len(pes))
        self._pes = pes
        self._streams: list[CommandStream] = []
        self._runners: dict[str, KernelRunner] = {}
        if self.has_all_runners:
            self._runners = {pe.pe_id: self._runner_at(place, call, play) for place, pe in enumerate(pes)}

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

    def _runner_at(self, place: int, call: KernelCall, play: Play) -> KernelRunner:
        pe, pes = self._pes[place], self._pes
        program, stream = Program(place, len(pes)), CommandStream(pe)
        self._streams.append(stream)
        return KernelRunner(self._session, pe, call, program, stream, self._ended, play=play)

    def _ended(self, runner: KernelRunner) -> None:
        pe_id = runner.pe.pe_id
        del self._runners[pe_id]
        self.unfinished -= 1
        self._record(pe_id, self._target_ps[pe_id], self._start_ps[pe_id], runner.end_ps)
        self._end(pe_id)
