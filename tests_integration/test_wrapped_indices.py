"""Indices that wrapped: `--sanitize` names the line that indexes and the line where the integers left their type."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kernbench as kb
from kb_messages import KbError

IDS = np.array([0, 32768, 65536], np.int32)
"""Times 131072 they are multiples of 2^32, which are 0 as i32."""
X = np.arange(4, dtype=np.float32)


def found(kernel: Callable[..., None], ids: np.ndarray = IDS) -> tuple[list[str], list[float]]:
    """What the sanitizer says of *kernel*, and its result."""
    run = kb.run(kernel, ids, X, kb.empty(len(ids), "f32"), chip="one_pe", pes=[0], sanitize=True)
    return run.result.sanitizer.texts, run.outputs["y"].tolist()


def test_a_product_beyond_its_type_is_told_where_it_is_an_index() -> None:
    def kernel(tl: Any, ids: Any, x: Any, y: Any) -> None:
        rows = tl.load(ids) * 65536 * 2
        kept = (rows + 1)[:, None].reshape(3)
        tl.store(y, tl.load(x[kept]))

    line = kernel.__code__.co_firstlineno
    file = "test_wrapped_indices.py"
    said = (
        f"wrapped index: {file}:{line + 3} indexes by integers that wrapped at {file}:{line + 1}, on sip0.cube0.pe0; "
        'compute them in i64: x.to("i64")'
    )
    assert found(kernel) == ([said], [1, 1, 1])


def in_i64(tl: Any, ids: Any, x: Any, y: Any) -> None:
    tl.store(y, tl.load(x[(tl.load(ids).to("i64") * 65536 * 2) // 2**31]))


def hashed(tl: Any, ids: Any, x: Any, y: Any) -> None:
    tl.store(y, tl.load(x[tl.load(ids) * 1640531527 % 4]))


def narrowed_within(tl: Any, ids: Any, x: Any, y: Any) -> None:
    tl.store(y, tl.load(x[(tl.load(ids) // 65536).to("i8")]))


@pytest.mark.parametrize(
    ("kernel", "ids", "result"),
    [(in_i64, IDS // 32768, [0, 0, 0]), (hashed, IDS, [0, 0, 0]), (narrowed_within, IDS, [0, 0, 1])],
)
def test_integers_that_fit_and_remainders_of_any_are_no_findings(
    kernel: Callable[..., None], ids: np.ndarray, result: list[float]
) -> None:
    assert found(kernel, ids) == ([], result)


WAYS: dict[str, Callable[[Any], Any]] = {
    "sub": lambda i: i * 0 - 2147483647 - 1 - 2147483647 - 1,
    "lshift": lambda i: i << 17,
    "to": lambda i: (i * 2).to("i16"),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_out_of_a_type_counts(way: str) -> None:
    def kernel(tl: Any, ids: Any, x: Any, y: Any) -> None:
        tl.store(y, tl.load(x[WAYS[way](tl.load(ids))]))

    texts, result = found(kernel)
    assert [text.partition(":")[0] for text in texts] == ["wrapped index"]
    assert result == [0, 0, 0]


def test_a_negative_index_is_refused_at_its_line() -> None:
    def kernel(tl: Any, ids: Any, x: Any, y: Any) -> None:
        tl.store(y, tl.load(x[tl.load(ids) - 5]))

    with pytest.raises(KbError, match=rf"{kernel.__code__.co_firstlineno + 1}: got index -5 in dimension 0 of x"):
        found(kernel)
