"""Numbers and arrays of numpy beside values of a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernbench as kb

X = np.arange(32, dtype=np.float32).reshape(4, 8)
EMPTY = kb.empty(X.shape, "f32")


def test_numbers_of_numpy_are_operands_on_either_side() -> None:
    def by_python(tl: Any, x: Any, y: Any, i: Any, j: Any) -> None:
        value, whole = tl.load(x), tl.load(i)
        tl.store(y, tl.where(value > 2.0, 2.0 * value - 1.0, 8.0 / (value + 1.0)) * (value < 3.0))
        tl.store(j, 7 - whole * 2)

    def by_numpy(tl: Any, x: Any, y: Any, i: Any, j: Any) -> None:
        value, whole = tl.load(x), tl.load(i)
        kept = tl.where(
            value > np.float32(2), np.sqrt(4) * value - np.float32(1), np.float32(8) / (value + np.int64(1))
        )
        tl.store(y, kept * (np.float64(3) > value))
        tl.store(j, np.int64(7) - whole * np.int32(2))

    i = np.arange(8, dtype=np.int32)
    runs = [
        kb.run(each, X, kb.empty(X.shape, "f32"), i, kb.empty(i.shape, "i32"), chip="one_pe")
        for each in (by_python, by_numpy)
    ]
    assert runs[0].latency_ps == runs[1].latency_ps
    for name in ("y", "j"):
        assert np.array_equal(runs[0].outputs[name], runs[1].outputs[name])


@pytest.mark.parametrize("left", [True, False])
def test_an_array_beside_a_value_is_refused_at_the_operator(left: bool) -> None:
    def times(tl: Any, x: Any, y: Any, left: bool) -> None:
        value, row = tl.load(x), np.ones(x.shape[1], np.float32)
        product = row * value if left else value * row
        raise AssertionError(product)

    with pytest.raises(kb.KbError, match=r"got tl.mul of a ndarray, .* give it to the kernel as an argument"):
        kb.run(times, X, kb.empty(X.shape, "f32"), left, chip="one_pe")
