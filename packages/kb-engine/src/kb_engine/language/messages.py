"""Messages and signals between the programs of a launch.

Design: docs/design/messages.md
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import index
from typing import Any, Final, Protocol, SupportsIndex, TypeAlias, cast

import numpy as np

from kb_engine.language.atomics import AtomicOps
from kb_engine.program.author.arguments import describe
from kb_engine.program.port import Completion, MessagePort
from kb_engine.program.tcm_holder import TcmHolder
from kb_engine.program.values.handles import Handle, LoadedTensor, Permuted, TransposedHandle
from kb_engine.program.values.host_values import HostValue
from kb_engine.program.values.symbols import plain
from kb_engine.sync.channel import Channel, Message, Payload
from kb_engine.sync.exchange import BarrierRound, Tag
from kb_messages import KernelError

TagOrFlag: TypeAlias = "int | str | tuple[int | str, ...]"
_PLAIN: Final = frozenset((int, str))
_MOST_PARTS: Final = 8
_MOST_CHARACTERS: Final = 100
"""The most parts of a tag, and characters of a part. Source: assumed; a tag is a name, and no data."""


class Members(Protocol):
    """A group of programs: the numbers of its members, in the order of the group."""

    @property
    def members(self) -> Sequence[int]:
        """The numbers of the programs."""


class SlotLease:
    """The hold of a program on the slot of a received message. It has the interface of a Lease for one value."""

    __slots__ = ("_channel", "_message", "_messages", "has_ended")

    def __init__(self, messages: MessagePort, message: Message, channel: Channel) -> None:
        self._messages = messages
        self._message = message
        self._channel = channel
        self.has_ended = False

    def release(self, start: int) -> None:
        """Gives the slot back."""
        self.has_ended = True
        self._messages.free(self._message, self._channel)


class SlotHolder(TcmHolder):
    """The hold of values on the slot of a received message."""

    __slots__ = ()


class MessageOps(AtomicOps):
    """`tl.send`, `tl.recv`, `tl.signal`, `tl.wait_for` and `tl.barrier`.

    A program that waits keeps its PE, so a launch that uses these calls has at most one program on each PE. All of them
    raise KernelError on a chip without `pe_queue`, for a program number that is not there or is the caller's own, and
    in a launch with more programs than PEs.
    """

    def send(self, value: Handle | TransposedHandle | Permuted | HostValue, to: int, tag: TagOrFlag = 0) -> None:
        """Sends *value*, which lies in TCM, to program *to* of the launch, which receives it by `tl.recv`.

        The messages of a program to another with one *tag* arrive in their order. The receiver has `depth` slots for
        them (an attribute of its `pe_queue`). The call waits until a slot is free, and returns when the command is in
        the queue of the PE; the bytes of *value* are kept until the command is done. The first message takes the slots
        from the receiver's TCM, for the rest of the launch. Raises KernelError for a larger message later, for a full
        TCM of the receiver, and for anything but a value.
        """
        line = self._port.line()
        self.leave("sends a message")
        self._programs.let_go(SlotHolder)
        stored: object = value
        if isinstance(value, HostValue):
            stored = self.stored(value, value.integers, line)
        elif isinstance(value, TransposedHandle | Permuted):
            stored = value.laid_out()
        src = self._arrived(stored, line)
        if not isinstance(stored, Handle) or src is None:
            raise KernelError(line, f"tl.send of {describe(stored)}", "a value in TCM, such as a result of tl.load")
        completion = Completion()
        self._keep_until(completion, stored)
        payload = Payload(stored.shape, stored.dtype, stored.known, stored.producer)
        self._port.messages.send(src, payload, self._program(to, "send", line), self._tag(tag, line), line, completion)

    def recv(self, source: int, tag: TagOrFlag = 0) -> LoadedTensor:
        """Waits for the next message with *tag* from program *source*. Returns the value in the slot, without a copy.

        Shape and dtype are those of the value that was sent. The last reference to the value, or `tl.free`, gives the
        slot back to the sender. Math on the value is computed before the program waits for another program again, so
        that a value that the kernel dropped holds no slot. On a PE whose CPU issues ahead, the slot is free when the
        last command that reads it is done.
        """
        line = self._port.line()
        self.leave("receives a message")
        self._programs.let_go(SlotHolder)
        messages = self._port.messages
        message, channel = messages.receive(self._program(source, "recv", line), self._tag(tag, line), line)
        payload = message.payload
        holder = SlotHolder(SlotLease(messages, message, channel), message.matrix, line)
        value = LoadedTensor(message.matrix, payload.shape, payload.known, payload.producer, self, holder)
        value.completion.finish()
        return value

    def signal(self, to: int, flag: TagOrFlag, n: int = 1) -> None:
        """Adds *n* to the counter *flag* of program *to*, when all earlier commands of this program are done.

        Counters begin at 0 with the launch and only grow. The call returns when PE_CPU has issued the signal. Raises
        KernelError for an *n* below 1.
        """
        line = self._port.line()
        self.leave("sends a signal")
        count = self._count(n, "signal", line)
        self._port.messages.signal(self._program(to, "signal", line), self._tag(flag, line), count, line)

    def wait_for(self, flag: TagOrFlag, n: int = 1) -> None:
        """Returns when the counter *flag* of this program is *n* or more. Raises KernelError for an *n* below 1."""
        line = self._port.line()
        self.leave("waits for a signal")
        self._programs.let_go(SlotHolder)
        self._port.messages.wait_for(self._tag(flag, line), self._count(n, "wait_for", line), line)

    def barrier(self, group: Members | Sequence[int] | None = None) -> None:
        """Returns when all programs of *group* have called, by default all programs of the launch.

        A dissemination barrier of signals: in round k, a member signals the member 2 ** k places on, and waits for the
        one 2 ** k places before, so P members take ceil(log2 P) rounds. Source: Hensgen, Finkel and Manber, "Two
        algorithms for barrier synchronization", 1988. Raises KernelError where this program is no member.
        """
        line = self._port.line()
        self.leave("waits at a barrier")
        self._programs.let_go(SlotHolder)
        members = self._members(group, line)
        here = members.index(plain(self._port.program_id))
        messages = self._port.messages
        turn = messages.begin_barrier(members, line)
        named = () if members == tuple(range(self._port.num_programs)) else members
        step, number_of_round = 1, 0
        while step < len(members):
            flag = BarrierRound(number_of_round, named)
            messages.signal(members[(here + step) % len(members)], flag, 1, line)
            messages.wait_for(flag, turn, line, members[here - step])
            step, number_of_round = 2 * step, number_of_round + 1

    def _members(self, group: Members | Sequence[int] | None, line: str) -> tuple[int, ...]:
        """The programs of *group*, with this one among them."""
        if group is None:
            return tuple(range(self._port.num_programs))
        listed: Any = getattr(group, "members", group)
        if isinstance(listed, str | bytes) or not isinstance(listed, Sequence | range):
            raise KernelError(line, f"a group that is {describe(group)}", "a group, or the numbers of its programs")
        members = tuple(self._program(each, "barrier", line) for each in listed)
        here, own, n_programs = plain(self._port.program_id), "this program", self._port.num_programs
        for member in members:
            if not 0 <= member < n_programs:
                raise KernelError(line, f"a group with program {member}", f"programs from 0 to {n_programs - 1}")
        if here not in members or len(set(members)) < len(members):
            got = f"a group without program {here}" if here not in members else "a group with a program twice"
            raise KernelError(line, got, f"a group of different programs, {own} among them")
        return members

    def _program(self, number: object, call: str, line: str) -> int:
        """*number*, the number of a program, as an int."""
        if type(number) is int:
            return number
        found = plain(number)
        if isinstance(found, bool) or not isinstance(found, SupportsIndex):
            raise KernelError(line, f"tl.{call} with program {_shown(number)}", "the number of a program, an int")
        return index(found)

    def _count(self, n: object, call: str, line: str) -> int:
        found = plain(n)
        if isinstance(found, bool) or not isinstance(found, SupportsIndex) or index(found) < 1:
            raise KernelError(line, f"tl.{call} with n = {_shown(n)}", "an integer of at least 1")
        return index(found)

    def _tag(self, tag: object, line: str) -> Tag:
        """*tag* as a key: an int, a text, or a tuple of these."""
        if type(tag) is int:
            return tag
        is_plain = type(tag) is tuple and all(type(each) in _PLAIN for each in tag)
        key = _key_of_plain(cast("tuple[int | str, ...]", tag)) if is_plain else _key_of(tag)
        if key is None:
            needs = f"an int, a text, or a tuple of at most {_MOST_PARTS} of these"
            raise KernelError(line, f"the tag {_shown(tag)}", needs)
        return key


def _key_of(tag: object) -> Tag | None:
    """*tag* as a key, None for one that is no tag."""
    parts = tuple(map(plain, tag)) if isinstance(tag, tuple) else (plain(tag),)
    fits = 0 < len(parts) <= _MOST_PARTS and all(isinstance(each, int | str | np.integer) for each in parts)
    if not fits or not all(str(each).isprintable() and len(str(each)) <= _MOST_CHARACTERS for each in parts):
        return None
    key = tuple(each if isinstance(each, str) else int(each) for each in parts)
    return key if isinstance(tag, tuple) else key[0]


@lru_cache(maxsize=4096)
def _key_of_plain(tag: tuple[int | str, ...]) -> Tag | None:
    """`_key_of` a tuple of ints and texts, which kernels pass again and again."""
    return _key_of(tag)


def _shown(value: object) -> str:
    """A wrong number or tag for a message: its text if it is short, else its type."""
    is_plain = value is None or isinstance(value, int | float | str | tuple)
    return repr(value) if is_plain and len(repr(value)) <= _MOST_CHARACTERS else describe(value)
