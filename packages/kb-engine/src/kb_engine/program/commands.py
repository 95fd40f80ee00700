"""The commands of one program, from issue to completion.

Design: docs/design/processing-element.md.
"""

from __future__ import annotations

from collections.abc import Callable

from simpy.events import NORMAL

from kb_engine.block.in_flight import CommandInFlight
from kb_engine.block.state_visitor import NotPeriodic, StateVisitor
from kb_engine.program.command_stream import CommandStream, engine_of
from kb_engine.program.coroutine import KernelCoroutine
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.port import Completion, Deferring
from kb_engine.program.session import Session
from kb_messages import CallCause, Command, CompletionRecord, Rectangle


class IssuedCommand:
    """A command that PE_CPU issued at *arrival_ps*, and that is not in the submission queue yet.

    *check* is called with this object when the command may be compared with earlier commands, and *enter* when the
    submission queue has room. With *resumes*, the kernel resumes when the command is in the queue.
    """

    __slots__ = ("_check", "_enter", "arrival_ps", "command", "resumes")

    def __init__(
        self,
        command: CommandInFlight,
        resumes: bool,
        arrival_ps: int,
        check: Callable[[IssuedCommand], None],
        enter: Callable[[IssuedCommand], None],
    ) -> None:
        self.command = command
        self.resumes = resumes
        self.arrival_ps = arrival_ps
        self._check = check
        self._enter = enter

    def visit_state(self, over: StateVisitor) -> None:
        """Hands the state to *over*."""
        over.part(self.command)
        over.call(self._check)
        over.same(self.resumes)
        self.arrival_ps = over.moment(self.arrival_ps)

    def check(self, _: object = None) -> None:
        """Compares the command with earlier commands."""
        self._check(self)

    def enter(self) -> None:
        """Enters the submission queue, which has room."""
        self._enter(self)


class ProgramCommands:
    """Issues the commands of *kernel* in program order. `in_flight` holds the commands that are not done, by
    command_seq.

    On a PE whose CPU has a scoreboard, a command enters the submission queue when the commands that it depends on are
    done. *stream* holds the commands of the PE's earlier programs too. *on_unawaited* is called when a command ends for
    which the kernel does not wait. Each command notes the event that resumed the kernel last before the call (`after`,
    `after_seq`), for the attribution of its waiting time.
    """

    def __init__(
        self,
        session: Session,
        pe: ProcessingElement,
        kernel: KernelCoroutine,
        stream: CommandStream,
        on_unawaited: Callable[[], None],
    ) -> None:
        self.in_flight: dict[int, tuple[CommandInFlight, Completion]] = {}
        self._session = session
        self._pe = pe
        self._kernel = kernel
        self._on_unawaited: Callable[[], None] | None = on_unawaited
        self._stream = stream
        self._scoreboard = stream.scoreboard
        self._after, self._after_seq = CallCause.START, -1
        self._for_all: list[tuple[set[int], Callable[[], None]]] = []
        self.deferred_calls: Deferring | None = None

    def visit_state(self, over: StateVisitor) -> None:
        """Hands the state to *over*. Raises NotPeriodic while the front end defers commands."""
        if self.deferred_calls is not None:
            raise NotPeriodic
        over.same(self._after, len(self.in_flight))
        self._after_seq = over.seq(self._after_seq)
        for context, completion in self.in_flight.values():
            completion.visit_state(over)
            context.visit_alone(over)
        self.in_flight = {each[0].submitted.command_seq: each for each in self.in_flight.values()}

    def submit(
        self,
        command: Command,
        line: str,
        completion: Completion,
        wait_until_done: bool,
        opened: Callable[[CommandInFlight], None] | None = None,
    ) -> None:
        """Issues *command* and returns when it is in the queue of its PE, or, with *wait_until_done*, is done.

        *opened* is called with the command in flight before time passes.
        """
        if self.deferred_calls is not None:
            self._issue_deferred(lambda deferred_calls: deferred_calls.before(command, line))
        session, pe, kernel = self._session, self._pe, self._kernel
        context = session.open_command(command, line, pe, completion)
        seq = context.submitted.command_seq
        self.in_flight[seq] = context, completion
        if opened is not None:
            opened(context)
        clock = session.clock
        now = context.t_call_ps = clock.now_ps
        context.after, context.after_seq = self._after, self._after_seq
        arrival = context.t_submitted_ps = now + pe.cpu.issue_ps(command)
        # With a scoreboard, the operands of later commands wait, so the kernel need not.
        resume = not wait_until_done or self._scoreboard is not None
        if not resume:
            kernel.wait_for(completion)
            completion.when_done(kernel.resume)
        self._stream.expect(context, self._complete)
        issued = IssuedCommand(context, resume, arrival, self._check_operands, self._enqueue)
        clock.call_at(arrival, issued.check, None, pe.event_order)
        kernel.pause(line)

    def before_wait(self, line: str) -> None:
        """Issues the commands that the front end deferred, because the kernel is about to wait at *line*."""
        if self.deferred_calls is not None:
            self._issue_deferred(lambda deferred_calls: deferred_calls.before(None, line))

    def when_all_done(self, call: Callable[[], None]) -> None:
        """Calls `call()` when all commands that the program has issued so far are done, at once if they are."""
        if self.in_flight:
            self._for_all.append((set(self.in_flight), call))
        else:
            call()

    def when_unused(self, rectangle: Rectangle, call: Callable[[], None]) -> None:
        """Calls `call()` when no command that the PE's CPU has issued ahead uses *rectangle*, at once if none does."""
        self._stream.when_unused(rectangle, call)

    @property
    def cause(self) -> tuple[CallCause, int]:
        """What let the kernel go on last: the cause, and the number of its command, send or signal."""
        return self._after, self._after_seq

    def goes_on_after(self, cause: CallCause, seq: int) -> None:
        """Notes that *cause*, of number *seq*, let the kernel go on. The next command names it."""
        self._after, self._after_seq = cause, seq

    def wait(self, completion: Completion, line: str) -> None:
        """Returns when the command of *completion* is done. The kernel waits at *line*."""
        self.before_wait(line)
        if completion.done:
            return
        completion.when_done(self._kernel.resume)
        self._kernel.pause(line, completion)

    def wait_for_all(self, line: str) -> None:
        """Returns when all commands that the program has issued are done. The kernel waits at *line*."""
        for _, completion in list(self.in_flight.values()):
            self.wait(completion, line)

    def _complete(self, record: CompletionRecord) -> None:
        """Ends the command of *record*, and resumes its waiter: the kernel, or a command, also of a later program."""
        session = self._session
        context, completion = self.in_flight.pop(record.command_seq)
        waiter = completion.finish()
        if self._scoreboard is not None:
            self._scoreboard.retire(context.submitted)
            for queue in self._stream.queues:
                queue.submit_ready()
            self._stream.look_for_unused()
        if self._for_all:
            self._note_done(record.command_seq)
        if session.tracer is not None:
            session.tracer.command_completed(record, context.submitted.line)
        if waiter is not None:
            self._after, self._after_seq = CallCause.COMPLETION, record.command_seq
            # An event, and not a call, so that the waiter runs after the other events of this moment that came before.
            session.clock.push((session.clock.now_ps, NORMAL, next(self._pe.event_order), waiter, None))
        if (waiter is None or self._kernel.has_returned) and self._on_unawaited is not None:
            self._on_unawaited()

    def _note_done(self, seq: int) -> None:
        """Notes for the calls of `when_all_done` that command *seq* is done."""
        waiting, self._for_all = self._for_all, []
        for awaited, call in waiting:
            awaited.discard(seq)
            if awaited:
                self._for_all.append((awaited, call))
            else:
                call()

    def end(self) -> None:
        """Issues the commands that the front end deferred. The kernel has returned."""
        if self.deferred_calls is not None:
            self._issue_deferred(lambda deferred_calls: deferred_calls.end())

    def forget_program(self) -> None:
        """Drops the reference to the ended program, which is so freed without the collector of cycles."""
        self._on_unawaited = None

    def _issue_deferred(self, call: Callable[[Deferring], None]) -> None:
        """Has the front end issue the commands that it deferred. They pass at once: the deferring is off meanwhile."""
        deferred_calls, self.deferred_calls = self.deferred_calls, None
        assert deferred_calls is not None
        try:
            call(deferred_calls)
        finally:
            self.deferred_calls = deferred_calls

    def _check_operands(self, issued: IssuedCommand) -> None:
        """Enqueues the command; with a scoreboard, once the commands that it depends on are done."""
        context, scoreboard = issued.command, self._scoreboard
        submitted = context.submitted
        if self._stream.queues:
            queue, completion = (
                self._stream.queues[engine_of(submitted.command)],
                self.in_flight[submitted.command_seq][1],
            )
            queue.put(context, completion, self._trace_submitted, self._go_on)
            return
        if scoreboard is not None:
            earlier = scoreboard.conflict(submitted)
            self._kernel.wait_for(earlier and earlier.completion)
            if earlier is not None:
                context.operand_seq = earlier.command_seq
                earlier.completion.when_done(issued.check)
                return
            scoreboard.issue(submitted, self.in_flight[submitted.command_seq][1])
        context.t_issued_ps = self._session.clock.now_ps
        context.operand_ps = context.t_issued_ps - issued.arrival_ps
        self._enqueue(issued)

    def _enqueue(self, issued: IssuedCommand) -> None:
        scheduler, context = self._pe.scheduler, issued.command
        if not scheduler.has_room:
            scheduler.when_room(issued.enter)
            return
        context.t_submitted_ps = self._session.clock.now_ps
        self._trace_submitted(context)
        scheduler.submit(context)
        if issued.resumes:
            self._go_on(CallCause.SUBMISSION, context.submitted.command_seq)

    def _trace_submitted(self, context: CommandInFlight) -> None:
        if self._session.tracer is not None:
            self._session.tracer.command_submitted(context)

    def _go_on(self, cause: CallCause, command_seq: int) -> None:
        self._after, self._after_seq = cause, command_seq
        self._kernel.resume()
