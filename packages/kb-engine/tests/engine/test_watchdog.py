"""A kernel that runs on without letting simulated time pass is stopped, and no other kernel is."""

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kb_engine.engine import Limits
from kb_engine.host import Host
from kb_engine.observe import Observer
from kb_engine.program.author import watchdog
from kb_messages import SimulationStuckError

TWO = ("pe_layout: {count: 1}", "pe_layout: {count: 2}")
QUICK, SLOWER = Limits(watchdog_s=0.3), Limits(watchdog_s=1.2)


def spins(tl: Any, x: Any) -> None:
    tl.wait(tl.load(x))
    if tl.program_id(0) == 1:
        n = 10**12
        for i in range(n):
            i * i


def spins_on_a_value(tl: Any, x: Any) -> None:
    while x.shape[0] > 0:
        pass


def pretends_to_work(tl: Any, x: Any) -> None:
    """Calls its language, and issues nothing."""
    while True:
        tl.program_id(0) + tl.num_programs(0)


def line(kernel: Callable[..., None], *offsets: int) -> tuple[str, ...]:
    return tuple(f"test_watchdog.py:{kernel.__code__.co_firstlineno + offset}, in sip0.cube0.pe" for offset in offsets)


def launch(host: Host, kernel: Callable[..., None], *others: object, **more: Any) -> None:
    host.launch(kernel, host.tensor("x", np.zeros((1, 16), np.float32), "f32"), *others, **more)


@pytest.mark.parametrize(("kernel", "offsets"), [(spins_on_a_value, (1, 2)), (pretends_to_work, (2, 3))])
def test_a_kernel_without_end_is_stopped_at_its_line(
    toy_host: Callable[..., Host], kernel: Callable[..., None], offsets: tuple[int, ...]
) -> None:
    with pytest.raises(SimulationStuckError) as caught:
        launch(toy_host(limits=QUICK), kernel)
    assert caught.value.exit_code == 3
    said = str(caught.value)
    assert said.startswith(line(kernel, *offsets))
    assert "pe0: the kernel has run for 0.3 s without a command or a wait; needs a loop that ends" in said
    assert isinstance(caught.value.__cause__, TimeoutError), "an error of this machine, which a sweep does not keep"


def test_the_program_and_the_turn_of_its_loop_are_named(toy_host: Callable[..., Host]) -> None:
    host = toy_host(TWO, limits=QUICK)
    with pytest.raises(SimulationStuckError) as caught:
        launch(host, spins, grid=8)
    said = str(caught.value)
    assert ", in program 1 on sip0.cube0.pe1: " in said
    turns = f" of 1,000,000,000,000 of the loop at test_watchdog.py:{spins.__code__.co_firstlineno + 4}; needs"
    assert turns in said
    assert 1000 < int(said.split("in turn ")[1].split()[0].replace(",", "")) < 10**12
    with pytest.raises(Exception, match="a new engine"):
        launch(host, spins)


def test_launches_in_threads_are_watched_each(toy_host: Callable[..., Host]) -> None:
    said: dict[str, str] = {}

    def run(name: str, kernel: Callable[..., None], *others: object) -> None:
        try:
            launch(toy_host(TWO, limits=SLOWER if kernel is works else QUICK), kernel, *others)
            said[name] = "ended"
        except SimulationStuckError as error:
            said[name] = str(error)

    threads = [
        threading.Thread(target=run, args=each) for each in (("a", spins), ("b", spins_on_a_value), ("c", works, 8))
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert ", in sip0.cube0.pe1: the kernel has run for 0.3 s" in said["a"]
    assert ", in sip0.cube0.pe0: the kernel has run for 0.3 s" in said["b"]
    assert said["c"] == "ended"


def works(tl: Any, x: Any, n: int) -> None:
    """Takes 0.1 s for each of *n* turns, in each of which it lets time pass."""
    for _ in range(n):
        time.sleep(0.1)
        tl.wait(tl.load(x))


def test_a_kernel_that_lets_time_pass_may_take_longer(toy_host: Callable[..., Host]) -> None:
    launch(toy_host(limits=SLOWER), works, 15)


def takes(tl: Any, x: Any, seconds: float, traced: bool = False) -> None:
    if traced:
        sys._getframe().f_trace = lambda *_: None
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def test_without_a_limit_nothing_is_watched(toy_host: Callable[..., Host]) -> None:
    launch(toy_host(limits=Limits(watchdog_s=float("inf"))), takes, 0.8)


def test_a_kernel_that_a_debugger_traces_is_left_alone(toy_host: Callable[..., Host]) -> None:
    """A debugger traces the thread before the launch, or begins within the kernel and marks its frame."""
    before = sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        launch(toy_host(limits=QUICK), takes, 0.8)
    finally:
        sys.settrace(before)
    launch(toy_host(limits=QUICK), takes, 0.8, True)


class SlowObserver(Observer):
    """Takes its time in the simulator, outside each kernel."""

    def on_stage(self, times: tuple[int, int, int, int, int], /) -> None:
        end = time.monotonic() + 0.8
        while time.monotonic() < end:
            pass


def test_work_of_the_simulator_is_not_that_of_a_kernel(toy_host: Callable[..., Host]) -> None:
    launch(toy_host(observers=[SlowObserver()], limits=QUICK), works, 1)


def catches_everything(tl: Any, x: Any, seconds: float) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            while time.monotonic() < end:
                pass
            return
        except BaseException:  # noqa: BLE001
            pass


def test_a_kernel_that_cannot_be_stopped_is_named(
    toy_host: Callable[..., Host], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its launch fails when it ends. An exception that comes late does not reach the code after the launch."""
    monkeypatch.setattr(watchdog, "_AGAIN_S", 0.1)
    with pytest.raises(SimulationStuckError, match=r"^test_watchdog.py:\d+: the kernel has run for 0.3 s without"):
        launch(toy_host(limits=QUICK), catches_everything, 1.5)
    said = capsys.readouterr().err
    assert said.count("the kernel could not be stopped so far, because it catches every exception or is in one") == 1
    assert "test_watchdog.py:" in said
    for _ in range(1000):
        time.sleep(0)


class SlowToGo:
    """Takes a while to be deleted. Python drops an exception that comes meanwhile."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __del__(self) -> None:
        end = time.monotonic() + self._seconds
        while time.monotonic() < end:
            pass


def drops_values(tl: Any, x: Any) -> None:
    SlowToGo(1.0)


def test_a_launch_whose_exception_python_dropped_fails_without_noise(
    toy_host: Callable[..., Host], capsys: pytest.CaptureFixture[str]
) -> None:
    """TCM goes back in `__del__`, so memory may be wrong from then on."""
    before = sys.unraisablehook
    with pytest.raises(SimulationStuckError, match=r"the kernel has run for 0\.3 s without a command or a wait"):
        launch(toy_host(limits=QUICK), drops_values)
    assert "ignored" not in capsys.readouterr().err
    assert sys.unraisablehook == before


def test_no_thread_is_left_when_all_launches_have_ended(toy_host: Callable[..., Host]) -> None:
    launch(toy_host(limits=SLOWER), works, 1)
    end = time.monotonic() + 10
    while "kernbench watchdog" in [each.name for each in threading.enumerate()]:
        assert time.monotonic() < end
        time.sleep(0.05)
