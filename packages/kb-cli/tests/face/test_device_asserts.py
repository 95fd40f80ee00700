"""`tl.device_assert`: known conditions are checked at once, pending ones by pass 2, in no simulated time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

import kernbench as kb

Invoke = Callable[..., Result]
X = np.arange(32, dtype=np.float32).reshape(4, 8)
EMPTY = kb.empty(X.shape, "f32")

FILE = """
import numpy as np
import kernbench as kb


def kernel(tl, x, y, limit):
    part = tl.load(x)
    tl.device_assert(part < limit, "too large")
    tl.store(y, part)


@kb.benchmark
def checked(rng, limit: float = 32.0, wrong: float = 0.0):
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    return kb.call(kernel, x, kb.empty(x.shape, "f32"), limit, reference=x + wrong, pes=[0])
"""


def limited(tl: Any, x: Any, y: Any, limit: float, checks: bool = True) -> None:
    rows = slice(2 * tl.program_id(), 2 * tl.program_id() + 2)
    part = tl.load(x[rows]) * 1.0
    if checks:
        tl.device_assert(part < limit, "too large")
    tl.store(y[rows], part)


@pytest.mark.parametrize("reference", [None, X])
def test_a_pending_condition_is_checked_by_pass_2(reference: Any) -> None:
    options: dict[str, Any] = {"grid": 2, "chip": "one_cube"}
    r = kb.run(limited, X, EMPTY, 32.0, **options, reference=reference)
    assert np.array_equal(r.output, X)
    assert r.latency_ps == kb.run(limited, X, EMPTY, 32.0, False, **options).latency_ps
    text = (
        f"test_device_asserts.py:{limited.__code__.co_firstlineno + 4}, in program 1 on sip0.cube0.pe1: got a "
        "tl.device_assert that does not hold at [1, 2]: too large, needs a true condition"
    )
    if reference is None:
        with pytest.raises(kb.KbError) as caught:
            kb.run(limited, X, EMPTY, 26.0, **options)
        assert (str(caught.value), caught.value.exit_code) == (text, 1)
        return
    wrong = kb.run(limited, X, EMPTY, 26.0, **options, reference=reference)
    assert wrong.verified is False
    with pytest.raises(kb.WrongResult) as found:
        wrong.check()
    assert str(found.value) == text


def conditions(tl: Any, x: Any, y: Any, case: str) -> None:
    part, at = tl.load(x), tl.arange(0, 8)
    if case == "known":
        tl.device_assert(at < 5, "an index")
    elif case == "known, masked":
        tl.device_assert(at < 5, "an index", at < 5)
    elif case == "known, pending mask":
        tl.device_assert(at < 5, "an index", part > 20)
    elif case == "pending, known mask":
        tl.device_assert(part < 20, "a value", at[None, :] + 8 * tl.arange(0, 4)[:, None] < 20)
    elif case == "pending, masked too little":
        tl.device_assert(part < 20, "a value", at < 6)
    elif case == "both pending":
        tl.device_assert(part < 20, "a value", part < 20)
    elif case == "both pending, and false":
        tl.device_assert(part < 20, "a value", part < 22)
    elif case == "a number":
        tl.device_assert(tl.program_id() == 0)
    elif case == "a sum":
        tl.device_assert(tl.sum(part) < 400.0, "a sum")
    elif case == "stored since":
        value = part + 1
        tl.device_assert(value > 0, "before it is overwritten")
        tl.store(y, value)
        del value, part
        tl.wait(tl.full((4, 8), -1.0, "f32") * tl.load(y))
    tl.store(y, tl.load(x))


@pytest.mark.parametrize(
    ("case", "fails"),
    [
        ("known", "at [5]: an index"),
        ("known, masked", ""),
        ("known, pending mask", "at [2, 5]: an index"),
        ("pending, known mask", ""),
        ("pending, masked too little", "at [2, 4]: a value"),
        ("both pending", ""),
        ("both pending, and false", "at [2, 4]: a value"),
        ("a number", ""),
        ("a sum", "at [0, 0]: a sum"),
        ("stored since", ""),
    ],
)
def test_conditions_and_masks_may_be_known_or_pending(case: str, fails: str) -> None:
    if not fails:
        assert np.array_equal(kb.run(conditions, X, EMPTY, case, chip="one_pe").output, X)
        return
    with pytest.raises(kb.KbError) as caught:
        kb.run(conditions, X, EMPTY, case, chip="one_pe")
    assert f"got a tl.device_assert that does not hold {fails}, needs" in str(caught.value)


@pytest.mark.parametrize("options", [(), ("--verify", "full"), ("--sanitize",)])
def test_kb_run_ends_as_for_wrong_data(invoke: Invoke, tmp_path: Path, options: tuple[str, ...]) -> None:
    file = tmp_path / "checked.py"
    file.write_text(FILE, encoding="utf-8")
    options += ("--levers", "none", "--out", str(tmp_path))
    assert invoke("run", str(file), *options).exit_code == 0
    wrong = invoke("run", str(file), "-p", "wrong=1", *options)
    failed = invoke("run", str(file), "-p", "limit=30", *options)
    assert failed.exit_code == wrong.exit_code == 1
    text = (
        "checked.py:8, in program 0 on sip0.cube0.pe0: got a tl.device_assert that does not hold at [3, 6]: too large"
    )
    assert text in failed.output


def test_a_run_without_pass_2_says_what_it_did_not_check(invoke: Invoke, tmp_path: Path) -> None:
    file = tmp_path / "checked.py"
    file.write_text(FILE, encoding="utf-8")
    done = invoke("run", str(file), "-p", "limit=30", "--no-verify", "--out", str(tmp_path))
    assert done.exit_code == 0
    assert "1 condition of tl.device_assert was not checked: the run has no pass 2" in done.stderr
