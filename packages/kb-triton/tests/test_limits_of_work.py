"""Launches without end are refused with their size, and kernels without end are stopped at their line."""

import re

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl
from kb_engine.engine.guards import long_runs
from kb_messages import KernelError, SimulationStuckError
from kb_triton.host import Device, launches, use


@triton.jit
def turns(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for i in range(0, n, 4):
        tl.store(x_ptr + at, tl.load(x_ptr + at) + i)


@triton.jit
def spins(x_ptr, n):
    i = 0
    while i < n:
        i = i * 1
    tl.store(x_ptr, i)


def test_a_grid_of_two_to_the_31_is_refused_before_it_starts() -> None:
    with pytest.raises(
        KernelError, match=r"^launch: got a grid of 2,147,483,648 programs, which take 1,024 GiB of memory"
    ):
        turns[(1 << 31,)](np.zeros(64, np.float32), 4, BLOCK=64)


@pytest.mark.parametrize("is_trial", [False, True])
def test_the_turns_of_a_loop_are_estimated_once(one_cube, monkeypatch: pytest.MonkeyPatch, is_trial: bool) -> None:
    """range(0, 2^31 - 4, 4) has 2^29 - 1 turns. A trial without a log is not repeated with one."""
    monkeypatch.setenv("KB_MAX_HOURS", "0.001")
    monkeypatch.setattr(long_runs, "_FIRST_S", 0.5)
    n_runs, run = [], launches.PreparedLaunch.run
    monkeypatch.setattr(launches.PreparedLaunch, "run", lambda self: (n_runs.append(1), run(self))[1])
    device = Device(one_cube)
    use(device)
    x, n = np.zeros(64, np.float32), (1 << 31) - 4
    line = turns.fn.__code__.co_firstlineno + 3
    calls = {
        False: lambda: turns[(1,)](x, n, BLOCK=64),
        True: lambda: device.time_ps(turns, (1,), {"x_ptr": x, "n": n, "BLOCK": 64}),
    }
    said = (
        rf"^test_limits_of_work.py:{line}, in program 0 on sip0.cube0.pe0: got a loop of 536,870,911 turns, of which "
    )
    with pytest.raises(KernelError, match=said):
        calls[is_trial]()
    assert len(n_runs) == 1


def test_a_kernel_that_never_ends_is_stopped_at_its_line(one_cube, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KB_WATCHDOG", "0.5")
    use(Device(one_cube))
    with pytest.raises(SimulationStuckError) as caught:
        spins[(1,)](np.zeros(1, np.int32), 7)
    assert re.match(
        r"test_limits_of_work.py:\d+, in program 0 on sip0.cube0.pe0: the kernel has run for 0.5 s without a command",
        str(caught.value),
    )
