import pytest

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


def test_what_runs_apart_runs_at_once_and_leaves_the_rest_alone():
    clock, seen = Clock(), []

    def process():
        yield clock.timeout(3)
        seen.append(("process", clock.now_ps))

    def begin(_):
        with clock.apart() as heap:
            clock.process(process())
            clock.call_at(clock.now_ps + 20, lambda name: seen.append((name, clock.now_ps)), "apart")
            while heap:
                clock.run_next()
            assert clock.now_ps == 25
        seen.append(("now", clock.now_ps))

    clock.call_at(5, begin, None)
    clock.call_at(7, lambda name: seen.append((name, clock.now_ps)), "main")
    clock.drain()
    assert seen == [("process", 8), ("apart", 25), ("now", 5), ("main", 7)]


def test_an_error_apart_puts_the_other_entries_back():
    clock, seen = Clock(), []
    clock.call_at(7, seen.append, "main")

    def run():
        with clock.apart() as heap:
            clock.call_at(3, lambda _: 1 / 0, None)
            clock.call_at(4, seen.append, "dropped")
            while heap:
                clock.run_next()

    with pytest.raises(ZeroDivisionError):
        run()
    assert clock.now_ps == 0
    clock.drain()
    assert seen == ["main"]


def test_entries_of_pes_run_behind_others_of_their_time_in_the_order_of_the_pes():
    clock, seen = Clock(), []
    first, second = clock.pe_event_order(0), clock.pe_event_order(1)
    clock.call_at(7, seen.append, "second PE", second)
    clock.call_at(7, lambda _: clock.call_at(7, seen.append, "first PE, later", first), None, first)
    clock.call_at(7, seen.append, "first PE", first)
    clock.call_at(7, seen.append, "nobody's")
    assert clock.n_scheduled == 4
    clock.drain()
    assert seen == ["nobody's", "first PE", "first PE, later", "second PE"]
    assert clock.n_scheduled == 5
