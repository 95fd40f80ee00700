"""The rules `all in one slice` and `one slice at a time` find requests that meet at a slice of HBM."""

import numpy as np
import pytest
from rule_runs import check_gain, placement_rules, remedy_of, run

import kernbench as kb


def double(tl, x, y, rows):
    for block in range(x.shape[0] // rows // tl.num_programs()):
        first = (tl.program_id() * (x.shape[0] // tl.num_programs())) + block * rows
        tl.store(y[first : first + rows, :], tl.load(x[first : first + rows, :]) * 2)


def product(tl, a, b, y):
    n = slice(tl.program_id() * 128, (tl.program_id() + 1) * 128)
    for m in range(0, a.shape[0], 128):
        tl.store(y[m : m + 128, n], tl.dot(tl.load(a[m : m + 128, :]), tl.load(b[:, n])).to("f16"))


def walk(tl, x, y, rows, step):
    """All programs add up the same blocks of rows; program p begins at block p * step."""
    total = 0.0
    for number in range(x.shape[0] // rows):
        block = (number + step * tl.program_id()) % (x.shape[0] // rows)
        total = total + tl.load(x[block * rows : (block + 1) * rows, :])
    tl.store(y[tl.program_id() * rows : (tl.program_id() + 1) * rows, :], total)


def columns(tl, x, y, cols, step):
    """Program p scales all columns of its rows, *cols* at a time. It begins p * step blocks further on."""
    rows, blocks = x.shape[0] // tl.num_programs(), x.shape[1] // cols
    part = slice(tl.program_id() * rows, (tl.program_id() + 1) * rows)
    for number in range(blocks):
        block = (number + step * tl.program_id()) % blocks
        at = slice(block * cols, (block + 1) * cols)
        tl.store(y[part, at], tl.load(x[part, at]) * 2)


@pytest.mark.parametrize("dtype", ["f16", "f32"])
@pytest.mark.parametrize("rows", [32, 128])
def test_all_rows_in_one_slice(dtype, rows):
    x = kb.cast(np.ones((1024, 512), np.float32), dtype)
    one = kb.tensor(x, slices=[3]), kb.empty(x.shape, dtype, slices=[3])
    own = kb.tensor(x, shard="row"), kb.empty(x.shape, dtype, shard="row")
    found = check_gain(run(double, *one, rows), run(double, *own, rows), "all in one slice")
    assert found.part == "sip0.cube0.hbm3"
    assert found.flaw == "sip0.cube0.hbm3 of 8 serves 100.0 % of HBM's bytes, and PEs wait for them"
    assert found.change == "shard the operands over all 8 slices, each part near the PE that uses it"
    assert found.line == "test_slices.py:13"


def test_operands_of_a_product_in_one_slice():
    a, b, shape = np.ones((512, 512), np.float16), np.ones((512, 1024), np.float16), (512, 1024)
    one = kb.tensor(a, slices=[0]), kb.tensor(b, slices=[0]), kb.empty(shape, "f16", slices=[0])
    check_gain(run(product, *one), run(product, a, b, kb.empty(shape, "f16")), "all in one slice")


def test_all_rows_in_one_cube_of_sixteen():
    x, everyone = np.ones((8192, 256), np.float32), list(range(128))
    near = kb.tensor(x, cube=0), kb.empty(x.shape, "f32", cube=0)
    one = run(double, *near, 64, chip="one_sip", pes=everyone)
    own = kb.tensor(x, shard="row"), kb.empty(x.shape, "f32", shard="row")
    found = check_gain(one, run(double, *own, 64, chip="one_sip", pes=everyone), "all in one slice")
    assert found.flaw.startswith("8 slices (sip0.cube0.hbm0 to sip0.cube0.hbm7) of 128 serve 100.0 % of HBM's bytes")


@pytest.mark.parametrize("blocks", [8, 16, 24])
def test_programs_that_walk_the_same_blocks(blocks):
    x = np.ones((64 * blocks, 256), np.float32)
    by_block = kb.tensor(x, blocks=(blocks, 1), slices=[block % 8 for block in range(blocks)])
    flawed, rewritten = (run(walk, by_block, kb.empty((64 * 8, 256), "f32"), 64, step) for step in (0, 1))
    found = check_gain(flawed, rewritten, "one slice at a time")
    assert found.change == "let each program begin its loop at another block, so that programs are at different slices"
    assert found.line == "test_slices.py:27"


def tiles(tl, a, b, y, block):
    """A product of square blocks. Each tensor has its blocks one after the other, one row of blocks after the other."""
    n, i, j, total = int((a.shape[0] // block) ** 0.5), tl.program_id(1), tl.program_id(0), 0

    def place(row, col):
        return slice((row * n + col) * block, (row * n + col + 1) * block)

    for k in range(n):
        total = tl.dot(tl.load(a[place(i, k), :]), tl.load(b[place(k, j), :]), total)
    tl.store(y[place(i, j), :], total.to("f16"))


def matmul(tl, a, b, y, block):
    rows = slice(tl.program_id(1) * block, (tl.program_id(1) + 1) * block)
    cols = slice(tl.program_id(0) * block, (tl.program_id(0) + 1) * block)
    total = 0
    for k in range(0, a.shape[1], block):
        total = tl.dot(tl.load(a[rows, k : k + block]), tl.load(b[k : k + block, cols]), total)
    tl.store(y[rows, cols], total.to("f16"))


def matmul_ahead(tl, a, b, y, block):
    rows = slice(tl.program_id(1) * block, (tl.program_id(1) + 1) * block)
    cols = slice(tl.program_id(0) * block, (tl.program_id(0) + 1) * block)
    steps = (slice(k, k + block) for k in range(0, a.shape[1], block))
    total = 0
    for left, right in tl.ahead((tl.load_async(a[rows, k]), tl.load_async(b[k, cols])) for k in steps):
        total = tl.dot(left, right, total)
    tl.store(y[rows, cols], total.to("f16"))


def test_blocks_that_lie_in_two_slices_each():
    """A row of 1024 bytes is half a round of granules, so the rows of a block of 256 bytes alternate in two slices."""
    a, packed = np.ones((512, 512), np.float16), np.ones((16 * 128, 128), np.float16)
    flawed = run(matmul, a, a, kb.empty(a.shape, "f16"), 128, grid=(4, 4))
    rewritten = run(tiles, packed, packed, kb.empty(packed.shape, "f16"), 128, grid=(4, 4))
    found = remedy_of(flawed, "one slice at a time")
    assert found.change == "lay out each block of a load as one piece, so that it lies over all slices"
    assert 0.8 <= (1 - rewritten.latency_ps / flawed.latency_ps) / found.gain <= 1.2
    assert placement_rules(rewritten) == []


def test_work_that_is_hidden_behind_transfers_makes_the_gain_uncertain():
    a = np.ones((512, 512), np.float16)
    assert placement_rules(run(matmul_ahead, a, a, kb.empty(a.shape, "f16"), 128, grid=(4, 4))) == []


@pytest.mark.parametrize("rows", [256, 512])
def test_columns_that_lie_in_one_slice_of_an_interleaved_tensor(rows):
    """A row is a round of eight granules of 256 bytes, so the pieces of a column all lie in one slice."""
    x = np.ones((rows, 1024), np.float16)
    flawed, rewritten = (run(columns, x, kb.empty(x.shape, "f16"), 128, step) for step in (0, 1))
    check_gain(flawed, rewritten, "one slice at a time")


@pytest.mark.parametrize("chip", ["one_pe", "one_cube", "one_cube_banked", "one_sip"])
def test_flat_and_sharded_tensors_load_slices_evenly(chip):
    x = np.ones((1024, 512), np.float16)
    assert placement_rules(run(double, x, kb.empty(x.shape, "f16"), 32, chip=chip, pes=[0])) in ([], ["unused PEs"])
    sharded = kb.tensor(x, shard="row"), kb.empty(x.shape, "f16", shard="row")
    assert placement_rules(run(double, *sharded, 8, chip=chip)) == []


def test_one_pe_alone_waits_for_nobody():
    x = np.ones((1024, 512), np.float16)
    one = kb.tensor(x, slices=[3]), kb.empty(x.shape, "f16", slices=[3])
    assert placement_rules(run(double, *one, 32, pes=[3])) in ([], ["unused PEs"])
