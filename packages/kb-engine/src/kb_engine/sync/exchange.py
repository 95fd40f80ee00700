"""Exchange: the channels and counters of one launch, and the programs at their ends.

Design: docs/design/messages.md
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from msgspec import Struct

from kb_engine.block.pe_roles import MessageQueue
from kb_engine.memory.allocator import Allocator, OutOfMemoryError
from kb_engine.sync.channel import SLOT_NBYTES, Channel, Counter, Credit, Message, Ring
from kb_engine.timing.clock import Clock
from kb_messages import KernelError, Rectangle, SimulationStuckError, TopologyError

Tag = Hashable
"""The tag of a channel or the flag of a counter, as kernels write it: an integer, or a tuple of integers and texts."""


class BarrierRound(Struct, frozen=True):
    """The flag of one round of a barrier: the round, from 0 on, and the programs of a group, () for all programs."""

    number: int
    members: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"round {self.number} of {self.barrier}"

    @property
    def barrier(self) -> str:
        """The barrier with the programs of its group: `the barrier`, or `the barrier of programs 0 to 3, 8`."""
        return f"the barrier of programs {_runs(self.members)}" if self.members else "the barrier"


class LostMessageError(KernelError):
    """A message that nobody received before its launch ended."""

    exit_code = SimulationStuckError.exit_code


class Endpoint(NamedTuple):
    """A program that has a PE: the id, the message queue and the TCM of the PE, and the name of the program.

    `queue` is None on a PE without a message queue. `when_unused(rectangle, call)` calls `call()` once, at once or
    later, when no command of the program that was issued before uses the bytes.
    """

    pe_id: str
    name: str
    queue: MessageQueue[Any] | None
    tcm: Allocator
    when_unused: Callable[[Rectangle, Callable[[], None]], None]


class Exchange:
    """The channels and counters of a launch of *n_programs* programs on *n_pes* PEs.

    *signal_number* numbers the signals of all launches; `n_signals` counts those of this one. `is_used` says whether a
    program has sent, received, signalled or waited. Slots belong to the launch: `close` gives them back.
    """

    def __init__(self, n_programs: int, n_pes: int, signal_number: Iterator[int]) -> None:
        self.n_programs = n_programs
        self.n_pes = n_pes
        self.n_signals = 0
        self.is_used = False
        self.channels: dict[tuple[int, int, Tag], Channel] = {}
        self.counters: dict[tuple[int, Tag], Counter] = {}
        self._signal_number = signal_number
        self._endpoints: dict[int, Endpoint] = {}
        self._placed: dict[int, Callable[[], Endpoint]] = {}
        self._ended: set[int] = set()
        self._when_placed: dict[int, list[Callable[[], None]]] = {}
        self._slots: list[tuple[Allocator, int]] = []

    def place(self, program: int, endpoint: Callable[[], Endpoint]) -> None:
        """Notes that *program* has a PE, and begins now. `endpoint()` is called when another program asks for it.

        Nothing is noted in a launch with more programs than PEs, where no program can ask.
        """
        if self.n_programs > self.n_pes:
            return
        self._placed[program] = endpoint
        for call in self._when_placed.pop(program, ()):
            call()

    def when_placed(self, program: int, call: Callable[[], None]) -> None:
        """Calls `call()` once *program* has a PE. The caller has seen that the program has none."""
        self._when_placed.setdefault(program, []).append(call)

    def endpoint(self, program: int) -> Endpoint | None:
        """The endpoint of *program*; None while it has no PE."""
        found = self._endpoints.get(program)
        if found is None and program in self._placed:
            found = self._endpoints[program] = self._placed[program]()
        return found

    def _at(self, program: int) -> Endpoint:
        """The endpoint of *program*, which has a PE."""
        found = self.endpoint(program)
        assert found is not None, f"program {program} has a PE"
        return found

    def has_ended(self, program: int) -> bool:
        """Whether *program* has ended."""
        return program in self._ended

    def channel(self, source: int, to: int, tag: Tag) -> Channel:
        """The channel of *tag* from program *source* to program *to*."""
        key = source, to, tag
        found = self.channels.get(key)
        if found is None:
            found = self.channels[key] = Channel(source, to, shown(tag))
        return found

    def counter(self, program: int, flag: Tag) -> Counter:
        """The counter *flag* of *program*."""
        found = self.counters.get((program, flag))
        if found is None:
            found = self.counters[program, flag] = Counter()
        return found

    def open(self, channel: Channel, nbytes: int, line: str, clock: Clock) -> None:
        """Takes the slots of *channel*, each for *nbytes* rounded up, from the far end of the receiver's TCM.

        Raises KernelError at *line* where the TCM has no room, or no links lead from a queue to the other. The sender
        has the credits of the slots at once. A slot whose bytes a command of the receiver still uses is free when the
        command is done, and its credit comes then.
        """
        receiver = self._at(channel.to)
        assert receiver.queue is not None, "a sender has seen the queue of the receiver"
        self.check_way(channel.source, channel.to, line)
        self.check_way(channel.to, channel.source, line)
        channel.slot_nbytes, channel.line_opened = -(-nbytes // SLOT_NBYTES) * SLOT_NBYTES, line
        depth = receiver.queue.depth
        holder = f"the {depth} slots of {channel.tag} at {line}"
        for _ in range(depth):
            try:
                start = receiver.tcm.take_last(channel.slot_nbytes, holder)
            except OutOfMemoryError as error:
                got = f"{depth} slots of {channel.slot_nbytes} bytes for messages to {receiver.name}, {channel.tag}"
                fix = "send smaller parts, keep fewer values there, or lower the depth of its pe_queue"
                raise KernelError(f"{line}: {error.where}", got, error.needs, fix) from None
            self._slots.append((receiver.tcm, start))
            channel.slots.append(start)
        self._give_first(channel, receiver, clock)

    def _give_first(self, channel: Channel, receiver: Endpoint, clock: Clock) -> None:
        """Gives the first credit of each slot of *channel*, which is open now, to the sender."""
        is_opening = True

        def unused(slot: int) -> None:
            times_ps = (0, 0) if is_opening else self._credit_ps(channel)
            channel.give(Credit(slot, clock.now_ps + sum(times_ps), -1, *times_ps))

        for slot, start in enumerate(channel.slots):
            whole = Rectangle(start, 1, channel.slot_nbytes, channel.slot_nbytes)
            receiver.when_unused(whole, partial(unused, slot))
        is_opening = False

    def free(self, message: Message, channel: Channel, now_ps: int, free_seq: int) -> None:
        """Gives the slot of *message* back now. Its credit goes to the sender."""
        message.t_freed_ps, message.free_seq = now_ps, free_seq
        queue_ps, way_ps = self._credit_ps(channel)
        message.t_credited_ps = now_ps + queue_ps + way_ps
        channel.held.remove(message)
        channel.give(Credit(message.slot, message.t_credited_ps, message.seq, queue_ps, way_ps))

    def _credit_ps(self, channel: Channel) -> tuple[int, int]:
        """Picoseconds of the credit of a slot in the receiver's queue, and on the way from there to the sender."""
        src, dst = self._at(channel.to).queue, self._at(channel.source).queue
        assert src is not None, "a sender has seen the queue of the receiver"
        assert dst is not None, "a sender has a queue"
        return src.credit_ps(), self.latency_ps(src, dst)

    def signal(self, source: int, to: int, flag: Tag, n: int, t_sent_ps: int) -> tuple[int, int]:
        """A signal leaves at *t_sent_ps* and adds *n* to counter *flag* of *to*. Returns its number and when it rings.

        Both programs have a PE with a queue.
        """
        src, dst = self._at(source).queue, self._at(to).queue
        assert src is not None, "the sender has a queue"
        assert dst is not None, "the receiver has a queue"
        number = next(self._signal_number)
        self.n_signals += 1
        t_rung_ps = t_sent_ps + self.latency_ps(src, dst) + dst.doorbell_ps()
        self.counter(to, flag).add(Ring(t_rung_ps, number, n, source))
        return number, t_rung_ps

    def check_way(self, source: int, to: int, line: str) -> None:
        """Raises KernelError at *line* where no links lead from the queue of *source* to that of *to*."""
        src, dst = self._at(source).queue, self._at(to).queue
        assert src is not None, "the caller has seen that both programs have a queue"
        assert dst is not None, "the caller has seen that both programs have a queue"
        try:
            self.latency_ps(src, dst)
        except TopologyError as error:
            fix = f"add such a link of pe_queue to `cube.links`, both ways; {error.fix}"
            raise KernelError(f"{line}: {error.where}", error.got, error.needs, fix) from None

    def latency_ps(self, src: MessageQueue[Any], dst: MessageQueue[Any]) -> int:
        """Picoseconds without bytes from queue *src* to queue *dst*. Raises TopologyError where no links lead there."""
        if src is dst:  # a PE whose program has ended may run a second one
            return 0
        latency_ps: int = src.context.fabric.leg(src.node_id, dst.node_id).latency_ps
        return latency_ps

    def absent(self, flag: BarrierRound, turn: int) -> list[int]:
        """The programs of the barrier of *flag* that have not come to the barrier for the *turn*-th time, from 1 on.

        A program that comes signals its neighbour, and nobody else signals that counter of the neighbour.
        """
        members, first = flag.members or range(self.n_programs), BarrierRound(0, flag.members)
        neighbours = [*members[1:], members[0]]
        counters = [self.counters.get((each, first)) for each in neighbours]
        totals = [0 if counter is None else counter.total for counter in counters]
        return [member for member, total in zip(members, totals, strict=True) if total < turn]

    def end(self, program: int) -> None:
        """Notes that *program* has ended."""
        self._ended.add(program)

    def close(self) -> None:
        """Gives all slots back, because the launch has ended. Raises LostMessageError for a message nobody received."""
        for tcm, start in self._slots:
            tcm.release(start)
        self._slots.clear()
        lost = [channel for channel in self.channels.values() if channel.coming]
        if lost:
            raise self._lost(lost[0], sum(len(channel.coming) for channel in lost))

    def _lost(self, channel: Channel, n_lost: int) -> LostMessageError:
        message = channel.coming[0]
        source, receiver = self._at(channel.source), self._at(channel.to)
        got = (
            f"a message of {message.matrix.nbytes} bytes from {source.name} to {receiver.name}, {channel.tag}, that "
            f"nobody received (of {channel.n_sent} sent there, {channel.n_taken} were received"
        )
        got += f", the last at {channel.line_last}" if channel.line_last else ""
        got += f"), one of {n_lost} such messages" if n_lost > 1 else ")"
        return LostMessageError(message.line_sent, got, "a tl.recv for each tl.send")


def shown(tag: Tag) -> str:
    """*tag* as reports show it: `tag 0`, or `tag reduce 3`."""
    return f"tag {_words(tag)}"


def shown_flag(flag: Tag) -> str:
    """*flag* as reports show it: `flag 0`, `flag halo 3`, or `round 0 of the barrier`."""
    if isinstance(flag, BarrierRound):
        return str(flag)
    return f"flag {_words(flag)}"


def _words(tag: Tag) -> str:
    """*tag* as words: texts that are no names stand in quotes, and one part of a tuple in brackets.

    No two tags have one text, so that a log can tell their channels apart.
    """
    if isinstance(tag, tuple) and len(tag) > 1:
        return " ".join(map(_words, tag))
    return tag if isinstance(tag, str) and tag.isidentifier() else repr(tag)


def _runs(numbers: Sequence[int]) -> str:
    """*numbers* with runs of three or more as `0 to 7` or `0 to 14 by 2`. No two sequences have one text."""
    parts, at = list[str](), 0
    while at < len(numbers):
        end = at + 1
        step = numbers[end] - numbers[at] if end < len(numbers) else 1
        while end < len(numbers) and numbers[end] - numbers[end - 1] == step:
            end += 1
        end = end if end - at > 2 else at + 1
        by = f" by {step}" if step != 1 else ""
        parts.append(f"{numbers[at]} to {numbers[end - 1]}{by}" if end - at > 1 else str(numbers[at]))
        at = end
    return ", ".join(parts)
