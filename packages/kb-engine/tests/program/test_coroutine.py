"""A kernel yields where it pauses and resumes where it paused; its exceptions reach the caller of `resume`."""

import gc
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from threading import Thread
from weakref import ref

import pytest
from greenlet import getcurrent, greenlet

from kb_engine.program.coroutine import KernelCoroutine
from kb_engine.program.port import Completion
from kb_engine.timing.clock import Clock


def test_a_kernel_pauses_and_goes_on_until_it_returns():
    seen, clock = [], Clock()

    def body():
        seen.append("began")
        kernel.wait_for(completion)
        kernel.pause("k.py:1")
        seen.append("ended")

    completion = Completion()
    kernel = KernelCoroutine(clock, body, lambda: seen.append((kernel.waiting_at, kernel.has_returned)))
    assert (kernel.waiting_at, kernel.has_returned) == ("", False)
    clock.call_at(7, kernel.resume, None)
    clock.drain()
    assert seen == ["began"]
    assert (kernel.waiting_at, kernel.has_returned) == ("k.py:1", False)
    assert (kernel.waiting_since_ps, kernel.waiting_for) == (7, completion)
    kernel.resume()
    assert seen[1:] == ["ended", ("", True)]
    assert kernel.waiting_for is None


def test_an_exception_of_a_kernel_reaches_the_event_loop_and_ends_the_kernel():
    def body():
        raise ValueError("of the kernel")

    kernel = KernelCoroutine(Clock(), body, lambda: pytest.fail("called after an error"))
    with pytest.raises(ValueError, match="of the kernel"):
        kernel.resume()
    assert kernel.has_returned


def test_bodies_share_a_greenlet_and_no_context_variables():
    seen, number = [], ContextVar("number", default=0)

    class Kept:
        pass

    def body(name):
        kept = Kept()
        seen.append((name, getcurrent(), number.get(), ref(kept)))
        number.set(number.get() + 1)
        kernels[name].pause("k.py:1")

    kernels = {name: KernelCoroutine(Clock(), partial(body, name), lambda: None) for name in "abc"}
    for name in "aabb":
        kernels[name].resume()
    (_, first, _, kept), (_, second, count, _) = seen
    assert first is second
    assert count == 0
    assert kept() is None
    kernels["c"].resume()
    kernels["c"].resume()
    assert [kernel.has_returned for kernel in kernels.values()] == [True] * 3


def test_an_idle_greenlet_keeps_neither_its_first_body_nor_its_last():
    left = []

    def run():
        for _ in range(3):
            clock = Clock()
            KernelCoroutine(clock, lambda: None, lambda: None).resume()
            left.append(ref(clock))
        del clock
        left[:] = [each() for each in left]

    thread = Thread(target=run)
    thread.start()
    thread.join()
    assert left == [None] * 3


def test_a_greenlet_whose_body_failed_runs_no_other():
    seen = []

    def fail():
        seen.append(getcurrent())
        raise ValueError("of the kernel")

    with pytest.raises(ValueError, match="of the kernel"):
        KernelCoroutine(Clock(), fail, lambda: None).resume()
    KernelCoroutine(Clock(), lambda: seen.append(getcurrent()), lambda: None).resume()
    assert seen[0].dead
    assert seen[0] is not seen[1]


def test_a_kernel_of_another_thread_runs_in_a_greenlet_of_that_thread():
    seen = []

    def run():
        KernelCoroutine(Clock(), lambda: seen.append(getcurrent()), lambda: None).resume()

    run()
    thread = Thread(target=run)
    thread.start()
    thread.join()
    assert len(set(seen)) == 2


def test_a_kernel_gives_way_to_whoever_started_it():
    seen = []
    kernel = KernelCoroutine(Clock(), lambda: kernel.pause("k.py:1"), lambda: seen.append("ended"))
    KernelCoroutine(Clock(), lambda: None, lambda: None).resume()
    other = greenlet(lambda: (kernel.resume(), seen.append("paused"), kernel.resume()))
    other.switch()
    assert seen == ["paused", "ended"]


def test_an_abandoned_kernel_frees_its_frames_and_keeps_its_line():
    class Kept:
        pass

    def body():
        value = Kept()
        held.append(ref(value))
        try:
            kernel.pause("k.py:1")
        finally:
            raise ValueError(str(value))

    held = []
    kernel = KernelCoroutine(Clock(), body, lambda: pytest.fail("called after the end"))
    kernel.resume()
    assert held[0]() is not None
    kernel.abandon()
    gc.collect()
    assert held[0]() is None
    assert (kernel.waiting_at, kernel.is_abandoned) == ("k.py:1", True)
    kernel.abandon()


@pytest.mark.parametrize(("turns", "ends"), [(3, True), (2000, False)])
def test_a_kernel_that_catches_its_end_gets_it_again(turns, ends, capsys):
    def body():
        value = Kept()
        held.append(ref(value))
        pause = partial(kernel.pause, "k.py:1")
        for _ in range(turns):
            with suppress(BaseException):
                pause()
            pause = getcurrent().parent.switch  # as a call of an abandoned kernel does

    class Kept:
        pass

    held = []
    kernel = KernelCoroutine(Clock(), body, lambda: pytest.fail("called after the end"))
    kernel.resume()
    assert kernel.abandon() is ends
    gc.collect()
    assert (held[0]() is None) is ends
    assert capsys.readouterr().err == ""


def test_a_kernel_that_has_not_begun_is_abandoned_too():
    kernel = KernelCoroutine(Clock(), lambda: pytest.fail("called after the end"), lambda: None)
    kernel.abandon()
    assert (kernel.waiting_at, kernel.is_abandoned) == ("", True)
