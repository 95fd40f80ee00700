"""Checks of memories: the order and the duration of their requests."""

from __future__ import annotations

from itertools import product
from typing import Any

from kb_engine.block.fabric_roles import MemoryComponent, said_read_latency_ps
from kb_engine.testing.subject import Subject
from kb_engine.timing.clock import Clock
from kb_messages import Rectangle

_NBYTES = 4096
_N_REQUESTS = 8
_SLOW_PS = 100_000_000
_SIZES = (64, 512, 1, _NBYTES)
_ROUNDS = 12


def check_serves_in_order(subject: Subject) -> None:
    """No request is served before it arrives. Reads are served in order among themselves, and so are writes."""
    block: Any = subject.build(Clock())
    before = {False: 0, True: 0}
    free = {False: 0, True: 0}
    for number, nbytes in enumerate((512, 64, 4096, 1, 512)):
        arrival, write = 1000 * number, bool(number % 2)
        memory = Rectangle(0, 1, nbytes, nbytes)
        first, last = subject.call("reserve", block.reserve, arrival, memory, arrival, write)
        if not (type(first) is type(last) is int and arrival <= first <= last and before[write] <= last):
            got = f"{first} and {last} for a request that arrives at {arrival}"
            subject.fail("reserve", got, "ints in order, not before the arrival nor before the request before")
        before[write] = last
        held = subject.call("held_ps", block.held_ps, memory, write)
        port = write and subject.call("has_write_port", lambda: block.has_write_port)
        if held is not None:
            begin, end = held
            latest = last if write else first
            if not (type(begin) is type(end) is int and max(arrival, free[port]) <= begin <= end and begin <= latest):
                got = f"{held} for a request that arrives at {arrival} and is answered at {first} and {last}"
                fix = "return None where requests of a port do not follow one another"
                subject.fail("held_ps", got, f"ints in order, from {max(arrival, free[port])} on", fix)
            free[port] = end
            latency_ps = None if write else subject.call("read_latency_ps", said_read_latency_ps, block, nbytes)
            if latency_ps is not None and begin + latency_ps != first:
                got = f"{latency_ps} for a read that is served at {begin} and answered at {first}"
                subject.fail("read_latency_ps", got, f"{first - begin}", "return None where reads of a size differ")


def check_commits_after_last_byte(subject: Subject) -> None:
    """A write whose bytes come in slowly is committed when its last byte is there, or later."""
    block: Any = subject.build(Clock())
    for arrival, last_byte in ((0, _SLOW_PS), (_SLOW_PS, 2 * _SLOW_PS)):
        memory = Rectangle(0, 1, _NBYTES, _NBYTES)
        times = subject.call("reserve", block.reserve, arrival, memory, last_byte, True)
        if min(times) < last_byte:
            got = f"a write that is committed at {min(times)}, with its last byte at {last_byte}"
            subject.fail("reserve", got, "a commit at the last byte or later", "commit not before last_byte_ps")


def check_takes_time(subject: Subject) -> None:
    """A request with bytes takes time, and many such requests at once take longer than one of them."""
    for write in (False, True):
        block: Any = subject.build(Clock())
        memory = Rectangle(0, 1, _NBYTES, _NBYTES)
        ends = [subject.call("reserve", block.reserve, 0, memory, 0, write)[1] for _ in range(_N_REQUESTS)]
        name = "write" if write else "read"
        if ends[0] <= 0:
            subject.fail("reserve", f"a {name} of {_NBYTES} bytes that takes no time", "at least 1 ps")
        if max(ends) <= ends[0]:
            got = f"{_N_REQUESTS} {name}s of {_NBYTES} bytes that take as long as one, {ends[0]} ps"
            subject.fail("reserve", got, "longer for more", "have the bytes of a request hold the memory")


def says_when_free(impl: type[MemoryComponent[Any]]) -> bool:
    """Whether *impl* itself states `free_times`."""
    return "free_times" in vars(impl)


def check_takes_the_same_time_when_free(subject: Subject) -> None:
    """Requests of one size take the same time whenever none of `free_times` is after now."""
    block: Any = subject.build(Clock())
    known: dict[tuple[int, bool], tuple[int, ...]] = {}
    arrival = 0
    for number in range(_ROUNDS):
        for nbytes, write in product(_SIZES, (False, True)):
            memory = Rectangle(number * _NBYTES % max(subject.memory_nbytes - _NBYTES, 1), 1, nbytes, nbytes)
            served = subject.call("reserve", block.reserve, arrival, memory, arrival, write)
            free = [getattr(block, name) for name in type(block).free_times]
            times = tuple([time - arrival for time in served] + [max(time - arrival, 0) for time in free])
            if known.setdefault((nbytes, write), times) != times:
                kind = "write" if write else "read"
                got = f"a {kind} of {nbytes} bytes that takes {times}, after one that took {known[nbytes, write]} ps"
                subject.fail("free_times", got, "equal times once the memory is free", "say no `free_times`")
            arrival = max([arrival, *free]) + 1 + 977 * number
