"""Interrupts that Python drops, because they come within `__del__` or a callback of `gc`: a launch ends with them."""

import sys
from signal import SIG_IGN, SIGINT, raise_signal, signal
from threading import Thread
from time import monotonic
from types import SimpleNamespace

import numpy as np
import pytest

from kb_engine.memory.allocator import Allocator, Lease
from kb_engine.timing.collector import COLLECTOR
from kb_messages import KbError


class Interrupted:
    """An interrupt comes when it goes."""

    def __del__(self):
        raise KeyboardInterrupt


class Failing:
    """Raises an error when it goes."""

    def __del__(self):
        raise ValueError


@pytest.fixture
def passed_on(monkeypatch):
    """The exceptions that the hook of before gets. The hook is there again afterwards."""
    passed_on = []
    monkeypatch.setattr(sys, "unraisablehook", lambda dropped: passed_on.append(dropped.exc_type))
    hook = sys.unraisablehook
    yield passed_on
    assert sys.unraisablehook is hook


@pytest.fixture
def ignores_signals():
    """The signal that comes again does nothing."""
    before = signal(SIGINT, SIG_IGN)
    yield
    signal(SIGINT, before)


def launched(host, kernel):
    host.launch(kernel, host.tensor("a", np.zeros((16, 16), np.float32), "f32"))


@pytest.mark.usefixtures("passed_on")
def test_a_kernel_that_computes_for_long_is_interrupted_soon(toy_host):
    began = monotonic()

    def kernel(tl, a):
        Interrupted()
        while monotonic() < began + 30:
            pass

    with pytest.raises(KeyboardInterrupt):
        launched(toy_host(), kernel)
    assert monotonic() < began + 20


@pytest.mark.usefixtures("passed_on", "ignores_signals")
@pytest.mark.parametrize("fails", [False, True])
def test_a_launch_raises_an_interrupt_that_was_dropped_at_its_end(toy_host, fails):
    def kernel(tl, a):
        Interrupted()
        tl.load(a)
        if fails:
            raise ValueError

    host = toy_host()
    with pytest.raises(KeyboardInterrupt):
        launched(host, kernel)
    with pytest.raises(KbError, match="a call after one that failed"):
        launched(host, lambda tl, a: tl.load(a))


@pytest.mark.usefixtures("ignores_signals")
def test_an_interrupt_within_a_release_ends_the_launch(toy_host, passed_on, monkeypatch):
    release = Allocator.release

    def interrupted(self, start):
        monkeypatch.setattr(Allocator, "release", release)
        raise KeyboardInterrupt

    def kernel(tl, a):
        x = tl.load(a)
        monkeypatch.setattr(Allocator, "release", interrupted)
        del x
        tl.load(a)

    with pytest.raises(KeyboardInterrupt):
        launched(toy_host(), kernel)
    assert passed_on == []


def test_a_release_that_was_interrupted_is_not_done_again():
    class Interrupting(Allocator):
        def release(self, start):
            super().release(start)
            if start == 0:
                raise KeyboardInterrupt

    allocator = Interrupting("tcm", 0, 256)
    lease = Lease(allocator)
    first, _ = lease.allocate(64), lease.allocate(64)
    with pytest.raises(KeyboardInterrupt):
        lease.release(first)
    lease.end()
    assert allocator.free_nbytes == 256


@pytest.mark.usefixtures("passed_on", "ignores_signals")
def test_the_end_of_a_collection_counts_where_its_note_was_interrupted(toy_host):
    def kernel(tl, a):
        COLLECTOR.note("start", {})
        sys.unraisablehook(SimpleNamespace(exc_type=KeyboardInterrupt, object=COLLECTOR.note))
        assert not COLLECTOR.runs

    with pytest.raises(KeyboardInterrupt):
        launched(toy_host(), kernel)
    COLLECTOR.note("start", {})
    launched(toy_host(), lambda tl, a: tl.load(a))
    assert not COLLECTOR.runs


def test_the_hook_of_before_gets_all_other_exceptions(toy_host, passed_on):
    def kernel(tl, a):
        Failing()
        other = Thread(target=Interrupted)
        other.start()
        other.join()

    launched(toy_host(), kernel)
    assert passed_on == [ValueError, KeyboardInterrupt]


def test_a_hook_that_is_installed_meanwhile_stays(toy_host, passed_on):
    newer, before = [], sys.unraisablehook

    def kernel(tl, a):
        ours = sys.unraisablehook
        sys.unraisablehook = lambda dropped: (newer.append(dropped.exc_type), ours(dropped))
        Failing()

    launched(toy_host(), kernel)
    Failing()
    sys.unraisablehook = before
    assert newer == passed_on == [ValueError, ValueError]


def test_a_launch_of_another_thread_leaves_the_hook_alone(toy_host, passed_on):
    hooks = []
    before = sys.unraisablehook
    launch = Thread(target=launched, args=(toy_host(), lambda tl, a: hooks.append(sys.unraisablehook)))
    launch.start()
    launch.join()
    assert hooks == [before]


@pytest.mark.usefixtures("passed_on")
def test_a_signal_within_a_value_that_goes_interrupts_the_launch(toy_host):
    class Signalled:
        def __del__(self):
            raise_signal(SIGINT)

    began, n_loads = monotonic(), []

    def kernel(tl, a):
        Signalled()
        while monotonic() < began + 10:
            n_loads.append(tl.load(a).shape)

    with pytest.raises(KeyboardInterrupt):
        launched(toy_host(), kernel)
    assert n_loads
