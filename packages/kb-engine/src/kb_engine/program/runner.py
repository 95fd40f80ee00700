"""Runs one kernel on one PE, from its start until it has returned and all its commands are done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kb_engine.program.author_errors import authors_line, explain, is_authors_error
from kb_engine.program.commands import ProgramCommands
from kb_engine.program.coroutine import KernelCoroutine
from kb_engine.program.kernel_check import check_returned
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.pe_port import PePort
from kb_engine.program.port import FrontEnd, ProgramPort
from kb_engine.program.session import Session

Kernel = Callable[..., None]


class KernelCall(NamedTuple):
    """A kernel, its arguments after the first, the folder that its lines are relative to, and its language."""

    kernel: Kernel
    arguments: Sequence[Any]
    root: Path
    front_end: FrontEnd


class KernelRunner:
    """One program of a launch. *place* is (program id, number of programs).

    *done(runner)* is called at `end_ps`, when the kernel has returned and all its commands are done; from then on
    `has_ended` is true. `stopped_at` is the line at which a signal has ended the kernel, or "".
    """

    def __init__(
        self,
        session: Session,
        pe: ProcessingElement,
        call: KernelCall,
        place: tuple[int, int],
        done: Callable[[KernelRunner], None],
    ) -> None:
        self.pe = pe
        self.kernel = KernelCoroutine(session.clock, self._run, self._finish_if_idle)
        self.commands = ProgramCommands(session, pe, self.kernel, self._finish_if_idle)
        self.end_ps = 0
        self.has_ended = False
        self.stopped_at = ""
        self._port: ProgramPort = PePort(session, pe, self.commands, place, call.root)
        self._call = call
        self._clock = session.clock
        self._done = done

    def start(self) -> None:
        """Run the kernel from now on. Until the program ends, it alone reads the PE's completion queue."""
        self.pe.scheduler.completions.read_by(self.commands.take_completions)
        self.kernel.resume()

    def _run(self) -> None:
        call = self._call
        try:
            check_returned(call.kernel, call.kernel(call.front_end(self._port), *call.arguments))
        except BaseException as error:
            if not is_authors_error(error, call.root):
                self.stopped_at = authors_line(error, call.root)
                raise
            self._port.tcm.end()
            raise explain(error, call.root, "a kernel that returns") from None

    def _finish_if_idle(self) -> None:
        if self.kernel.has_returned and not self.commands.in_flight:
            self.end_ps = self._clock.now_ps
            self.has_ended = True
            self._port.tcm.end()
            self._done(self)
