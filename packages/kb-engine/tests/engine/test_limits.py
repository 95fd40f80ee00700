"""Work without end is refused before it starts, or by its first seconds."""

import re
from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np
import pytest

from kb_engine.engine import Limits
from kb_engine.engine.guards import limits, long_runs
from kb_engine.engine.guards.limits import limits_of, time_text
from kb_engine.engine.guards.long_runs import LongRunGuard
from kb_engine.host import Host
from kb_messages import KbError, KernelError

TWO = ("pe_layout: {count: 1}", "pe_layout: {count: 2}")


def loads(tl: Any, x: Any) -> None:
    tl.wait(tl.load(x))


def launch(host: Host, kernel: Callable[..., None], *others: object, **more: Any) -> None:
    host.launch(kernel, host.tensor("x", np.zeros((1, 16), np.float32), "f32"), *others, **more)


def test_a_grid_beyond_the_memory_is_refused_with_its_size(
    toy_host: Callable[..., Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    """2^31 programs of 512 bytes are 1 TiB, and of 3 us 6,442 s. No limit on time lets the grid pass."""
    monkeypatch.setattr(limits, "available_nbytes", lambda: 16 << 30)
    said = (
        "launch: got a grid of 2,147,483,648 programs, which take 1,024 GiB of memory and 1.8 hours, or more, needs at "
        "most the 16.0 GiB that this machine has left"
    )
    for most in Limits(), Limits(max_hours=inf):
        with pytest.raises(KernelError, match=f"^{re.escape(said)}"):
            launch(toy_host(limits=most), loads, grid=(1 << 16, 1 << 15))


def test_a_grid_beyond_the_hours_is_refused_unless_they_are_lifted(
    toy_host: Callable[..., Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    """12 million programs take 36 s or more, which is 0.01 hours."""
    monkeypatch.setattr(limits, "available_nbytes", lambda: None)
    with pytest.raises(KernelError, match="which take 1 hour or more, needs at most 36 seconds") as caught:
        launch(toy_host(limits=Limits(max_hours=0.01)), loads, grid=1_200_000_000)
    assert "KB_MAX_HOURS or --max-hours" in str(caught.value)
    assert isinstance(caught.value.__cause__, TimeoutError)
    launch(toy_host(limits=Limits(max_hours=0.01)), loads, grid=10)


class Seconds:
    """A clock of the machine that goes on by `step_s` at each look."""

    def __init__(self, step_s: float) -> None:
        self.now_s, self.step_s = 0.0, step_s

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


def guarded(toy_host: Callable[..., Host], monkeypatch: pytest.MonkeyPatch, hours: float) -> Host:
    """A host of two PEs whose machine takes 60 s for each 100 entries of the clock."""
    from kb_engine.engine import engine as module
    from kb_engine.timing import clock

    def guard(most: Limits, *rest: Any) -> LongRunGuard:
        return LongRunGuard(most, *rest, seconds=Seconds(60.0))

    monkeypatch.setattr(module, "LongRunGuard", guard)
    monkeypatch.setattr(clock, "HOUSEKEEPING_INTERVAL", 100)
    return toy_host(TWO, exact="events", limits=Limits(max_hours=hours))


def test_programs_are_estimated_from_those_that_have_ended(
    toy_host: Callable[..., Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KernelError) as caught:
        launch(guarded(toy_host, monkeypatch, hours=10), loads, grid=1_000_000)
    found = re.match(
        r"launch: got 1,000,000 programs, of which (\d+) have ended after (\d+) s, which makes (.*), needs at most 10 "
        "hours of simulation; give each program more to do",
        str(caught.value),
    )
    assert found is not None, str(caught.value)
    hours = float(found[2]) / int(found[1]) * 1_000_000 / 3600
    assert 0.8 < hours / (float(found[3].split()[0].replace(",", "")) * 24) < 1.25 or "year" in found[3]
    launch(guarded(toy_host, monkeypatch, hours=10), loads, grid=100)


def turns(tl: Any, x: Any, n: int) -> None:
    for _ in range(n // 2):
        tl.wait(tl.load(x))


def many_turns(tl: Any, x: Any, n: int) -> None:
    for i in range(n // 2):
        tl.wait(tl.load(x))
        assert i >= 0


def test_loops_are_estimated_from_their_turns(toy_host: Callable[..., Host], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KernelError) as caught:
        launch(guarded(toy_host, monkeypatch, hours=1), many_turns, 10**12, pes=[0])
    said = str(caught.value)
    line = f"test_limits.py:{many_turns.__code__.co_firstlineno + 1}"
    assert said.startswith(f"{line}, in sip0.cube0.pe0: got a loop of 500,000,000,000 turns, of which ")
    assert " years, needs at most 1 hour of simulation; make fewer turns" in said
    launch(guarded(toy_host, monkeypatch, hours=1), many_turns, 200, pes=[0])
    launch(guarded(toy_host, monkeypatch, hours=inf), many_turns, 2000, pes=[0])


def test_a_launch_that_is_about_to_fill_the_memory_ends(
    toy_host: Callable[..., Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    """100 MiB are left from the third look on, which is less than 128 MiB."""
    left = iter([1 << 30, 1 << 30])
    monkeypatch.setattr(long_runs, "with_swap_nbytes", lambda: next(left, 100 << 20))
    with pytest.raises(KernelError) as caught:
        launch(guarded(toy_host, monkeypatch, hours=inf), loads, grid=1_000_000)
    said = r"launch: got 100 MiB of memory left on this machine when (\d+) of 1,000,000 programs had ended, needs at "
    found = re.match(said + "least 128 MiB; launch fewer programs", str(caught.value))
    assert found is not None, str(caught.value)
    assert 0 < int(found[1]) < 1000
    assert isinstance(caught.value.__cause__, MemoryError)
    monkeypatch.setattr(long_runs, "with_swap_nbytes", lambda: None)
    launch(guarded(toy_host, monkeypatch, hours=inf), loads, grid=1000)


def test_limits_of_the_environment() -> None:
    assert limits_of({}) == Limits(max_hours=1.0, watchdog_s=30.0)
    assert limits_of({"KB_MAX_HOURS": "2.5", "KB_WATCHDOG": "0"}) == Limits(2.5, inf)
    for wrong in "-1", "a", "nan", "inf":
        with pytest.raises(KbError, match=r"^KB_WATCHDOG: got .*, needs a number from 0 on; 0 is for no limit"):
            limits_of({"KB_WATCHDOG": wrong})


@pytest.mark.parametrize(
    ("hours", "text"),
    [(1.0, "1 hour"), (1.79, "1.8 hours"), (30.0, "1.2 days"), (8760.0 * 1234, "1,234 years"), (0.01, "36 seconds")],
)
def test_times_in_words(hours: float, text: str) -> None:
    assert time_text(hours) == text
