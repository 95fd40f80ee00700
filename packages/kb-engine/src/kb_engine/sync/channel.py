"""Channel: the messages from one program of a launch to another, with the slots in the receiver's TCM.

Design: docs/design/messages.md
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy.typing as npt

from kb_engine.memory.pending import Producer
from kb_messages import DType, Matrix

SLOT_NBYTES: Final = 64
"""The size of a slot is a multiple of this number of bytes, the alignment of values in TCM."""
UNKNOWN_PS: Final = -1


class Payload(NamedTuple):
    """A value as its sender knows it: its shape, its elements or None, and the op that produces pending elements."""

    shape: tuple[int, ...]
    dtype: DType
    known: npt.NDArray[Any] | None
    producer: Producer | None


class Credit(NamedTuple):
    """The right to fill a slot, from `ready_ps` on. `after_seq` is the send whose message lay in the slot before.

    The credit left the receiver's queue after `queue_ps`, and came to the sender after `way_ps` more.
    """

    slot: int
    ready_ps: int
    after_seq: int = -1
    queue_ps: int = 0
    way_ps: int = 0


class Message:
    """One message: command `seq` of the sender, at `line_sent`, into slot number `slot`, at `matrix`.

    Times are picoseconds, UNKNOWN_PS while they are not known: the sender had its credit (`t_credit_ps`), the doorbell
    rang, the receiver's kernel took the message, and gave the slot back, and the credit is back at the sender.
    """

    __slots__ = (
        "free_seq", "line_sent", "line_taken", "matrix", "payload", "seq", "slot", "t_credit_ps",
        "t_credited_ps", "t_freed_ps", "t_rung_ps", "t_taken_ps", "take_seq",
    )  # fmt: skip

    def __init__(self, seq: int, slot: int, matrix: Matrix, payload: Payload, line_sent: str, t_credit_ps: int) -> None:
        self.seq = seq
        self.slot = slot
        self.matrix = matrix
        self.payload = payload
        self.line_sent = line_sent
        self.t_credit_ps = t_credit_ps
        self.t_rung_ps = self.t_taken_ps = self.t_freed_ps = self.t_credited_ps = UNKNOWN_PS
        self.line_taken = ""
        self.take_seq = self.free_seq = -1

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the message's row in the table `sends`, in the order of its columns."""
        times = self.t_credit_ps, self.t_rung_ps, self.t_taken_ps, self.t_freed_ps, self.t_credited_ps
        return self.seq, self.slot, self.matrix.nbytes, *times, self.take_seq, self.free_seq


class Channel:
    """The messages of one tag from program `source` to program `to`, which arrive in the order of their sends.

    The first send opens the channel: `slot_nbytes` and `slots`, the addresses of the slots, are set then, and
    `line_opened` is its line, and `line_last` the line of the last receipt. A message takes the slot that came free
    first. `on_credit` and `on_message` are called once, with the time at which a credit is there or a doorbell
    rings, when that time becomes known: the sender, or the receiver, waits for it.
    """

    def __init__(self, source: int, to: int, tag: str) -> None:
        self.source = source
        self.to = to
        self.tag = tag
        self.slot_nbytes = 0
        self.slots: list[int] = []
        self.line_opened = ""
        self.credits: deque[Credit] = deque()
        self.n_sent = self.n_taken = 0
        self.line_last = ""
        self.coming: deque[Message] = deque()
        self.held: list[Message] = []
        self.on_credit: Callable[[int], None] | None = None
        self.on_message: Callable[[int], None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the channel has slots."""
        return bool(self.slots)

    def give(self, credit: Credit) -> None:
        """Gives *credit* to the sender, who may wait for it."""
        self.credits.append(credit)
        on_credit, self.on_credit = self.on_credit, None
        if on_credit is not None:
            on_credit(credit.ready_ps)

    def take_credit(self) -> Credit:
        """Takes the credit that is there first. The caller has seen that there is one."""
        return self.credits.popleft()

    def sent(self, message: Message) -> None:
        """*message* is on its way."""
        self.n_sent += 1
        self.coming.append(message)

    def rings(self, message: Message, t_rung_ps: int) -> None:
        """The doorbell of *message* rings at *t_rung_ps*, at or after now."""
        message.t_rung_ps = t_rung_ps
        if self.on_message is not None and self.coming[0] is message:
            on_message, self.on_message = self.on_message, None
            on_message(t_rung_ps)

    @property
    def next_rung_ps(self) -> int:
        """When the doorbell of the next message to take rings; UNKNOWN_PS while that is not known."""
        return self.coming[0].t_rung_ps if self.coming else UNKNOWN_PS

    def take(self, line: str, now_ps: int, take_seq: int) -> Message:
        """Takes the next message, whose doorbell has rung, at *line*."""
        message = self.coming.popleft()
        self.line_last = line
        message.line_taken, message.t_taken_ps, message.take_seq = line, now_ps, take_seq
        self.n_taken += 1
        self.held.append(message)
        return message


class Ring(NamedTuple):
    """Signal `number` of program `source` adds `n` to a counter at `t_rung_ps`."""

    t_rung_ps: int
    number: int
    n: int
    source: int


_NO_RING: Final = Ring(UNKNOWN_PS, -1, 0, -1)


class Counter:
    """A counter of one program, to which signals add. It begins at 0 and only grows.

    `on_signal` is called when a signal is sent: the program waits for the counter. Signals of one picosecond count in
    the order of their numbers.
    """

    def __init__(self) -> None:
        self._rung: list[Ring] = []
        self._totals: list[int] = []
        self.on_signal: Callable[[], None] | None = None

    def add(self, signal: Ring) -> None:
        """Notes *signal*, which rings at or after now."""
        at = bisect_left(self._rung, signal)
        self._rung.insert(at, signal)
        del self._totals[at:]
        total = self._totals[-1] if at else 0
        for ring in self._rung[at:]:
            total += ring.n
            self._totals.append(total)
        if self.on_signal is not None:
            self.on_signal()

    def reached(self, n: int) -> Ring:
        """Returns the signal that lifts the counter to *n*, of those sent so far.

        Its time is UNKNOWN_PS and its number -1 where they do not lift the counter so far.
        """
        at = bisect_left(self._totals, n)
        return _NO_RING if at == len(self._totals) else self._rung[at]

    @property
    def total(self) -> int:
        """The counter with all signals that were sent."""
        return self._totals[-1] if self._totals else 0
