"""PePort: the program port of one program, which passes requests of the front end to the PE and the session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy.typing as npt
from greenlet import GreenletExit, getcurrent

from kb_engine.block.state_visitor import NotPeriodic, StateVisitor
from kb_engine.program.author.kernel_lines import KernelLines, at_line
from kb_engine.program.commands import ProgramCommands
from kb_engine.program.coroutine import KernelCoroutine
from kb_engine.program.grid import Program
from kb_engine.program.messages import ProgramMessages
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.port import AccumulatorRegisters, Completion, Deferring, MessagePort
from kb_engine.program.session import Session
from kb_engine.program.tile_order import reads_before_writes
from kb_engine.sync.exchange import Exchange
from kb_messages import Command, KbError, Matrix, PipelinePlan, PlanError, SubmittedCommand


class PePort:
    """The `ProgramPort` of *program*, which runs as *kernel* with *lines*.

    *exchange* leads to the other programs of the launch.
    """

    def __init__(
        self,
        session: Session,
        pe: ProcessingElement,
        kernel: KernelCoroutine,
        commands: ProgramCommands,
        program: Program,
        exchange: Exchange,
        lines: KernelLines,
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
        self._messages: ProgramMessages | None = None
        self._exchange = exchange
        self.submit = commands.submit
        self.wait_for_all = commands.wait_for_all
        self.translate = pe.translate
        self.constant = session.constant
        self._session = session
        self._pe = pe
        self._program = program
        self._kernel = kernel
        self._commands = commands
        self._lines = lines
        self.line: Callable[..., str] = lines.here

    @property
    def messages(self) -> MessagePort:
        """The messages and signals of the program. Most programs have none, so the object is made when it is used."""
        if self._messages is None:
            parts = self._session, self._pe, self._program, self._kernel, self._commands, self._exchange
            self._messages = ProgramMessages(*parts)
        return self._messages

    def end_messages(self) -> None:
        """Gives back the slots that the program still holds, because it has ended."""
        if self._messages is not None:
            self._messages.ends()

    def visit_state(self, over: StateVisitor) -> None:
        """Hands the state to *over*. Raises NotPeriodic in a launch whose programs wait for each other."""
        if self._exchange.is_used:
            raise NotPeriodic
        if self.grid is not None:
            self.program_id = over.program(self.program_id)
        over.same(tuple(self.tcm.held), self.tcm.has_ended, self.registers.ranges)

    def end(self) -> None:
        """Ends an abandoned kernel at its next call. No observer is notified of the TCM that the kernel frees.

        Each call asks for its line before it changes anything, so `line` is the place to end the kernel.
        """
        self.tcm.abandon()
        self.line = _give_way

    def forget_kernel(self) -> None:
        """Has later uses of the kernel's values raise KernelError: the kernel has ended."""
        self.line = self._lines.of_ended

    @property
    def deferred_calls(self) -> Deferring | None:
        """The commands that the front end issues later; None for none."""
        return self._commands.deferred_calls

    @deferred_calls.setter
    def deferred_calls(self, deferred_calls: Deferring | None) -> None:
        self._commands.deferred_calls = deferred_calls

    @property
    def commands_issued(self) -> int:
        """The number of commands that all programs have issued so far."""
        return self._session.commands_issued

    def fits(self, command: Command) -> bool:
        """Whether the PE has a plan for *command*."""
        try:
            self._plan(command, "")
        except PlanError:
            return False
        return True

    def reads_first(self, command: Command) -> bool:
        """Whether no tile of *command* writes bytes of memory that a later tile reads. *command* fits the PE."""
        plan, addresses = self._shared_plan(command, "")
        return reads_before_writes(plan if addresses is None else plan.at(addresses))

    def register_nbytes(self, command: Command, line: str) -> int:
        """The bytes of registers of the smallest tile of *command*. Raises KernelError at *line* for no plan."""
        try:
            buffers = self._plan(command, line).buffers
        except KbError as error:
            raise at_line(error, line) from None
        return buffers.register_nbytes + buffers.accumulator_nbytes

    def _plan(self, command: Command, line: str) -> PipelinePlan:
        """A plan of *command*, which may have other addresses."""
        return self._shared_plan(command, line)[0]

    def _shared_plan(self, command: Command, line: str) -> tuple[PipelinePlan, tuple[int, ...] | None]:
        submitted = SubmittedCommand(command_seq=-1, pe=self._pe.pe_id, line=line, command=command)
        return self._pe.scheduler.shared_plan(submitted)

    def wait(self, completion: Completion, line: str = "") -> None:
        """Returns when the command of *completion* is done. The kernel waits at *line*, by default its current line."""
        if not completion.done:
            self._commands.wait(completion, line or self.line())

    def leave(self, why: str) -> None:
        """Does nothing: no other program repeats this one."""

    @contextmanager
    def waits_for_value(self, line: str) -> Iterator[None]:
        """Notifies the observers of the time within, which the kernel waits for a value that it reads at *line*."""
        clock, on_look = self._session.clock, self._session.listeners.on_look
        began = clock.now_ps
        yield
        if on_look is not None:
            on_look(self.pe_id, line, clock.now_ps - began)

    def materialize(self, matrix: Matrix, line: str) -> npt.NDArray[Any]:
        """The elements of *matrix* after all commands issued so far, `rows x cols`, read-only."""
        return self._session.materialize(matrix, line, self._pe.pe_id)


def _give_way(_: tuple[str, ...] = ()) -> str:
    """Switches from an abandoned kernel, which may catch the exit and call again, to the greenlet that abandoned it."""
    parent = getcurrent().parent
    assert parent is not None
    parent.switch()
    raise GreenletExit
