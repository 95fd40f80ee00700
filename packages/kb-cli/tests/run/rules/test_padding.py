"""Padding of arrays: costs by hand, and the gain of full blocks as measured."""

import re

import numpy as np
import pytest
from rule_runs import check_gain, remedy_of, rules, run

import kernbench as kb

RULE = "padding of arrays"


def product(tl, a, b, y, m: int, n: int, k: int) -> None:
    across = -(-y.shape[1] // n)
    for number in range(tl.program_id(), -(-y.shape[0] // m) * across, tl.num_programs()):
        row, col = number // across * m, number % across * n
        rows, cols = slice(row, min(row + m, y.shape[0])), slice(col, min(col + n, y.shape[1]))
        steps = (slice(start, start + k) for start in range(0, a.shape[1], k))
        acc = 0
        for left, right in tl.ahead((tl.load_async(a[rows, step]), tl.load_async(b[step, cols])) for step in steps):
            acc = tl.dot(left, right, acc)
        tl.store(y[rows, cols], acc.to(y.dtype))


def times(chip: str, sizes: tuple[int, int, int], block: tuple[int, int, int], dtype: str = "f16") -> kb.KernelRun:
    m, n, k = sizes
    rng = np.random.default_rng(0)
    a, b = (kb.cast(rng.standard_normal(shape, np.float32), kb.DType(dtype)) for shape in ((m, k), (k, n)))
    return run(product, a, b, kb.empty((m, n), dtype), *block, chip=chip)


@pytest.mark.parametrize(
    ("chip", "sizes", "block"),
    [
        ("one_pe", (1040, 256, 512), (65, 128, 256)),
        ("one_pe", (544, 256, 512), (17, 128, 256)),
        ("one_cube", (1040, 256, 512), (65, 65, 256)),
        ("one_cube", (512, 512, 512), (16, 128, 256)),
        ("one_cube", (512, 1024, 256), (128, 96, 128)),
    ],
)
def test_full_blocks_gain_as_much_as_estimated(chip: str, sizes: tuple[int, ...], block: tuple[int, ...]) -> None:
    flawed = times(chip, sizes, block)
    change = remedy_of(flawed, RULE).change
    found = re.match(r"blocks of (\d+) x (\d+)", change)
    assert found is not None, change
    check_gain(flawed, times(chip, sizes, (int(found[1]), int(found[2]), block[2])), RULE)


def test_the_cost_of_a_block_is_the_arrays() -> None:
    # 64 x 64 cells at 1 GHz: 2 x 2 blocks of 256 steps, and 126 cycles to fill and drain.
    remedy = remedy_of(times("one_pe", (1040, 256, 512), (65, 128, 256)), RULE)
    assert remedy.flaw == (
        "blocks of 65 x 128 x 256 take 1.150 us of the array each, as much as blocks of 128 x 128 x 256"
    )
    assert remedy.change == "blocks of 128 x 128, of which each takes 1.150 us"


@pytest.mark.parametrize(
    ("sizes", "block"),
    [
        ((512, 512, 512), (64, 64, 256)),  # full
        ((1, 1024, 1024), (1, 128, 512)),  # a vector has one row
        ((40, 512, 512), (40, 128, 256)),  # no more rows than these
        ((130, 128, 256), (64, 64, 256)),  # the last block is small in any cut
    ],
)
def test_a_product_that_fills_the_array_as_far_as_it_can_has_no_flaw(
    sizes: tuple[int, int, int], block: tuple[int, int, int]
) -> None:
    assert RULE not in rules(times("one_pe", sizes, block))
