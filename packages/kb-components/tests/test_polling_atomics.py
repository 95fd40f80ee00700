"""Kernels that poll by atomics that change nothing are stopped, and those that change something are not."""

from pathlib import Path

import numpy as np
import pytest

from kb_engine import Engine, Host
from kb_engine.engine.guards import livelock
from kb_messages import SimulationStuckError


@pytest.fixture
def two_pes_host(chip, two_pes, monkeypatch):
    monkeypatch.setattr(livelock, "_LEAST_REPEATS", 40)
    return lambda: Host(Engine(chip(*two_pes), most_repeated_loads=200), Path(__file__).parent)


def barrier(tl, count):
    """Each program adds 1, and waits until all have; the last of three waits for one of two PEs."""
    tl.atomic_add(count[0:1], 1)
    while tl.atomic_add(count[0:1], 0)[0] < tl.num_programs():
        pass


def spins(tl, lock):
    while tl.atomic_cas(lock[0:1], 0, 1)[0]:
        pass
    tl.atomic_xchg(lock[0:1], 0)


def launch_of_count(host, kernel, value, **options):
    count = host.tensor("count", np.full(4, value, np.int32), "i32")
    return host.launch(kernel, count, pes="all", **options)


def test_a_barrier_of_atomics_that_add_nothing_is_a_poll(two_pes_host):
    with pytest.raises(SimulationStuckError) as caught:
        launch_of_count(two_pes_host(), barrier, 0, grid=3)
    text = str(caught.value)
    assert "1 program has not begun, because no PE is free" in text
    assert text.splitlines()[-1].endswith(f" times at test_polling_atomics.py:{barrier.__code__.co_firstlineno + 3}")


def test_a_lock_that_nobody_gives_back_is_a_poll(two_pes_host):
    with pytest.raises(SimulationStuckError):
        launch_of_count(two_pes_host(), spins, 1)


def test_atomics_that_change_something_are_no_poll(two_pes_host):
    def counts(tl, count):
        for _ in range(300):
            tl.atomic_add(count[0:1], 1)

    def takes_turns(tl, lock):
        for _ in range(60):
            while tl.atomic_cas(lock[0:1], 0, 1)[0]:
                pass
            tl.atomic_xchg(lock[0:1], 0)

    for kernel in (counts, takes_turns, spins):
        launch_of_count(two_pes_host(), kernel, 0)
