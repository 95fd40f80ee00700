"""Pieces and bursts: costs by hand, and the gain of larger blocks and of blocks in one piece as measured."""

import numpy as np
import pytest
from rule_runs import check_gain, remedy_of, rules, run

import kernbench as kb

RULE = "pieces and bursts"


def loop(tl, x, y, block: int) -> None:
    mine = x.shape[0] // tl.num_programs()
    for start in range(tl.program_id() * mine, (tl.program_id() + 1) * mine, block):
        part = slice(start, start + block)
        tl.store(y[part], tl.load(x[part]) * 2.0)


def loop_ahead(tl, x, y, block: int) -> None:
    mine = x.shape[0] // tl.num_programs()
    first = tl.program_id() * mine
    parts = [slice(start, start + block) for start in range(first, first + mine, block)]
    for part, value in zip(parts, tl.ahead(tl.load_async(x[part]) for part in parts), strict=True):
        tl.store(y[part], value * 2.0)


def one_block(tl, x, y, block: int) -> None:
    part = slice(tl.program_id() * block, (tl.program_id() + 1) * block)
    tl.store(y[part], tl.load(x[part]) * 2.0)


def every_second(tl, x, y, block: int) -> None:
    mine = y.shape[0] // tl.num_programs()
    for start in range(tl.program_id() * mine, (tl.program_id() + 1) * mine, block):
        tl.store(y[start : start + block], tl.load(x[2 * start : 2 * (start + block) : 2]) * 2.0)


def ones(n: int) -> np.ndarray:
    return np.ones(n, np.float32)


@pytest.mark.parametrize(("chip", "n_pes"), [("one_pe", 1), ("one_cube", 8)])
@pytest.mark.parametrize(("block", "n_blocks", "times"), [(128, 32, 16), (1024, 8, 8)])
def test_larger_blocks_gain_as_much_as_estimated(chip: str, n_pes: int, block: int, n_blocks: int, times: int) -> None:
    x, y = ones(n_pes * block * n_blocks), kb.empty((n_pes * block * n_blocks,), "f32")
    flawed, rewritten = (run(loop, x, y, size, chip=chip) for size in (block, block * times))
    found = check_gain(flawed, rewritten, RULE)
    assert found.change == f"make blocks {times} times as large: {4 * block * times:,} bytes a load"


def test_larger_programs_gain_as_much_as_estimated() -> None:
    x, y = ones(8 * 256 * 16), kb.empty((8 * 256 * 16,), "f32")
    flawed, rewritten = (
        run(one_block, x, y, size, grid=(x.size // size,), chip="one_cube") for size in (256, 256 * 16)
    )
    check_gain(flawed, rewritten, RULE)


def test_larger_blocks_of_loads_that_run_ahead_leave_steps_to_hide_behind() -> None:
    # Of 16 steps of 1024 elements, 4 larger ones stay: one step would hide no load behind other work.
    x, y = ones(8 * 1024 * 16), kb.empty((8 * 1024 * 16,), "f32")
    flawed, rewritten = (run(loop_ahead, x, y, size, chip="one_cube") for size in (1024, 4096))
    assert check_gain(flawed, rewritten, RULE).change == "make blocks 5 times as large: 20,480 bytes a load"


@pytest.mark.parametrize(("chip", "n_pes"), [("one_pe", 1), ("one_cube", 8)])
def test_blocks_in_one_piece_gain_as_much_as_estimated(chip: str, n_pes: int) -> None:
    x, y = ones(2 * 256 * 8 * n_pes), kb.empty((256 * 8 * n_pes,), "f32")
    flawed = run(every_second, x, y, 256, chip=chip)
    rewritten = run(loop, x[::2].copy(), y, 256, chip=chip)
    found = remedy_of(flawed, RULE)
    assert found.change == "keep each block in one piece in memory"
    assert 0.8 <= (1 - rewritten.latency_ps / flawed.latency_ps) / found.gain <= 1.2


def test_the_cost_of_runs_is_the_one_of_their_bursts() -> None:
    # 256 runs of 4 bytes take 256 bursts of 64 bytes, 160 ns at 102.4 GB/s, and 1024 bytes in one piece 10 ns. Both
    # pay 5 ns of set-up, 45 of latency, and 4.07 of the XBAR and wires.
    x, y = ones(2 * 256 * 8), kb.empty((256 * 8,), "f32")
    found = remedy_of(run(every_second, x, y, 256, chip="one_pe"), RULE)
    assert found.flaw == "a transfer of 256 runs of 4 bytes takes 214.070 ns, and 64.070 ns in one piece"


def test_blocks_whose_bytes_take_longer_than_the_rest_are_left_as_they_are() -> None:
    x = ones(8 * 4096 * 8)
    assert RULE not in rules(run(loop, x, kb.empty(x.shape, "f32"), 4096, chip="one_cube"))


def test_one_block_for_each_pe_cannot_be_larger() -> None:
    x = ones(8 * 128)
    assert RULE not in rules(run(loop, x, kb.empty(x.shape, "f32"), 128, chip="one_cube"))


def test_rows_at_loaded_indices_are_left_out() -> None:
    def gather(tl, table, numbers, y, block: int) -> None:
        for start in range(0, numbers.shape[0], block):
            part = slice(start, start + block)
            tl.store(y[part, :], tl.load(table[tl.load(numbers[part])]))

    rng = np.random.default_rng(0)
    table, numbers = rng.standard_normal((64, 16), np.float32), rng.integers(0, 64, 32).astype(np.int32)
    assert RULE not in rules(run(gather, table, numbers, kb.empty((32, 16), "f32"), 8, chip="one_pe"))
