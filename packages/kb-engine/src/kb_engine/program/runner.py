"""Runs one kernel on one PE: the kernel in a greenlet, its commands on the clock.

The kernel is a plain function. A `tl` call switches to the event loop and comes back when the command is issued or
done. Errors of planning are raised at the kernel's own line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt
from greenlet import greenlet

from kb_engine.block.in_flight import CommandInFlight
from kb_engine.language.tl import Language
from kb_engine.memory.allocator import Lease
from kb_engine.program.author_errors import explain
from kb_engine.program.kernel_lines import kernel_line
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.scoreboard import Scoreboard
from kb_engine.program.session import Session
from kb_engine.program.values import Completion
from kb_messages import Command, KbError, KernelError, Matrix, SubmittedCommand, matrices_of

Kernel = Callable[..., None]


class KernelRunner:
    """One program of a launch. `done(runner)` is called when the kernel has returned and all its commands are done.

    `in_flight` holds its commands that are not done, by command_seq. While the kernel waits, `waiting_at` is its line;
    it waits for `waiting_for`, or for room to submit a command. On a PE whose CPU issues ahead a `tl` call returns when
    the command is in the submission queue, which it enters when the commands it has to follow are done.
    """

    def __init__(
        self,
        session: Session,
        pe: ProcessingElement,
        kernel: Kernel,
        arguments: Sequence[Any],
        program: tuple[int, int],
        root: Path,
        done: Callable[[KernelRunner], None],
    ) -> None:
        self.pe = pe
        self.error: KbError | None = None
        self.end_ps = 0
        self.waiting_at = ""
        self.waiting_since_ps = 0
        self.waiting_for: Completion | None = None
        self.in_flight: dict[int, tuple[CommandInFlight, Completion]] = {}
        self._session = session
        self._root = root
        self._done = done
        self._returned = False
        self._tcm = Lease(pe.tcm) if session.leaks is None else session.leaks.lease(pe)
        self._scoreboard = Scoreboard() if pe.cpu.issues_ahead else None
        language = Language(
            program,
            session.memory,
            self._tcm,
            self._submit,
            self._wait,
            self._line,
            pe.translate,
            self._materialize,
            session.constant,
        )
        language.issues_ahead = pe.cpu.issues_ahead
        self._greenlet = greenlet(lambda _: self._body(kernel, language, arguments))

    def start(self, _: object = None) -> None:
        """Run the kernel from now on; the PE's completion queue is its to read."""
        self.pe.scheduler.completions.consumer = self._take_completions
        self._resume()

    def _body(self, kernel: Kernel, language: Language, arguments: Sequence[Any]) -> None:
        try:
            kernel(language, *arguments)
        except Exception as error:  # noqa: BLE001 - whatever a kernel raises is its author's to see
            self.error = explain(error, self._root, "a kernel that returns")
        self._returned = True

    def _resume(self, _: object = None) -> None:
        self.waiting_at, self.waiting_for = "", None
        self._greenlet.switch(None)
        if self.error is not None:
            self._tcm.end()
            raise self.error
        self._finish_if_idle()

    def _finish_if_idle(self) -> None:
        if self._returned and not self.in_flight:
            self.end_ps = self._session.clock.now_ps
            self._tcm.end()
            self._done(self)

    def _line(self) -> str:
        return kernel_line(self._root)

    def _materialize(self, matrix: Matrix, line: str) -> npt.NDArray[Any]:
        return self._session.materialize(matrix, line, self.pe.pe_id)

    def _submit(self, command: Command, line: str, completion: Completion, wait_until_done: bool) -> None:
        session = self._session
        submitted = SubmittedCommand(
            command_seq=session.next_command_seq(), pe=self.pe.pe_id, line=line, command=command
        )
        try:
            plan = self.pe.scheduler.plan(submitted)
        except KbError as error:
            raise KernelError(f"{line}: {error.where}", error.got, error.needs, error.fix) from None
        context = session.open_command(submitted, plan, self.pe.scheduler.complete)
        if self.pe.mmu is not None:
            context.mapped = tuple(matrix for matrix in matrices_of(command) if matrix.virtual is not None)
        self.in_flight[submitted.command_seq] = context, completion
        if self._scoreboard is not None:
            wait_until_done = False
        if wait_until_done:
            completion.waiter = self._resume
            self.waiting_for = completion
        now = session.clock.now_ps
        arrival = context.t_submitted_ps = now + self.pe.cpu.issue_ps(command)
        session.clock.call_at(arrival, lambda _: self._check_operands(context, not wait_until_done, arrival), None)
        self._pause(line)

    def _check_operands(self, context: CommandInFlight, resume: bool, arrival_ps: int) -> None:
        """With a scoreboard, hold the command back until those are done that it has to follow."""
        submitted, scoreboard = context.submitted, self._scoreboard
        if scoreboard is not None:
            self.waiting_for = earlier = scoreboard.conflict(submitted)
            if earlier is not None:
                earlier.waiter = lambda _: self._check_operands(context, resume, arrival_ps)
                return
            scoreboard.issue(submitted, self.in_flight[submitted.command_seq][1])
        self._enqueue(context, resume, arrival_ps, self._session.clock.now_ps)

    def _enqueue(self, context: CommandInFlight, resume: bool, arrival_ps: int, issued_ps: int) -> None:
        scheduler = self.pe.scheduler
        if not scheduler.has_room:
            scheduler.when_room(lambda: self._enqueue(context, resume, arrival_ps, issued_ps))
            return
        session = self._session
        context.t_submitted_ps = now = session.clock.now_ps
        if session.tracer is not None:
            session.tracer.command_submitted(context, issued_ps - arrival_ps, now - issued_ps)
        scheduler.submit(context)
        if resume:
            self._resume()

    def _take_completions(self) -> None:
        """Read the completion queue: whoever waits for one of its commands goes on."""
        session = self._session
        while (record := self.pe.scheduler.completions.take()) is not None:
            context, completion = self.in_flight.pop(record.command_seq)
            completion.done = True
            if self._scoreboard is not None:
                self._scoreboard.retire(context.submitted)
            if session.tracer is not None:
                session.tracer.command_completed(record, context.submitted.line)
            if completion.waiter is not None:
                waiter, completion.waiter = completion.waiter, None
                session.clock.call_at(session.clock.now_ps, waiter, None)
            else:
                self._finish_if_idle()

    def _wait(self, completion: Completion) -> None:
        if not completion.done:
            completion.waiter = self._resume
            self.waiting_for = completion
            self._pause(self._line())

    def _pause(self, line: str) -> None:
        self.waiting_at, self.waiting_since_ps = line, self._session.clock.now_ps
        parent = self._greenlet.parent
        assert parent is not None
        parent.switch()
