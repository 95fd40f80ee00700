"""ProgramMessages: what one program sends to and receives from the other programs of its launch.

Design: docs/design/messages.md
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kb_engine.block.in_flight import CommandInFlight
from kb_engine.program.commands import ProgramCommands
from kb_engine.program.coroutine import KernelCoroutine
from kb_engine.program.grid import Program
from kb_engine.program.pe import ProcessingElement
from kb_engine.program.port import Completion
from kb_engine.program.session import Session
from kb_engine.sync.channel import UNKNOWN_PS, Channel, Counter, Message, Payload
from kb_engine.sync.exchange import Endpoint, Exchange, Tag, shown_flag
from kb_messages import CallCause, KernelError, Matrix, Rectangle, SendCommand, SyncReason


class BeginWait(NamedTuple):
    """A kernel waits until program `other` has a PE."""

    other: int


class CreditWait(NamedTuple):
    """A kernel waits for a credit of `channel`."""

    channel: Channel


class MessageWait(NamedTuple):
    """A kernel waits for the next message of `channel`."""

    channel: Channel


class SignalWait(NamedTuple):
    """A kernel waits until the counter of `flag`, which is `counter`, is `n` or more.

    `source` is the program that a barrier waits for; None where any program may signal.
    """

    flag: Tag
    counter: Counter
    n: int
    source: int | None


class _Call(NamedTuple):
    """A call of the kernel at `line`, which PE_CPU has issued at `issued_ps`, in `issue_ps`.

    `cause` let the kernel make the call: an event of the command, send or signal `cause_seq`.
    """

    line: str
    issued_ps: int
    issue_ps: int
    cause: CallCause
    cause_seq: int


class _End(NamedTuple):
    """What ends a wait: command or signal `by_seq` of program `other`, with the times of the queue and of the way."""

    by_seq: int
    other: int
    queue_ps: int = 0
    way_ps: int = 0


class ProgramMessages:
    """The messages and signals of *program* on *pe*, over the exchange of its launch.

    A call that issues no command takes the PE's `call_ps`. `taken` are the messages whose slots the program holds.
    """

    def __init__(
        self,
        session: Session,
        pe: ProcessingElement,
        program: Program,
        kernel: KernelCoroutine,
        commands: ProgramCommands,
        exchange: Exchange,
    ) -> None:
        self.exchange = exchange
        self._session = session
        self._pe = pe
        self._program = program
        self._kernel = kernel
        self._commands = commands
        self._taken: dict[int, tuple[Message, Channel]] = {}
        self._barriers: dict[tuple[int, ...], int] = {}

    @property
    def number(self) -> int:
        """The number of the program."""
        return self._program.number

    def ends(self) -> None:
        """Gives back the slots that the program still holds, because it has ended."""
        for message, channel in list(self._taken.values()):
            self._free(message, channel)

    def begin_barrier(self, members: tuple[int, ...], line: str) -> int:
        """The number of barriers of *members* that this program has begun, this one among them."""
        self._check_queue("barrier", line)
        self._barriers[members] = self._barriers.get(members, 0) + 1
        return self._barriers[members]

    def send(self, src: Matrix, payload: Payload, to: int, tag: Tag, line: str, completion: Completion) -> None:
        """Sends the value at *src* to program *to*, and returns when the command is in the queue of the PE.

        Waits for a credit before. Raises KernelError at *line* for a program that cannot receive, for a message larger
        than the slots of its channel, and for a full TCM of the receiver.
        """
        self._check_other(to, "send", line)
        channel = self.exchange.channel(self.number, to, tag)
        self._await_credit(channel, src.nbytes, line)
        if src.nbytes > channel.slot_nbytes:
            got = f"a message of {src.nbytes} bytes to {self._endpoint(to).name}, {channel.tag}"
            needs = (
                f"at most {channel.slot_nbytes} bytes, the slots that the first message took at {channel.line_opened}"
            )
            raise KernelError(line, got, needs, "send the largest message first, or use a tag for each size")
        credit = channel.take_credit()
        slot = Matrix.packed(src.rows, src.cols, src.dtype, channel.slots[credit.slot])
        command = SendCommand(src=src, dst=slot, to=to, channel_tag=channel.tag, number=channel.n_sent)
        receiver, credit_ps = self._endpoint(to), self._session.clock.now_ps
        assert receiver.queue is not None, "a credit came from the queue"
        doorbell_ps = receiver.queue.doorbell_ps()

        def opened(context: CommandInFlight) -> None:
            seq = context.submitted.command_seq
            message = Message(seq, credit.slot, slot, payload, line, credit_ps)
            channel.sent(message)
            context.on_commit = lambda committed_ps: channel.rings(message, committed_ps + doorbell_ps)

        self._commands.submit(command, line, completion, False, opened)

    def receive(self, source: int, tag: Tag, line: str) -> tuple[Message, Channel]:
        """Waits for the next message of *tag* from program *source*, and takes it."""
        self._check_other(source, "recv", line)
        channel = self.exchange.channel(source, self.number, tag)
        self._commands.before_wait(line)
        call = self._call(line)
        ready_ps, rung_ps = call.issued_ps, channel.next_rung_ps
        if rung_ps == UNKNOWN_PS:
            channel.on_message = self._resume_at(ready_ps)
            self._kernel.pause(line, MessageWait(channel))
        else:
            self._pause_until(max(ready_ps, rung_ps), line, MessageWait(channel))
        now_ps, seq = self._session.clock.now_ps, self._session.commands_issued
        message = channel.take(line, now_ps, seq)
        self._waited(SyncReason.MESSAGE, call, _End(message.seq, source, self._doorbell_ps))
        self._taken[id(message)] = message, channel
        return message, channel

    def free(self, message: Message, channel: Channel) -> None:
        """Gives the slot of *message* back, when no command of the program reads it any more."""
        if id(message) not in self._taken:
            return
        slot = message.matrix.address
        whole = Rectangle(slot, 1, channel.slot_nbytes, channel.slot_nbytes)
        self._commands.when_unused(whole, lambda: self._free(message, channel))

    def signal(self, to: int, flag: Tag, n: int, line: str) -> None:
        """Adds *n* to the counter *flag* of program *to* when all earlier commands of this program are done."""
        self._check_other(to, "signal", line)
        self._commands.before_wait(line)
        self._await_placed(to, line, SyncReason.SIGNAL)
        self.exchange.check_way(self.number, to, line)
        session = self._session
        call, after_seq = self._call(line), session.commands_issued

        def leaves() -> None:
            t_sent_ps = max(session.clock.now_ps, call.issued_ps)
            number, t_rung_ps = self.exchange.signal(self.number, to, flag, n, t_sent_ps)
            if session.recorder is not None:
                texts = self._pe.pe_id, self._endpoint(to).pe_id, shown_flag(flag), line
                called_ps = call.issued_ps - call.issue_ps
                numbers = number, n, called_ps, t_sent_ps, t_rung_ps, after_seq, *call[2:]
                session.recorder.program_synced("signals", texts, numbers)

        self._commands.when_all_done(leaves)
        self._pause_until(call.issued_ps, line, None)

    def wait_for(self, flag: Tag, n: int, line: str, at_barrier: int | None = None) -> None:
        """Returns when the counter *flag* of this program is *n* or more.

        *at_barrier* is the program whose signal a barrier waits for; None for a counter of the kernel's own.
        """
        self._check_queue("wait_for", line)
        self._commands.before_wait(line)
        counter, call = self.exchange.counter(self.number, flag), self._call(line)
        wait = SignalWait(flag, counter, n, at_barrier)
        if UNKNOWN_PS < counter.reached(n).t_rung_ps <= call.issued_ps:
            self._pause_until(call.issued_ps, line, wait)
        else:
            self._await_signals(wait, call.issued_ps, line)
        ring = counter.reached(n)
        src, dst = self._endpoint(ring.source).queue, self._pe.queue
        assert src is not None, "a program that signals has a queue"
        assert dst is not None, "the call has seen the queue"
        end = _End(ring.number, ring.source, self._doorbell_ps, self.exchange.latency_ps(src, dst))
        self._waited(SyncReason.SIGNAL if at_barrier is None else SyncReason.BARRIER, call, end)

    def _await_signals(self, wait: SignalWait, ready_ps: int, line: str) -> None:
        """Waits until the counter is reached, and at least until *ready_ps*.

        A signal that is sent later may ring earlier, so the program looks anew at each signal that is sent meanwhile.
        """
        clock, counter, order = self._session.clock, wait.counter, self._pe.event_order

        def look(_: object) -> None:
            if counter.on_signal is sent and counter.reached(wait.n).t_rung_ps <= clock.now_ps:
                counter.on_signal = None
                self._kernel.resume()

        def sent() -> None:
            reached_ps = counter.reached(wait.n).t_rung_ps
            if reached_ps != UNKNOWN_PS:
                clock.call_at(max(reached_ps, ready_ps), look, None, order)

        counter.on_signal = sent
        sent()
        self._kernel.pause(line, wait)

    def _await_credit(self, channel: Channel, nbytes: int, line: str) -> None:
        """Opens *channel*, if that has not happened, and waits until a credit is there."""
        self._commands.before_wait(line)
        self._await_placed(channel.to, line, SyncReason.CREDIT)
        session = self._session
        if not channel.is_open:
            self.exchange.open(channel, nbytes, line, session.clock)
        call = self._call(line, issues=False)
        if channel.credits and channel.credits[0].ready_ps <= call.issued_ps:
            return
        if channel.credits:
            self._pause_until(channel.credits[0].ready_ps, line, CreditWait(channel))
        else:
            channel.on_credit = self._resume_at(call.issued_ps)
            self._kernel.pause(line, CreditWait(channel))
        credit = channel.credits[0]
        self._waited(SyncReason.CREDIT, call, _End(credit.after_seq, channel.to, credit.queue_ps, credit.way_ps))

    def _await_placed(self, other: int, line: str, reason: SyncReason) -> None:
        """Waits until program *other* has a PE, which it gets at the begin of the launch. The wait has *reason*."""
        if self.exchange.endpoint(other) is None:
            call = self._call(line, issues=False)
            self.exchange.when_placed(other, lambda: self._resume_at(0)(self._session.clock.now_ps))
            self._kernel.pause(line, BeginWait(other))
            if self._session.clock.now_ps > call.issued_ps:
                self._waited(reason, call, _End(-1, other))
        queue = self._endpoint(other).queue
        if queue is None:
            raise _no_queue(line, "a message", self._endpoint(other).pe_id)

    def _free(self, message: Message, channel: Channel) -> None:
        if self._taken.pop(id(message), None) is None:
            return
        session = self._session
        self.exchange.free(message, channel, session.clock.now_ps, session.commands_issued)
        session.slot_freed(message.matrix, session.commands_issued)
        if session.recorder is not None:
            texts = self._pe.pe_id, channel.tag, message.line_taken
            session.recorder.program_synced("sends", texts, message.numbers)

    @property
    def _doorbell_ps(self) -> int:
        assert self._pe.queue is not None, "the call has seen the queue"
        return self._pe.queue.doorbell_ps()

    def _call(self, line: str, issues: bool = True) -> _Call:
        """A call of the kernel that begins now. With *issues*, PE_CPU issues the call."""
        issue_ps = self._pe.cpu.call_ps() if issues else 0
        return _Call(line, self._session.clock.now_ps + issue_ps, issue_ps, *self._commands.cause)

    def _waited(self, reason: SyncReason, call: _Call, end: _End) -> None:
        """The kernel waited since *call* was issued and goes on now, because of *end*."""
        session = self._session
        now_ps = session.clock.now_ps
        if now_ps > call.issued_ps:
            self._commands.goes_on_after(_CAUSES[reason], end.by_seq)
        if session.recorder is not None:
            texts = self._pe.pe_id, call.line, self._endpoint(end.other).pe_id
            spent = call.issue_ps, end.queue_ps, end.way_ps, call.cause, call.cause_seq
            numbers = reason, call.issued_ps, now_ps, end.by_seq, session.commands_issued, *spent
            session.recorder.program_synced("waits", texts, numbers)

    def _resume_at(self, ready_ps: int) -> Callable[[int], None]:
        """A function that resumes the kernel at the time that it is given, or at *ready_ps* if that is later."""
        clock, kernel = self._session.clock, self._kernel

        def resume_at(t_ps: int) -> None:
            clock.call_at(max(t_ps, ready_ps, clock.now_ps), kernel.resume, None, self._pe.event_order)

        return resume_at

    def _pause_until(self, t_ps: int, line: str, wait: Any) -> None:
        """Lets the time pass until *t_ps*. The kernel stands at *line*."""
        self._resume_at(0)(t_ps)
        self._kernel.pause(line, wait)

    def _endpoint(self, program: int) -> Endpoint:
        found = self.exchange.endpoint(program)
        assert found is not None, "a program of a channel has a PE"
        return found

    def _check_other(self, other: int, call: str, line: str) -> None:
        """Raises KernelError at *line* unless *other* is another program that has a PE too, and this PE has a queue."""
        exchange = self.exchange
        if not 0 <= other < exchange.n_programs:
            programs = f"one of {exchange.n_programs} programs, 0 to {exchange.n_programs - 1}"
            raise KernelError(line, f"tl.{call} with program {other}", programs)
        if other == self.number:
            raise KernelError(line, f"tl.{call} of program {other} with itself", "another program")
        self._check_queue(call, line)

    def _check_queue(self, call: str, line: str) -> None:
        exchange = self.exchange
        if exchange.n_programs > exchange.n_pes:
            got = f"tl.{call} in a launch of {exchange.n_programs} programs on {exchange.n_pes} PEs"
            needs = "a PE for each program"
            fix = f"a program that waits keeps its PE: launch at most {exchange.n_pes} programs"
            raise KernelError(line, got, needs, fix)
        if self._pe.queue is None:
            raise _no_queue(line, f"tl.{call}", self._pe.pe_id)
        exchange.is_used = True


_CAUSES: Final = {
    SyncReason.MESSAGE: CallCause.MESSAGE,
    SyncReason.CREDIT: CallCause.CREDIT,
    SyncReason.SIGNAL: CallCause.SIGNAL,
    SyncReason.BARRIER: CallCause.SIGNAL,
}


def _no_queue(line: str, what: str, pe_id: str) -> KernelError:
    node = "add `pe_queue: {kind: pe_queue, impl: builtin.pe_queue}` to pe_template, and a link from it to the NOC"
    return KernelError(line, f"{what} with {pe_id}, which has no pe_queue", "a chip whose PEs have one", node)
