"""A function of launches: `kernbench.run(function, ...)` runs it as it runs a kernel, and adds up its launches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

import kernbench as kb

X = np.arange(64, dtype=np.float32).reshape(8, 8)

FILE = """\
def add(tl, x, y, by):
    tl.store(y, tl.load(x) + by)


def add_twice(host, x, y, by):
    middle = host.empty("middle", x.shape, "f32")
    host.launch(add, x, middle, by, pes=[0])
    host.launch(add, middle, y, by, pes=[0])
"""


def add(tl: Any, x: Any, y: Any, by: float) -> None:
    tl.store(y, tl.load(x) + by)


def add_times(host: Any, x: Any, y: Any, times: int = 2) -> None:
    """Adds 1 to *x* as often as *times* says: each launch but the last writes a tensor of its own."""
    for number in range(times):
        after = y if number == times - 1 else host.empty(f"step{number}", x.shape, "f32")
        host.launch(add, x, after, 1.0, pes=[0])
        x = after


def of_tl(tl: Any, x: Any, y: Any) -> None:
    add(tl, x, y, 1.0)


def launched(function: Any, *arguments: Any, **named: Any) -> kb.KernelRun:
    return kb.run(function, X, kb.empty(X.shape, "f32"), *arguments, chip="one_pe", **named)


def test_the_times_of_launches_add_up_and_the_result_is_checked() -> None:
    """Nothing of one launch is left for the next on a chip of one PE, so each of three takes what one takes."""
    one = launched(of_tl)
    r = launched(add_times, 3, reference=lambda x: x + 3)
    assert r.latency_ps == 3 * one.latency_ps
    assert r.verified
    assert np.array_equal(r.output, X + 3)
    assert sum(each.ps for each in r.lines) == r.latency_ps
    assert str(r).startswith("add_times on one_pe: ")
    with pytest.raises(kb.WrongResult, match="y: 64 of 64 elements wrong"):
        launched(add_times, reference=lambda x: x + 3).check()


def test_a_benchmark_may_be_a_function_of_launches() -> None:
    @kb.benchmark
    def added(rng: np.random.Generator, times: int = 2) -> kb.Call:
        return kb.call(add_times, X, kb.empty(X.shape, "f32"), times, reference=lambda x: x + times)

    assert kb.run(added, times=4, chip="one_pe").verified


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"pes": [0]}, r"function add_times: got pes= beside a function of launches, needs none; state them at its"),
        ({"grid": 8, "schedule": "static"}, "got grid=, schedule= beside a function"),
        ({"chosen": lambda host: {}}, "got chosen= beside a function of launches"),
    ],
)
def test_options_of_a_launch_are_refused(named: dict[str, Any], said: str) -> None:
    with pytest.raises(kb.KbError, match=said):
        launched(add_times, **named)


def test_what_a_function_of_launches_does_wrong_is_said_at_its_line() -> None:
    def writes_its_input(host: Any, x: Any, y: Any) -> None:
        host.launch(add, x, x, 1.0, pes=[0])

    def returns(host: Any, x: Any, y: Any) -> Any:
        return y

    def writes_nothing(host: Any, x: Any, y: Any) -> None:
        host.launch(add, x, host.empty("other", x.shape, "f32"), 1.0, pes=[0])

    with pytest.raises(kb.KbError, match="function returns: got Tensor returned, needs nothing; write results to arg"):
        launched(returns)
    with pytest.raises(kb.KbError, match=r"test_several_launches\.py:\d+: got tl.store to x.*, an input of the run"):
        launched(writes_its_input)
    with pytest.raises(kb.KbError, match="output y"):
        _ = launched(writes_nothing).output


def test_a_run_folder_repeats_the_function(tmp_path: Path, invoke: Callable[..., Result]) -> None:
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    defined: dict[str, Any] = {}
    exec(compile(FILE, str(path), "exec", dont_inherit=True), defined)
    folder = launched(defined["add_twice"], by=3.0, folder=tmp_path / "runs").folder
    done = invoke("whatif", str(folder), "--set", "$.cube.nodes.hbm.bw_gbs=204.8")
    assert done.exit_code == 0, done.stderr
    assert "mine.py:2" in done.stdout
