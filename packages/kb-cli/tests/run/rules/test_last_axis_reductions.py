"""Reductions along the last axis: costs by hand, and the gain of transposed blocks as measured."""

import numpy as np
import pytest
from rule_runs import check_gain, remedy_of, rules, run

import kernbench as kb

RULE = "reductions along the last axis"


def along_last(tl, x, y, block: int) -> None:
    mine = x.shape[0] // tl.num_programs()
    for start in range(tl.program_id() * mine, (tl.program_id() + 1) * mine, block):
        rows = slice(start, start + block)
        part = tl.load(x[rows, :])
        tl.store(y[rows, :], part - tl.max(part, axis=1))


def along_first(tl, x, y, block: int) -> None:
    mine = x.shape[0] // tl.num_programs()
    for start in range(tl.program_id() * mine, (tl.program_id() + 1) * mine, block):
        rows = slice(start, start + block)
        part = tl.load(x[rows, :])
        tl.store(y[rows, :], part - tl.max(part, axis=0))


def both(chip: str, rows: int, width: int, block: int, dtype: str) -> tuple[kb.KernelRun, kb.KernelRun]:
    """The kernel along the last axis; and along the first one, where each block lies transposed and in one piece."""
    x = kb.cast(np.random.default_rng(0).standard_normal((rows, width), np.float32), kb.DType(dtype))
    turned = np.ascontiguousarray(x.reshape(-1, block, width).transpose(0, 2, 1)).reshape(-1, block)
    return (
        run(along_last, x, kb.empty(x.shape, dtype), block=block, chip=chip),
        run(along_first, turned, kb.empty(turned.shape, dtype), block=width, chip=chip),
    )


@pytest.mark.parametrize(
    ("chip", "rows", "width", "block", "dtype"),
    [
        ("one_pe", 128, 64, 128, "f32"),
        ("one_pe", 256, 128, 128, "f16"),
        ("one_pe", 390, 100, 130, "f32"),
        ("one_cube", 2048, 256, 128, "f32"),
        ("one_cube", 4096, 32, 256, "f16"),
        ("one_cube", 4096, 128, 128, "f32"),
    ],
)
def test_transposed_blocks_gain_as_much_as_estimated(chip: str, rows: int, width: int, block: int, dtype: str) -> None:
    remedy = check_gain(*both(chip, rows, width, block, dtype), RULE)
    assert remedy.line.startswith("test_last_axis_reductions.py:")
    assert remedy.part == "pe_math"


def test_the_cost_along_both_axes_is_the_vector_units() -> None:
    # 128 lanes at 1 GHz: 128 rows of 1 group and a tree of 6 steps over 64 columns are 896 cycles; transposed, 64 rows
    # of 1 group are 64 cycles.
    flaw = remedy_of(both("one_pe", 128, 64, 128, "f32")[0], RULE).flaw
    assert flaw == "max along the last axis of 128 x 64 elements takes 896.000 ns, and along the first axis 64.000 ns"


def test_rows_that_fill_few_lanes_are_left_as_they_are() -> None:
    # 32 rows of 512: 32 * (4 + 7) = 352 cycles along the last axis, 512 * 1 along the first.
    flawed, rewritten = both("one_pe", 128, 512, 32, "f16")
    assert RULE not in rules(flawed)
    assert rewritten.latency_ps > flawed.latency_ps
