"""Results that nobody would receive: stores to inputs, and values that a kernel returns, are refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernbench as kb
from kb_cli.benchmark.run_records import record_call, repeated_call

X = np.arange(32, dtype=np.float32).reshape(4, 8)
EMPTY = kb.empty(X.shape, "f32")


def add_one(tl: Any, x: Any, y: Any) -> None:
    tl.store(y, tl.load(x) + 1)


def masked(tl: Any, x: Any, y: Any) -> None:
    tl.store(y, tl.load(x), (tl.arange(0, 8) < 4)[None, :])


def counts(tl: Any, x: Any, y: Any) -> None:
    tl.atomic_add(y[0, 0:8], tl.full((8,), 1.0, "f32"))


def composes(tl: Any, x: Any, y: Any) -> None:
    tl.wait(tl.composite("exp", x, out=y))


def multiplies(tl: Any, x: Any, y: Any) -> None:
    tl.wait(tl.composite("gemm", x[0:4, 0:4], x, out=y))


@pytest.mark.parametrize("kernel", [add_one, masked, counts, composes, multiplies])
@pytest.mark.parametrize("given", [X, kb.tensor(X)])
def test_a_store_to_an_input_is_refused_at_its_line(kernel: Any, given: Any) -> None:
    for argument in (given, np.empty_like(X)):
        with pytest.raises(kb.KbError) as caught:
            kb.run(kernel, X, argument, chip="one_pe", pes=[0])
        assert re.match(
            rf"test_lost_results\.py:{kernel.__code__.co_firstlineno + 1}: got tl\.\w+ to y\[.*, an input of the run, "
            r"needs a tensor whose bytes come back; pass kernbench\.empty\(shape, dtype\) for a result, "
            r"kernbench\.tensor\(x, output=True\)",
            str(caught.value),
        )


def test_an_input_in_a_list_is_refused_too() -> None:
    def fills(tl: Any, parts: Any) -> None:
        tl.store(parts[1], tl.full((4, 8), 1.0, "f32"))

    with pytest.raises(kb.KbError, match=r"got tl\.store to parts_1\[0:4, 0:8\], an input of the run"):
        kb.run(fills, [X, X], chip="one_pe")


def test_scratch_is_written_and_is_no_result(tmp_path: Path) -> None:
    def twice(tl: Any, x: Any, between: Any, y: Any) -> None:
        tl.store(between, tl.load(x) + tl.load(between))
        tl.store(y, tl.load(between) + 1)

    between = np.full_like(X, 3)
    arguments = X, kb.tensor(between, scratch=True), EMPTY
    r = kb.run(twice, *arguments, chip="one_pe", pes=[0], reference=X + 4, folder=tmp_path)
    assert (list(r.outputs), r.verified) == (["y"], True)
    record = record_call(kb.call(twice, *arguments))
    again = repeated_call(record, twice, {"x": X, "between": between}).tensors
    assert (again["between"].is_scratch, again["x"].is_scratch, again["y"].is_output) == (True, False, True)


def returns_math(tl: Any, x: Any) -> Any:
    return tl.load(x) * 2


def returns_a_load(tl: Any, x: Any) -> Any:
    return tl.load(x)


def returns_a_number(tl: Any, x: Any) -> Any:
    return 3


@pytest.mark.parametrize(
    ("kernel", "what"),
    [
        (returns_math, "a RecordedTensor"),
        (returns_a_load, "a LoadedTensor"),
        (returns_a_number, "an int"),
        (lambda tl, x: tl.load(x) * 2, "a RecordedTensor"),
    ],
)
def test_a_returned_value_is_refused(kernel: Any, what: str) -> None:
    with pytest.raises(kb.KbError) as caught:
        kb.run(kernel, X, chip="one_pe")
    line = f"test_lost_results.py:{kernel.__code__.co_firstlineno}"
    assert str(caught.value) == (
        f"kernel {kernel.__name__} ({line}): got {what} returned by the kernel, needs a kernel that returns nothing; "
        "tl.store it to a tensor argument"
    )
