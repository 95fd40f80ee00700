"""How near kernels come to the machine: the figures of docs/kernels.md, and the kernels that the page shows."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernbench as kb

PAGE = (Path(__file__).parents[1] / "docs" / "kernels.md").read_text(encoding="utf-8")
LEAST_US = 3 * 4 * 2**24 / 819.2e3  # two operands and a result of 2^24 f32, at 819.2 GB/s


def shown(name: str) -> Callable[..., None]:
    """A kernel of the page."""
    found: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block, found)
    kernel: Callable[..., None] = found[name]
    return kernel


def taken_us(kernel: Any, *arguments: Any, **options: Any) -> float:
    """Simulated time on `one_cube`."""
    return kb.run(kernel, *arguments, chip="one_cube", compute=False, **options).latency_ns / 1000


def quoted(row: str) -> float:
    """The first time, in us, of the row of the page that begins with *row*."""
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| {row}")]
    found = re.search(r"\| ([\d.]+) us", line)
    assert found is not None, line
    return float(found[1])


def test_a_sum_of_vectors_has_nine_tenths_of_the_bandwidth_of_hbm() -> None:
    x = np.zeros(2**24, np.float32)
    taken = taken_us(shown("add"), x, x, kb.empty(2**24, "f32"), 16384)
    assert LEAST_US < taken < LEAST_US / 0.9
    assert round(taken, 1) == quoted("`add` below")


def test_a_product_in_tiles_has_four_fifths_of_the_speed_of_the_composite() -> None:
    a = np.zeros((2048, 2048), np.float16)
    taken = taken_us(shown("product"), a, a, kb.empty(a.shape, "f16"), 256, 128)
    composite = taken_us("gemm", M=2048, N=2048, K=2048)
    assert composite < taken < composite / 0.8
    assert (round(taken, 1), round(composite, 1)) == (quoted("`product` below"), 285.1)
    assert "`product` below, 2048 x 2048 x 2048 in f16, blocks of 256, steps of 128 | 349.8 us, 82 %" in PAGE


@pytest.mark.parametrize(("name", "extra"), [("add", (64,)), ("product", (32, 16))])
def test_the_kernels_of_the_page_are_right(name: str, extra: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x, z = (rng.standard_normal((2048,) if name == "add" else (128, 128), np.float32) for _ in range(2))
    r = kb.run(shown(name), x, z, kb.empty(x.shape, "f32"), *extra, chip="one_cube")
    r.check(x.astype(float) + z if name == "add" else x.astype(float) @ z)


def test_flash_attention_is_faster_than_three_kernels_and_says_why() -> None:
    shape = {"tokens": 2048, "heads": 4, "kv_heads": 1, "head_dim": 128, "causal": False}
    three, flash = (
        kb.run("attention", chip="one_cube", compute=False, kernels=kernels, **shape) for kernels in ("three", "flash")
    )
    assert flash.latency_ns < three.latency_ns
    assert f"the three kernels take {three.latency_ns / 1000:.1f} us and flash {flash.latency_ns / 1000:.1f} us" in PAGE
    assert three.bounded_by.startswith("HBM's bytes are 30.8 % of the time")
    assert flash.bounded_by.startswith("The math units' work is 52.7 % of the time")
    assert "the three kernels wait for HBM's bytes (30.8 %), and flash for math (52.7 %)" in PAGE
