"""Waits of blocking issue: the gain by hand, and as kernels that load ahead measure it."""

import numpy as np
import pytest
from rule_runs import check_gain, check_remedy, remedy_of, rules, run

import kernbench as kb

RULE = "waits of blocking issue"
RNG = np.random.default_rng(0)


def in_order(tl, x, y, block: int, n_exp: int) -> None:
    mine = x.shape[0] // tl.num_programs()
    for start in range(tl.program_id() * mine, (tl.program_id() + 1) * mine, block):
        part = slice(start, start + block)
        value = tl.load(x[part])
        for _ in range(n_exp):
            value = tl.exp(value)
        tl.store(y[part], value)


def ahead(tl, x, y, block: int, n_exp: int) -> None:
    mine = x.shape[0] // tl.num_programs()
    first = tl.program_id() * mine
    parts = [slice(start, start + block) for start in range(first, first + mine, block)]
    for part, value in zip(parts, tl.ahead(tl.load_async(x[part]) for part in parts), strict=True):
        for _ in range(n_exp):
            value = tl.exp(value)
        tl.store(y[part], value)


def a_block_each(tl, x, z, y, block: int) -> None:
    part = slice(tl.program_id() * block, (tl.program_id() + 1) * block)
    one, two = tl.load(x[part]), tl.load(z[part])
    tl.store(y[part], one * two + one)


def loop_over_blocks(tl, x, z, y, block: int) -> None:
    starts = range(tl.program_id() * block, y.shape[0], tl.num_programs() * block)
    parts = [slice(start, start + block) for start in starts]
    loads = tl.ahead((tl.load_async(x[part]), tl.load_async(z[part])) for part in parts)
    for part, (one, two) in zip(parts, loads, strict=True):
        tl.store(y[part], one * two + one)


def product(tl, a, b, y, block: int, step: int) -> None:
    rows, cols = (slice(tl.program_id(axis) * block, (tl.program_id(axis) + 1) * block) for axis in (1, 0))
    acc = 0
    for start in range(0, a.shape[1], step):
        depth = slice(start, start + step)
        acc = tl.dot(tl.load(a[rows, depth]), tl.load(b[depth, cols]), acc)
    tl.store(y[rows, cols], acc.to(y.dtype))


def product_ahead(tl, a, b, y, block: int, step: int) -> None:
    rows, cols = (slice(tl.program_id(axis) * block, (tl.program_id(axis) + 1) * block) for axis in (1, 0))
    depths = (slice(start, start + step) for start in range(0, a.shape[1], step))
    acc = 0
    for left, right in tl.ahead((tl.load_async(a[rows, depth]), tl.load_async(b[depth, cols])) for depth in depths):
        acc = tl.dot(left, right, acc)
    tl.store(y[rows, cols], acc.to(y.dtype))


def elements(n: int) -> np.ndarray:
    return RNG.standard_normal(n, np.float32)


@pytest.mark.parametrize(("chip", "n_pes", "block", "n_exp"), [("one_pe", 1, 4096, 1), ("one_cube", 8, 16384, 3)])
def test_a_loop_that_loads_ahead_gains_as_much_as_estimated(chip: str, n_pes: int, block: int, n_exp: int) -> None:
    x = elements(n_pes * block * 12)
    flawed, rewritten = (
        run(kernel, x, kb.empty(x.shape, "f32"), block, n_exp, chip=chip) for kernel in (in_order, ahead)
    )
    remedy = check_gain(flawed, rewritten, RULE)
    assert remedy.change == "load the next block during the work on this one, with tl.ahead"


def test_programs_of_one_block_gain_by_a_loop_over_the_blocks_of_a_pe() -> None:
    x = elements(8 * 2048 * 10)
    flawed = run(a_block_each, x, x.copy(), kb.empty(x.shape, "f32"), 2048, grid=(80,), chip="one_cube")
    rewritten = run(loop_over_blocks, x, x.copy(), kb.empty(x.shape, "f32"), 2048, chip="one_cube")
    assert check_gain(flawed, rewritten, RULE).change.startswith("let one program of each PE take its blocks in a loop")


@pytest.mark.parametrize(
    ("chip", "block", "step"), [("one_pe", 256, 64), ("one_cube", 128, 128), ("one_cube", 64, 256)]
)
def test_a_product_whose_tiles_come_ahead_gains_as_much_as_estimated(chip: str, block: int, step: int) -> None:
    a, b = (kb.cast(RNG.standard_normal((512, 512), np.float32), kb.DType.F16) for _ in range(2))
    y, grid = kb.empty((512, 512), "f16"), (512 // block, 512 // block)
    check_remedy(
        *(run(kernel, a, b, y, block, step, grid=grid, chip=chip) for kernel in (product, product_ahead)), RULE
    )


def test_the_gain_is_the_waits_that_work_hides() -> None:
    # A load of 16 KiB by one PE: 4 ns of issue, 8 of decoding, 5 of set-up, 45 of latency, 160 of bytes, and twice 2 of
    # the XBAR and 0.035 of wires. All but the first one of 12 hide behind longer work, and cost 8 ns of decoding then.
    x = elements(12 * 4096)
    flawed = run(in_order, x, kb.empty(x.shape, "f32"), 4096, 1, chip="one_pe")
    assert remedy_of(flawed, RULE).gain == pytest.approx(11 * (226.07 - 8) / flawed.latency_ns, rel=1e-3)


def test_one_block_for_each_pe_leaves_nothing_to_hide() -> None:
    x = elements(8 * 4096)
    assert RULE not in rules(run(in_order, x, kb.empty(x.shape, "f32"), 4096, 1, chip="one_cube"))


def test_loads_at_loaded_indices_are_left_out() -> None:
    def gather(tl, table, numbers, y, block: int) -> None:
        for start in range(0, numbers.shape[0], block):
            part = slice(start, start + block)
            tl.store(y[part, :], tl.load(table[tl.load(numbers[part])]))

    table, numbers = RNG.standard_normal((64, 256), np.float32), RNG.integers(0, 64, 32).astype(np.int32)
    result = run(gather, table, numbers, kb.empty((32, 256), "f32"), 4, chip="one_pe")
    assert RULE not in rules(result)


def test_a_tcm_without_room_for_one_more_step_is_left_as_it_is() -> None:
    x = elements(4 * 2**17)  # 512 KiB a block: two of them, and their results, fill the 1.25 MiB of a TCM
    assert RULE not in rules(run(in_order, x, kb.empty(x.shape, "f32"), 2**17, 1, chip="one_pe"))
