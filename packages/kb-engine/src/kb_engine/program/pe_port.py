"""The program port of one program: how a front end's requests reach the PE and the session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy.typing as npt
from greenlet import GreenletExit, getcurrent

from kb_engine.block.state_visitor import StateVisitor
from kb_engine.program.accumulator_registers import AccumulatorRegisters
from kb_engine.program.author.kernel_lines import KernelLines
from kb_engine.program.commands import ProgramCommands
from kb_engine.program.grid import Program
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.port import Completion, Deferring
from kb_engine.program.session import Session
from kb_messages import Command, Matrix, PlanError, SubmittedCommand


class PePort:
    """The `ProgramPort` of *program*, whose kernel has *lines*."""

    def __init__(
        self, session: Session, pe: ProcessingElement, commands: ProgramCommands, program: Program, lines: KernelLines
    ) -> None:
        self.program_id, self.num_programs, self.grid = program
        self.pe_id = pe.pe_id
        self.on_wrapped_index = session.listeners.on_wrapped_index
        self.keeps_log = session.recorder is not None
        self.on_capture = session.listeners.on_capture
        self.memory = session.memory
        self.max_pieces = pe.max_pieces
        self.issues_ahead = pe.cpu.issues_ahead
        self.fitting = pe.fitting
        self.tcm = session.lease(pe)
        self.registers = AccumulatorRegisters(pe.reg_owner, pe.register_nbytes)
        self.submit = commands.submit
        self.register_nbytes = commands.register_nbytes
        self.wait_for_all = commands.wait_for_all
        self.translate = pe.translate
        self.constant = session.constant
        self._session = session
        self._pe = pe
        self._commands = commands
        self._lines = lines
        self.line: Callable[..., str] = lines.here

    def fold(self, over: StateVisitor) -> None:
        """As FoldPass says."""
        if self.grid is not None:
            self.program_id = over.program(self.program_id)
        over.same(tuple(self.tcm.held), self.tcm.has_ended, self.registers.ranges)

    def end(self) -> None:
        """The kernel is abandoned. Nobody is told of the TCM that it frees, and the next call that it makes ends it:
        each call asks for its line before it changes anything."""
        self.tcm.abandon()
        self.line = _give_way

    def forget_kernel(self) -> None:
        """The kernel has ended. Whoever uses a value of it from now on is another program, and is told so."""
        self.line = self._lines.of_ended

    @property
    def deferred_calls(self) -> Deferring | None:
        """As `ProgramPort.deferred_calls`."""
        return self._commands.deferred_calls

    @deferred_calls.setter
    def deferred_calls(self, deferred_calls: Deferring | None) -> None:
        self._commands.deferred_calls = deferred_calls

    @property
    def commands_issued(self) -> int:
        """As `ProgramPort.commands_issued`."""
        return self._session.commands_issued

    def fits(self, command: Command) -> bool:
        """As `ProgramPort.fits`."""
        submitted = SubmittedCommand(command_seq=-1, pe=self._pe.pe_id, line="", command=command)
        try:
            self._pe.scheduler.shared_plan(submitted)
        except PlanError:
            return False
        return True

    def wait(self, completion: Completion, line: str = "") -> None:
        """As `ProgramPort.wait`. The kernel waits at *line*, by default the one at which it stands."""
        if not completion.done:
            self._commands.wait(completion, line or self.line())

    def leave(self, why: str) -> None:
        """As `ProgramPort.leave`: nobody repeats this program."""

    @contextmanager
    def waits_for_value(self, line: str) -> Iterator[None]:
        """As `ProgramPort.waits_for_value`."""
        clock, on_look = self._session.clock, self._session.listeners.on_look
        began = clock.now_ps
        yield
        if on_look is not None:
            on_look(self.pe_id, line, clock.now_ps - began)

    def materialize(self, matrix: Matrix, line: str) -> npt.NDArray[Any]:
        """As `ProgramPort.materialize`."""
        return self._session.materialize(matrix, line, self._pe.pe_id)


def _give_way(_: tuple[str, ...] = ()) -> str:
    """Leave an abandoned kernel, which may catch what is raised and call again, to whoever abandoned it."""
    parent = getcurrent().parent
    assert parent is not None
    parent.switch()
    raise GreenletExit
