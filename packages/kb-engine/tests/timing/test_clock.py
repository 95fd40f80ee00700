import math
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_engine.timing import clock as clock_module
from kb_engine.timing.clock import HOUSEKEEPING_INTERVAL, Clock
from kb_messages import KbError


def test_callbacks_run_in_order_of_time():
    clock, seen = Clock(), []
    for t in (30, 10, 20):
        clock.call_at(t, lambda name: seen.append((name, clock.now)), t)
    clock.drain()
    assert seen == [(10, 10), (20, 20), (30, 30)]


def test_entries_at_one_time_run_in_the_order_of_scheduling():
    clock, seen = Clock(), []
    for name in range(50):
        clock.call_at(7, seen.append, name)
    clock.drain()
    assert seen == list(range(50))


def test_callbacks_and_processes_share_one_order():
    clock, seen = Clock(), []

    def process(name):
        yield clock.timeout(10)
        seen.append(name)
        yield clock.timeout(5)
        seen.append(name.upper())

    clock.process(process("a"))
    clock.call_at(0, lambda _: clock.call_at(10, seen.append, "callback"), None)
    clock.process(process("b"))
    clock.call_at(12, seen.append, "between")
    clock.drain()
    # Processes begin first at time 0, as SimPy's urgent events, so both timeouts were scheduled before the callback.
    assert seen == ["a", "b", "callback", "between", "A", "B"]
    assert clock.now == 15


def test_what_a_callback_schedules_now_runs_behind_what_was_there():
    clock, seen = Clock(), []
    clock.call_at(5, lambda _: clock.call_at(5, seen.append, "late"), None)
    clock.call_at(5, seen.append, "early")
    clock.drain()
    assert seen == ["early", "late"]


def test_step_and_drain_agree():
    def fill(clock, seen):
        def process():
            for _ in range(3):
                yield clock.timeout(4)
                seen.append(("process", clock.now))

        clock.process(process())
        for t in (4, 4, 8, 9):
            clock.call_at(t, lambda _: seen.append(("callback", clock.now)), None)

    stepped, drained = [], []
    by_step, by_drain = Clock(), Clock()
    fill(by_step, stepped)
    fill(by_drain, drained)
    by_drain.drain()
    while by_step.heap:
        by_step.step()
    assert stepped == drained
    assert [entry for entry in drained if entry[0] == "process"] == [("process", 4), ("process", 8), ("process", 12)]


def test_time_is_an_int():
    clock = Clock()
    assert type(clock.now) is int
    clock.call_at(3, lambda _: None, None)
    clock.drain()
    assert type(clock.now) is int


@pytest.mark.parametrize("delay", [1.0, 0.5, True, "1"])
def test_a_delay_that_is_no_int_is_refused(delay):
    clock = Clock()
    with pytest.raises(TypeError) as caught:
        clock.schedule(clock.event(), delay=delay)
    assert str(caught.value) == f"got a delay of {delay!r}, needs an int of picoseconds"


def test_a_float_timeout_is_refused():
    with pytest.raises(TypeError) as caught:
        Clock().timeout(1e3)
    assert str(caught.value) == "got a delay of 1000.0, needs an int of picoseconds"


@pytest.mark.parametrize("t_ps", [1.0, 0.5, True])
def test_a_callback_at_a_time_that_is_no_int_is_refused(t_ps):
    with pytest.raises(TypeError) as caught:
        Clock().call_at(t_ps, print, None)
    assert str(caught.value) == f"got a time of {t_ps!r}, needs an int of picoseconds"


def test_the_past_is_refused():
    clock = Clock()
    clock.call_at(10, lambda _: None, None)
    clock.drain()
    clock.call_at(10, lambda _: None, None)  # now is not past
    with pytest.raises(ValueError, match=r"^call_at\(9\) is before now \(10\)$"):
        clock.call_at(9, lambda _: None, None)


def test_an_error_in_a_callback_comes_out_of_drain():
    clock = Clock()

    def fail(_):
        raise LookupError("here")

    clock.call_at(1, fail, None)
    with pytest.raises(LookupError, match=r"^here$"):
        clock.drain()


def test_what_failed_does_not_go_on():
    clock, seen = Clock(), []

    def fail(_):
        raise LookupError

    clock.call_at(1, fail, None)
    clock.call_at(2, seen.append, 2)
    with pytest.raises(LookupError):
        clock.drain()
    with pytest.raises(KbError) as caught:
        clock.drain()
    needs = "a new engine; build it again"
    assert str(caught.value) == f"simulation: got a call after one that failed or got stuck, needs {needs}"
    assert (seen, clock.now) == ([], 1)


def test_housekeeping_runs_now_and_then_and_at_the_end():
    calls = []
    clock = Clock(lambda: calls.append(len(clock.heap)))
    for _ in range(HOUSEKEEPING_INTERVAL + 5):
        clock.call_at(1, lambda _: None, None)
    clock.drain()
    assert calls == [5, 0]


def test_stop_ends_the_drain_and_leaves_what_is_scheduled():
    clock, seen = Clock(), []
    clock.call_at(5, lambda _: clock.stop(), None)
    clock.call_at(9, seen.append, "later")
    clock.drain()
    assert (clock.now, seen) == (5, [])
    clock.drain()
    assert (clock.now, seen) == (9, ["later"])


# What an entry does when it runs: delays of callbacks and of events that it schedules, whether those are urgent, and
# whether it stops the clock.
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
        patch.setattr(clock_module, "_MANY", many)
        assert history(program) == expected


def test_the_next_entry_is_seen_wherever_it_is_kept(monkeypatch):
    monkeypatch.setattr(clock_module, "HOUSEKEEPING_INTERVAL", 2)
    monkeypatch.setattr(clock_module, "_MANY", 3)
    clock, seen = Clock(), []
    times = [0, 0, 5, 5, 6, 90, 90, 700]
    for t in times:
        clock.call_at(t, lambda _: seen.append((clock.now, clock.peek())), None)
    clock.drain()
    assert seen == list(zip(times, [*times[1:], math.inf], strict=True))


def test_what_fails_in_a_bucket_leaves_the_rest_scheduled(monkeypatch):
    monkeypatch.setattr(clock_module, "HOUSEKEEPING_INTERVAL", 2)
    monkeypatch.setattr(clock_module, "_MANY", 3)
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
