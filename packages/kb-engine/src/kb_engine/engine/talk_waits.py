"""TalkWaits: what a kernel of a stuck simulation waits for of another program, and which program that is.

Design: docs/design/trace-and-stuck-runs.md
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kb_engine.program.messages import BeginWait, CreditWait, MessageWait, SignalWait
from kb_engine.sync.channel import Channel
from kb_engine.sync.exchange import BarrierRound, Exchange, shown_flag

_MOST_SHOWN: Final = 3
"""The most lines, and the most names of programs, that one waiter lists."""


class Waiter(NamedTuple):
    """One line of a report. Two PEs that are stuck in the same way have waiters of equal `shape`.

    `then` is the next waiter of the chain. Where it is None, `missing` names the event that never came. `change` is the
    smallest change of a capacity that would let the waiter go on, and `breaks` whether the change lets the waiter after
    it go on too, so that a circle of waiters is broken for certain.
    """

    shape: tuple[str, ...]
    text: str
    then: object = None
    missing: str = ""
    change: str = ""
    breaks: bool = False


class TalkWaits:
    """The waits of kernels for other programs. *runners* are the programs that have not ended."""

    def __init__(self, runners: Sequence[Any]) -> None:
        self._runners = {(id(each.exchange), each.program.number): each for each in runners if each.has_begun}

    def waiter(
        self, runner: Any, wait: BeginWait | CreditWait | MessageWait | SignalWait, opening: str, shape: tuple[str, ...]
    ) -> Waiter:
        """The line for *runner*, whose kernel waits for *wait*. *opening* and *shape* begin its text and its shape."""
        if isinstance(wait, BeginWait):
            other = _name(runner.exchange, wait.other)
            return Waiter((*shape, "begin"), f"{opening} for {other} to begin", None, f"a PE for {other}")
        if isinstance(wait, MessageWait):
            return self._for_message(runner, wait.channel, opening, shape)
        if isinstance(wait, CreditWait):
            return self._for_credit(runner, wait.channel, opening, shape)
        if isinstance(wait.flag, BarrierRound):
            return self._at_barrier(runner, wait, opening, shape)
        return self._for_signal(runner, wait, opening, shape)

    def _for_message(self, runner: Any, channel: Channel, opening: str, shape: tuple[str, ...]) -> Waiter:
        exchange = runner.exchange
        source, sender = _name(exchange, channel.source), self._runner(exchange, channel.source)
        if channel.coming and sender is not None:
            message = channel.coming[0]
            text = f"{opening} for the message that {source} sent at {message.line_sent}, {channel.tag}"
            then, _ = sender.commands.in_flight.get(message.seq, (None, None))
            return Waiter((*shape, "sent"), text, then, f"the end of the send at {message.line_sent}")
        text = f"{opening} for a message of {source}, {channel.tag}"
        return Waiter((*shape, "message"), text, sender, self._missing(exchange, channel.source, "message"))

    def _for_credit(self, runner: Any, channel: Channel, opening: str, shape: tuple[str, ...]) -> Waiter:
        exchange = runner.exchange
        endpoint, receiver = exchange.endpoint(channel.to), _name(exchange, channel.to)
        text = f"{opening} for a credit of {receiver}, {channel.tag}: {_full(channel, receiver)}"
        then = self._runner(exchange, channel.to)
        missing = self._missing(exchange, channel.to, "tl.recv")
        if then is None or not then.kernel.waiting_at:
            return Waiter((*shape, "credit"), text, then, missing)
        queue, wait = endpoint.queue, then.kernel.waiting_for
        breaks = isinstance(wait, MessageWait) and wait.channel is channel
        change = f"depth of {queue.node_id} from {queue.depth} to {queue.depth + 1}"
        change += f" breaks it, because {receiver} waits for the message" if breaks else " may break it"
        ways = "".join(f"; or {way}" for way in _ways_out(channel, receiver, wait, then.kernel.waiting_at))
        return Waiter((*shape, "credit"), text, then, missing, change + ways, breaks)

    def _at_barrier(self, runner: Any, wait: SignalWait, opening: str, shape: tuple[str, ...]) -> Waiter:
        exchange, flag, own = runner.exchange, wait.flag, runner.program.number
        assert isinstance(flag, BarrierRound), "the caller has looked at the flag"
        shape, opening = (*shape, "barrier"), f"{opening} at {flag.barrier}"
        absent = exchange.absent(flag, wait.n)
        if own in absent:  # its signals leave after its commands
            then, _ = next(iter(runner.commands.in_flight.values()), (None, None))
            return Waiter((*shape, "own"), f"{opening} for its own earlier commands", then, "the end of its commands")
        first = min(absent, key=lambda each: self._runner(exchange, each) is not None, default=wait.source)
        assert first is not None, "a barrier waits for a program"
        names = _listed([_name(exchange, each) for each in absent or [first]])
        come = "have not come" if len(absent) > 1 else "has not come"
        what = "tl.barrier with this group" if flag.members else "tl.barrier"
        then, missing = self._runner(exchange, first), self._missing(exchange, first, what)
        return Waiter(shape, f"{opening}, to which {names} {come}", then, missing)

    def _for_signal(self, runner: Any, wait: SignalWait, opening: str, shape: tuple[str, ...]) -> Waiter:
        exchange, own = runner.exchange, runner.program.number
        flag, total = shown_flag(wait.flag), wait.counter.total
        text = f"{opening} for {flag} to be {wait.n}: signals have added {total} so far"
        if total >= wait.n:
            missing = "the end of a stage, or a signal: the kernel waits again and again for a flag that is reached"
            return Waiter((*shape, "reached"), f"{opening} for {flag} to be {wait.n}, which it is", None, missing)
        others = [each for each in range(exchange.n_programs) if each != own]
        left = [each for each in others if not exchange.has_ended(each)]
        n_ended = len(others) - len(left)
        missing = f"{wait.n - total} more for {flag} of {runner.name}: "
        if not left:
            missing += "all other programs have ended" if others else "the launch has no other program"
        else:
            missing += f"{n_ended} of the {len(others)} other programs have ended; "
            missing += f"{_listed([_name(exchange, each) for each in left])} could still signal"
        then = self._runner(exchange, left[0]) if len(left) == 1 else None
        return Waiter((*shape, "signal"), text, then, missing)

    def _runner(self, exchange: Exchange, program: int) -> Any:
        """The runner of *program*; None where the program has ended or has not begun."""
        return self._runners.get((id(exchange), program))

    def _missing(self, exchange: Exchange, program: int, what: str) -> str:
        state = "which has ended" if exchange.has_ended(program) else "which has not begun"
        return f"a {what} of {_name(exchange, program)}, {state}"


def _name(exchange: Exchange, program: int) -> str:
    endpoint = exchange.endpoint(program)
    return f"program {program}" if endpoint is None else endpoint.name


def _full(channel: Channel, receiver: str) -> str:
    """Why no slot of *channel* is free."""
    n_slots = len(channel.slots)
    slots = f"all {n_slots} slots hold messages" if n_slots > 1 else "the slot holds a message"
    if len(channel.held) + len(channel.coming) < n_slots:
        return f"commands of {receiver} still use bytes of the slots"
    if not channel.held:
        return f"{slots} that {receiver} has not received"
    held = f"received at {_lines(channel)} and not freed"
    if not channel.coming:
        return f"{slots} that {receiver} has {held}"
    return f"{slots}: {receiver} has {held} {len(channel.held)}, and has not received {len(channel.coming)}"


def _ways_out(channel: Channel, receiver: str, wait: object, waiting_at: str) -> list[str]:
    """What else lets the sender of *channel* go on. *receiver* waits at *waiting_at* for *wait*."""
    ways = []
    if channel.coming:
        sends = isinstance(wait, CreditWait)
        ways.append(f"receive before you send at {waiting_at}" if sends else f"receive before {waiting_at}")
    if channel.held:
        ways.append(f"free what {receiver} received at {_lines(channel)} before it waits at {waiting_at}")
    return ways


def _lines(channel: Channel) -> str:
    """The lines at which the receiver took the messages that it holds, each once."""
    return _listed(list(dict.fromkeys(message.line_taken for message in channel.held)))


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_SHOWN
    return ", ".join(names[:_MOST_SHOWN]) + (f" and {more} more" if more > 0 else "")
