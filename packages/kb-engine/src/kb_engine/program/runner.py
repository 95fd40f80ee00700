"""Runs one kernel on one PE: the program port that its front end gets, and the program's start and end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy.typing as npt

from kb_engine.program.author_errors import explain
from kb_engine.program.commands import ProgramCommands
from kb_engine.program.coroutine import KernelCoroutine
from kb_engine.program.kernel_lines import kernel_line
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.port import Completion, FrontEnd
from kb_engine.program.session import Session
from kb_messages import Matrix

Kernel = Callable[..., None]


class KernelCall(NamedTuple):
    """A kernel, its arguments after the first, the folder that its lines are relative to, and its language."""

    kernel: Kernel
    arguments: Sequence[Any]
    root: Path
    front_end: FrontEnd


class KernelRunner:
    """One program of a launch, and the `ProgramPort` of its front end. *place* is (program id, number of programs).

    *done(runner)* is called when the kernel has returned and all its commands are done.
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
        self.program_id, self.num_programs = place
        self.memory = session.memory
        self.tcm = session.lease(pe)
        self.kernel = KernelCoroutine(session.clock, self._run, self._finish_if_idle)
        self.commands = ProgramCommands(session, pe, self.kernel, self._finish_if_idle)
        self.submit = self.commands.submit
        self.end_ps = 0
        self._session = session
        self._call = call
        self._done = done

    def start(self) -> None:
        """Run the kernel from now on. Until the program ends, it alone reads the PE's completion queue."""
        self.pe.scheduler.completions.read_by(self.commands.take_completions)
        self.kernel.resume()

    @property
    def issues_ahead(self) -> bool:
        """As `ProgramPort.issues_ahead`."""
        return self.pe.cpu.issues_ahead

    def wait(self, completion: Completion) -> None:
        """As `ProgramPort.wait`."""
        if not completion.done:
            completion.when_done(self.kernel.resume)
            self.kernel.wait_for(completion)
            self.kernel.pause(self.line())

    def line(self, skip_file_prefixes: tuple[str, ...] = ()) -> str:
        """As `ProgramPort.line`."""
        return kernel_line(self._call.root, skip_file_prefixes)

    def translate(self, matrix: Matrix) -> Matrix:
        """As `ProgramPort.translate`."""
        return self.pe.translate(matrix)

    def materialize(self, matrix: Matrix, line: str) -> npt.NDArray[Any]:
        """As `ProgramPort.materialize`."""
        return self._session.materialize(matrix, line, self.pe.pe_id)

    def constant(self, element: bytes, count: int) -> int:
        """As `ProgramPort.constant`."""
        return self._session.constant(element, count)

    def _run(self) -> None:
        call = self._call
        try:
            call.kernel(call.front_end(self), *call.arguments)
        except Exception as error:  # noqa: BLE001 - the author of a kernel sees whatever the kernel raises
            self.tcm.end()
            raise explain(error, call.root, "a kernel that returns") from None

    def _finish_if_idle(self) -> None:
        if self.kernel.has_returned and not self.commands.in_flight:
            self.end_ps = self._session.clock.now_ps
            self.tcm.end()
            self._done(self)
