"""The calendar queue: a clock runs its entries in the same order with buckets as with a heap."""

import math
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_engine.timing import buckets
from kb_engine.timing import clock as clock_module
from kb_engine.timing.clock import Clock

# An entry that runs schedules callbacks and events after these delays; its events may be urgent, and it may stop the
# clock.
children = st.lists(st.sampled_from([0, 0, 1, 2, 3, 7, 7, 40, 1000, 5000]), max_size=3)
stops = st.integers(0, 30).map(lambda number: number == 0)
programs = st.lists(st.tuples(children, children, st.booleans(), stops), min_size=20, max_size=60)


def history(program):
    """(time, number) of every entry in the order in which they run; entry n does what program[n] says."""
    clock, seen, numbers = Clock(), [], count()

    def schedule(delay, as_event, urgent):
        number = next(numbers)
        if number >= len(program):
            return
        if as_event:
            event = clock.event()
            event._ok, event._value = True, None
            event.callbacks.append(lambda _: run(number))
            clock.schedule(event, 0 if urgent else 1, delay)
        else:
            clock.call_at(clock.now + delay, run, number)

    def run(number):
        seen.append((clock.now, number))
        callbacks, events, urgent, stops = program[number]
        for delay in callbacks:
            schedule(delay, False, False)
        for delay in events:
            schedule(delay, True, urgent)
        if stops:
            clock.stop()

    for first in range(5):
        schedule(first // 2, False, False)
    while not clock.is_idle:
        assert clock.peek() == min(entry[0] for entry in clock.heap)
        clock.drain()
    assert clock.peek() == math.inf
    return seen


@given(programs, st.sampled_from([1, 2, 5]), st.sampled_from([1, 3, 8]))
def test_buckets_keep_the_order_of_the_heap(program, interval, many):
    expected = history(program)
    assert [t for t, _ in expected] == sorted(t for t, _ in expected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock_module, "HOUSEKEEPING_INTERVAL", interval)
        patch.setattr(buckets, "_MANY", many)
        assert history(program) == expected


def test_the_next_entry_is_seen_wherever_it_is_kept(monkeypatch):
    monkeypatch.setattr(clock_module, "HOUSEKEEPING_INTERVAL", 2)
    monkeypatch.setattr(buckets, "_MANY", 3)
    clock, seen = Clock(), []
    times = [0, 0, 5, 5, 6, 90, 90, 700]
    for t in times:
        clock.call_at(t, lambda _: seen.append((clock.now, clock.peek())), None)
    clock.drain()
    assert seen == list(zip(times, [*times[1:], math.inf], strict=True))


def test_what_fails_in_a_bucket_leaves_the_rest_scheduled(monkeypatch):
    monkeypatch.setattr(clock_module, "HOUSEKEEPING_INTERVAL", 2)
    monkeypatch.setattr(buckets, "_MANY", 3)
    clock, seen = Clock(), []

    def see(number):
        if number == 4:
            raise LookupError("here")
        seen.append(number)

    for number in range(10):
        clock.call_at(number, see, number)
    with pytest.raises(LookupError, match=r"^here$"):
        clock.drain()
    while not clock.is_idle:
        clock.step()
    assert seen == [0, 1, 2, 3, 5, 6, 7, 8, 9]
