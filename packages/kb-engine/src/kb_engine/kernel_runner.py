"""Runs one kernel on one PE: the kernel in a greenlet, its commands on the clock.

The kernel is a plain function. A `tl` call switches to the event loop and comes back when the command is issued or
done. Errors of planning are raised at the kernel's own line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from greenlet import greenlet

from kb_engine.allocator import Lease
from kb_engine.language.handles import Completion
from kb_engine.language.lines import kernel_line
from kb_engine.language.tl import Language
from kb_engine.pe import ProcessingElement
from kb_engine.pipeline import PipelineContext
from kb_engine.session import Session
from kb_engine.user_code import explain
from kb_messages.commands import Command, SubmittedCommand, matrices_of
from kb_messages.errors import KbError, KernelError

Kernel = Callable[..., None]


class KernelRunner:
    """One program of a launch. `done(runner)` is called when the kernel has returned and all its commands are done."""

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
        self._session = session
        self._root = root
        self._done = done
        self._outstanding = 0
        self._returned = False
        self._tcm = Lease(pe.tcm)
        language = Language(program, session.memory, self._tcm, self._submit, self._wait, self._line, pe.translate)
        self._greenlet = greenlet(lambda _: self._body(kernel, language, arguments))

    def start(self, _: object = None) -> None:
        """Run the kernel from now on."""
        self._resume()

    def _body(self, kernel: Kernel, language: Language, arguments: Sequence[Any]) -> None:
        try:
            kernel(language, *arguments)
        except Exception as error:  # noqa: BLE001 - whatever a kernel raises is its author's to see
            self.error = explain(error, self._root, "a kernel that returns")
        self._returned = True

    def _resume(self, _: object = None) -> None:
        self.waiting_at = ""
        self._greenlet.switch(None)
        if self.error is not None:
            self._tcm.end()
            raise self.error
        self._finish_if_idle()

    def _finish_if_idle(self) -> None:
        if self._returned and not self._outstanding:
            self.end_ps = self._session.clock._now
            self._tcm.end()
            self._done(self)

    def _line(self) -> str:
        return kernel_line(self._root)

    def _submit(self, command: Command, line: str, completion: Completion, wait_until_done: bool) -> None:
        session = self._session
        submitted = SubmittedCommand(
            command_seq=session.next_command_seq(), pe=self.pe.pe_id, line=line, command=command
        )
        try:
            plan = self.pe.scheduler.plan(submitted)
        except KbError as error:
            raise KernelError(f"{line}: {error.where}", error.got, error.needs, error.fix) from None
        self._outstanding += 1

        def done(context: PipelineContext) -> None:
            self._outstanding -= 1
            completion.done = True
            session.command_completed(context)
            if completion.waiter is not None:
                waiter, completion.waiter = completion.waiter, None
                session.clock.call_at(session.clock._now, waiter, None)
            else:
                self._finish_if_idle()

        context = session.open_command(submitted, plan, done)
        if self.pe.mmu is not None:
            context.mapped = tuple(matrix for matrix in matrices_of(command) if matrix.virtual is not None)
        if wait_until_done:
            completion.waiter = self._resume
        issue_ps = self.pe.cpu.issue_ps(command)
        session.clock.call_at(
            session.clock._now + issue_ps, lambda _: self._enqueue(context, resume=not wait_until_done), None
        )
        self._pause(line)

    def _enqueue(self, context: PipelineContext, resume: bool) -> None:
        scheduler = self.pe.scheduler
        if not scheduler.has_room:
            scheduler.when_room(lambda: self._enqueue(context, resume))
            return
        self._session.command_submitted(context)
        scheduler.submit(context)
        if resume:
            self._resume()

    def _wait(self, completion: Completion) -> None:
        if not completion.done:
            completion.waiter = self._resume
            self._pause(self._line())

    def _pause(self, line: str) -> None:
        self.waiting_at = line
        parent = self._greenlet.parent
        assert parent is not None
        parent.switch()
