"""The submission queue of a PE: commands wait for PE_SCHEDULER, which takes and decodes them one at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from kb_engine.block import Clock, CommandInFlight, StateVisitor
from kb_messages import DispatchWait


def dispatch_waits(
    command: CommandInFlight, turn_ps: int, in_order_ps: int, claimed_ps: int, now_ps: int
) -> list[tuple[DispatchWait, int]]:
    """Returns (wait, time at which it ended) for each wait of the tile of *command* that is dispatched at *now_ps*.

    It was the tile's turn from *turn_ps* on. The tiles that it must not overtake were fetched at *in_order_ps*, and the
    tile had its buffers at *claimed_ps*.
    """
    return [
        (DispatchWait.SUBMISSION_QUEUE, command.t_taken_ps),
        (DispatchWait.DECODE, command.t_decoded_ps),
        (DispatchWait.EARLIER_COMMANDS, command.t_fed_ps),
        (DispatchWait.EARLIER_TILES, turn_ps),
        (DispatchWait.FETCH_ORDER, in_order_ps),
        (DispatchWait.TILE_BUFFER, claimed_ps),
        (DispatchWait.QUEUE_FULL, now_ps),
    ]


class SubmissionQueue:
    """A queue of at most `depth` commands, and the table of the commands in flight.

    PE_SCHEDULER takes `command_ps` to take a command. A decoded command waits until `next_decoded` takes it;
    `on_decoded` is called after each decoding. *event_order* numbers the events of the PE.
    """

    __slots__ = (
        "_clock",
        "_command_ps",
        "_decoded",
        "_decoding",
        "_depth",
        "_event_order",
        "_in_flight",
        "_on_decoded",
        "_submissions",
        "_waiting_submitters",
    )

    def __init__(
        self, clock: Clock, depth: int, command_ps: int, on_decoded: Callable[[], None], event_order: Iterator[int]
    ) -> None:
        self._event_order = event_order
        self._clock = clock
        self._depth = depth
        self._command_ps = command_ps
        self._on_decoded = on_decoded
        self._submissions: deque[CommandInFlight] = deque()
        self._waiting_submitters: deque[Callable[[], None]] = deque()
        self._decoding: CommandInFlight | None = None
        self._decoded: deque[CommandInFlight] = deque()
        self._in_flight: dict[int, CommandInFlight] = {}

    @property
    def has_room(self) -> bool:
        """Whether fewer than `depth` commands wait to be taken."""
        return len(self._submissions) < self._depth

    def when_room(self, call: Callable[[], None]) -> None:
        """Calls *call* once, when there is room again. Callers are served first come, first served."""
        self._waiting_submitters.append(call)

    def submit(self, command: CommandInFlight) -> None:
        """Queues *command*. The caller has checked `has_room`."""
        self._in_flight[command.submitted.command_seq] = command
        self._submissions.append(command)
        if self._decoding is None:
            self._take_next()

    def visit_state(self, over: StateVisitor) -> None:
        """Hands the state of the queue to *over*.

        For the tiles of one command only the lengths count: other commands move on by events that this command does not
        cause.
        """
        over.same(len(self._submissions), len(self._decoded), len(self._in_flight), self._decoding is None)
        if over.command is not None:
            return
        over.same(len(self._waiting_submitters))
        for command in (*self._submissions, *self._decoded, *self._in_flight.values()):
            over.part(command)
        if self._decoding is not None:
            over.part(self._decoding)
        for call in self._waiting_submitters:
            over.call(call)
        self._in_flight = {each.submitted.command_seq: each for each in self._in_flight.values()}

    def next_decoded(self) -> CommandInFlight | None:
        """Removes and returns the command whose tiles are fed next, or None."""
        if not self._decoded:
            return None
        command = self._decoded.popleft()
        command.t_fed_ps = self._clock.now_ps
        return command

    def put_back(self, command: CommandInFlight) -> None:
        """Puts *command* back to the head of the decoded commands: `next_decoded` has yet to take it."""
        self._decoded.appendleft(command)

    @property
    def lone_command(self) -> CommandInFlight | None:
        """The decoded command if no other command is in flight, else None."""
        return self._decoded[0] if len(self._in_flight) == len(self._decoded) == 1 else None

    @property
    def last_decoded(self) -> CommandInFlight:
        """The command that was decoded last. It waits to be fed."""
        return self._decoded[-1]

    def forget(self, command: CommandInFlight) -> None:
        """Removes *command*, which is done, from the table."""
        del self._in_flight[command.submitted.command_seq]

    def _take_next(self) -> None:
        self._decoding = command = self._submissions.popleft()
        clock = self._clock
        now = command.t_taken_ps = clock.now_ps
        clock.call_at(now + self._command_ps, self._end_of_decode, command, self._event_order)
        if self._waiting_submitters:
            self._waiting_submitters.popleft()()

    def _end_of_decode(self, command: CommandInFlight) -> None:
        command.t_decoded_ps = self._clock.now_ps
        self._decoded.append(command)
        self._decoding = None
        if self._submissions:
            self._take_next()
        self._on_decoded()
