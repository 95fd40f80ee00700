"""Values that a kernel captures and prints: right whatever becomes of their TCM, and kept in the run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernbench as kb

X = np.random.default_rng(0).standard_normal((32, 64)).astype(np.float16)


def in_steps(tl: Any, x: Any, y: Any) -> None:
    """Every step uses the TCM of the step before."""
    for row in range(0, 32, 8):
        part = tl.load(x[row : row + 8, :])
        powers = tl.exp(part.to("f32"))
        tl.capture("powers", powers)
        total = tl.sum(powers, axis=1)
        tl.capture("total", total)
        tl.print("total", total)
        shares = powers / total
        tl.capture("shares", shares)
        del powers, total
        tl.store(y[row : row + 8, :], shares.to(y.dtype))
        tl.capture("stored", y[0:2, 0:4])


def run(**options: Any) -> kb.KernelRun:
    return kb.run(in_steps, X, kb.empty(X.shape, "f16"), chip="one_pe", **options)


def test_every_value_is_that_of_its_moment() -> None:
    r = run()
    powers = np.exp(X.astype(np.float64))
    assert list(r.captures) == ["powers", "total", "shares", "stored"]
    for step, row in enumerate(range(0, 32, 8)):
        now = powers[row : row + 8]
        assert np.allclose(r.captures["powers"][step].value, now, rtol=1e-6)
        assert np.allclose(r.captures["total"][step].value, now.sum(axis=1, keepdims=True), rtol=1e-6)
        assert np.allclose(r.captures["shares"][step].value, now / now.sum(axis=1, keepdims=True), rtol=1e-6)
        assert np.array_equal(r.captures["stored"][step].value, r.output[0:2, 0:4])


def test_captures_name_line_pe_and_program() -> None:
    r = kb.run(in_steps, X, kb.empty(X.shape, "f16"), chip="one_cube", grid=2, pes=[3, 5], schedule="static")
    found = r.captures["total"]
    line = in_steps.__code__.co_firstlineno + 7
    assert {each.line for each in found} == {f"test_captures.py:{line}"}
    assert {(each.program, each.pe) for each in found} == {(0, 3), (1, 5)}


def test_a_print_of_a_computed_value_comes_after_pass_2(capsys: pytest.CaptureFixture[str]) -> None:
    run()
    lines = capsys.readouterr().out.splitlines()
    where = f"test_captures.py:{in_steps.__code__.co_firstlineno + 8} sip0.cube0.pe0: total"
    assert sum(line.startswith(where) for line in lines) == 4
    first = float(lines[0].removeprefix(where).strip(" [") or lines[1].strip(" []"))
    assert first == pytest.approx(np.exp(X[0].astype(np.float64)).sum(), rel=1e-5)


def test_captures_change_neither_time_nor_log() -> None:
    def plain(tl: Any, x: Any, y: Any) -> None:
        for row in range(0, 32, 8):
            part = tl.load(x[row : row + 8, :])
            powers = tl.exp(part.to("f32"))
            total = tl.sum(powers, axis=1)
            shares = powers / total
            del powers, total
            tl.store(y[row : row + 8, :], shares.to(y.dtype))

    other = kb.run(plain, X, kb.empty(X.shape, "f16"), chip="one_pe")
    assert run().latency_ps == other.latency_ps
    assert run().result.ops == other.result.ops
    assert np.array_equal(run().output, other.output)


def test_without_pass_2_a_pending_value_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    (first, *_) = run(compute=False).captures["powers"]
    assert first.value is None
    assert "got a run without pass 2" in first.why_not
    assert "total no value: a pending value: got a run without pass 2" in capsys.readouterr().out


def test_bytes_that_were_never_written_are_no_value() -> None:
    def early(tl: Any, x: Any, y: Any) -> None:
        tl.capture("y", y[0:1, :])
        tl.store(y, tl.load(x))

    (found,) = kb.run(early, X, kb.empty(X.shape, "f16"), chip="one_pe").captures["y"]
    assert found.value is None
    assert "needs" in found.why_not


def test_types_and_ranks_come_back(tmp_path: Path) -> None:
    def kernel(tl: Any, x: Any, y: Any) -> None:
        part = tl.load(x)
        tl.capture("bf16", part.to("bf16"))
        tl.capture("mask", part > 0.0)
        tl.capture("known", part)
        tl.capture("range", tl.arange(0, 5))
        tl.store(y, part)

    r = kb.run(kernel, X, kb.empty(X.shape, "f16"), chip="one_pe", folder=tmp_path)
    found = {name: each[0].value for name, each in r.captures.items()}
    assert found["bf16"].dtype.name == "bfloat16"
    assert np.array_equal(found["mask"], X > 0)
    assert np.array_equal(found["known"], X)
    assert np.array_equal(found["range"], np.arange(5))


def products(tl: Any, a: Any, b: Any, c: Any, looks: bool) -> None:
    acc = tl.dot(tl.load(a[:, 0:16]), tl.load(b[0:16, :]), None)
    for k in range(16, 64, 16):
        acc = tl.dot(tl.load(a[:, k : k + 16]), tl.load(b[k : k + 16, :]), acc)
        if looks:
            tl.capture("acc", acc)
    tl.store(c, acc)


def test_a_sum_that_stays_in_registers_is_seen_there() -> None:
    a, b = X[:16], np.ascontiguousarray(X[16:].T)
    looked, plain = (kb.run(products, a, b, kb.empty((16, 16), "f32"), looks, chip="one_pe") for looks in (True, False))
    assert looked.latency_ps == plain.latency_ps
    for step, each in enumerate(looked.captures["acc"]):
        k = 16 * (step + 2)
        assert np.allclose(each.value, a[:, :k].astype(np.float64) @ b[:k].astype(np.float64), atol=1e-4)
