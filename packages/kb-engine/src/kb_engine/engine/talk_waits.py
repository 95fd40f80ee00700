"""TalkWaits: what a kernel of a stuck simulation waits for of another program, and which program that is.

Design: docs/design/trace-and-stuck-runs.md
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kb_engine.program.messages import CreditWait, MessageWait, SignalWait
from kb_engine.sync.channel import Channel
from kb_engine.sync.exchange import Exchange, shown_flag

_MOST_LINES = 3


class Waiter(NamedTuple):
    """One line of a report. Two PEs that are stuck in the same way have waiters of equal `shape`.

    `then` is the next waiter of the chain. Where it is None, `missing` names the event that never came. `change` is the
    smallest change of a capacity that would let the waiter go on.
    """

    shape: tuple[str, ...]
    text: str
    then: object = None
    missing: str = ""
    change: str = ""


class TalkWaits:
    """The waits of kernels for other programs. *runners* are the programs that have not ended."""

    def __init__(self, runners: Sequence[Any]) -> None:
        self._runners = {runner.program.number: runner for runner in runners}

    def waiter(
        self, runner: Any, wait: CreditWait | MessageWait | SignalWait, opening: str, shape: tuple[str, ...]
    ) -> Waiter:
        """The line for *runner*, whose kernel waits for *wait*. *opening* and *shape* begin its text and its shape."""
        if isinstance(wait, SignalWait):
            return self._for_signal(runner, wait, opening, shape)
        channel, exchange = wait.channel, runner.exchange
        if isinstance(wait, MessageWait):
            source = _name(exchange, channel.source)
            text = f"{opening} for a message of {source}, {channel.tag}"
            return Waiter((*shape, "message"), text, *self._then(exchange, channel.source, f"a message of {source}"))
        receiver = _name(exchange, channel.to)
        if exchange.endpoint(channel.to) is None:
            text = f"{opening} for {receiver} to begin"
            return Waiter((*shape, "begin"), text, None, f"a PE for {receiver}")
        then, missing = self._then(exchange, channel.to, f"a tl.recv of {receiver}")
        text = f"{opening} for a credit of {receiver}, {channel.tag}: {_full(channel, receiver)}"
        queue = exchange.endpoint(channel.to).queue
        ways = ["receive before you send"] if channel.coming else []
        ways += [f"free what {receiver} received at {', '.join(_lines(channel))} before"] if channel.held else []
        change = f"depth of {queue.node_id} from {queue.depth} to {queue.depth + 1}, or {' and '.join(ways)}"
        return Waiter((*shape, "credit"), text, then, missing, change)

    def _for_signal(self, runner: Any, wait: SignalWait, opening: str, shape: tuple[str, ...]) -> Waiter:
        exchange = runner.exchange
        if wait.source is not None:
            source, name = _name(exchange, wait.source), shown_flag(wait.flag)
            text = f"{opening} for {source} in {name}"
            return Waiter((*shape, "barrier"), text, *self._then(exchange, wait.source, f"a tl.barrier of {source}"))
        flag, total = shown_flag(wait.flag), wait.counter.total
        text = f"{opening} for {flag} to be {wait.n}: signals have added {total} so far"
        others = [each for each in self._runners.values() if each is not runner]
        ended = exchange.n_programs - 1 - len(others)
        missing = f"{wait.n - total} for {flag} of {runner.name} ("
        missing += (
            f"{ended} of the {exchange.n_programs - 1} other programs have ended"
            if ended
            else "no other program has ended"
        )
        return Waiter((*shape, "signal"), text, others[0] if len(others) == 1 else None, f"{missing})")

    def _then(self, exchange: Exchange, program: int, what: str) -> tuple[Any, str]:
        """The runner of *program*, for which a kernel waits. *what* is missing where that program goes on no more."""
        runner = self._runners.get(program)
        state = "which has ended" if exchange.has_ended(program) else "which has not begun"
        return runner, f"{what}, {state}"


def _name(exchange: Exchange, program: int) -> str:
    endpoint = exchange.endpoint(program)
    return f"program {program}" if endpoint is None else endpoint.name


def _full(channel: Channel, receiver: str) -> str:
    """What the slots of *channel* hold."""
    slots = f"all {len(channel.slots)} slots hold messages" if len(channel.slots) > 1 else "the slot holds a message"
    if not channel.held:
        return f"{slots} that {receiver} has not received"
    held = f"received at {', '.join(_lines(channel))} and not freed"
    if not channel.coming:
        return f"{slots} that {receiver} has {held}"
    return f"{slots}: {receiver} has {held} {len(channel.held)}, and has not received {len(channel.coming)}"


def _lines(channel: Channel) -> list[str]:
    """The lines at which the receiver took the messages that it holds, each once."""
    lines = list(dict.fromkeys(message.line_taken for message in channel.held))
    more = [f"{len(lines) - _MOST_LINES} more lines"] if len(lines) > _MOST_LINES else []
    return [*lines[:_MOST_LINES], *more]
