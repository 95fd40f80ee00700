"""The rule `unused PEs` finds PEs without work, and estimates what more PEs gain."""

import numpy as np
import pytest
from rule_runs import check_gain, placement_rules, remedies, run

import kernbench as kb


def add(tl, x, y, z, rows):
    for block in range(tl.program_id(), x.shape[0] // rows, tl.num_programs()):
        part = slice(block * rows, (block + 1) * rows)
        tl.store(z[part, :], tl.load(x[part, :]) + tl.load(y[part, :]))


def product(tl, a, b, y, rows, cols):
    down = a.shape[0] // rows
    for block in range(tl.program_id(), down * (b.shape[1] // cols), tl.num_programs()):
        m = slice(block % down * rows, (block % down + 1) * rows)
        n = slice(block // down * cols, (block // down + 1) * cols)
        tl.store(y[m, n], tl.dot(tl.load(a[m, :]), tl.load(b[:, n])).to("f16"))


def norm(tl, x, gamma, y, rows):
    part = slice(tl.program_id() * rows, (tl.program_id() + 1) * rows)
    value = tl.load(x[part, :]).to("f32")
    scale = tl.rsqrt(tl.sum(value * value, axis=1) / x.shape[1] + 1e-5)
    tl.store(y[part, :], (value * scale * tl.load(gamma).to("f32")).to("f16"))


def steps(tl, x, y):
    """Each step needs the one before it, and ends by a value of it."""
    value = tl.load(x)
    for _ in range(8):
        value = value * value
        if tl.materialize(tl.max(tl.max(value, axis=0), axis=1))[0, 0] > 2:
            break
    tl.store(y, value)


def additions(pes, rows=32, **options):
    x = np.ones((1024, 512), np.float32)
    return run(add, x, x, kb.empty(x.shape, "f32"), rows, pes=list(range(pes)), **options)


def products(pes, rows, cols):
    a = np.ones((512, 512), np.float16)
    return run(product, a, a, kb.empty((512, 512), "f16"), rows, cols, pes=list(range(pes)))


def norms(rows, cube=None, **options):
    x, gamma = np.ones((1024, 768), np.float16), np.ones(768, np.float16)
    inputs = kb.tensor(x, cube=cube), kb.tensor(gamma, cube=cube)
    return run(norm, *inputs, kb.empty(x.shape, "f16", cube=cube), rows, grid=(1024 // rows,), **options)


@pytest.mark.parametrize("pes", [1, 2, 4])
def test_rows_on_some_of_eight_pes(pes):
    found = check_gain(additions(pes), additions(8), "unused PEs")
    assert found.part == f"sip0.cube0.pe{pes}"
    assert found.flaw == f"{pes} of 8 PEs have work"
    assert found.change == "cut the work into 8 shares, one for each PE"


@pytest.mark.parametrize(
    ("pes", "rows", "cols", "new_rows"), [(1, 128, 128, 128), (4, 128, 128, 128), (2, 256, 256, 128)]
)
def test_products_on_some_of_eight_pes(pes, rows, cols, new_rows):
    check_gain(products(pes, rows, cols), products(8, new_rows, cols), "unused PEs")


def test_a_grid_that_is_smaller_than_the_chip():
    check_gain(norms(256), norms(128), "unused PEs")


def test_eight_of_128_pes_and_operands_in_one_cube():
    x = np.ones((8192, 256), np.float32)
    near = kb.tensor(x, cube=0), kb.tensor(x, cube=0), kb.empty(x.shape, "f32", cube=0)
    flawed = run(add, *near, 64, chip="one_sip", pes=list(range(8)))
    own = kb.tensor(x, shard="row"), kb.tensor(x, shard="row"), kb.empty(x.shape, "f32", shard="row")
    found = check_gain(flawed, run(add, *own, 64, chip="one_sip", pes=list(range(128))), "unused PEs")
    assert found.flaw == "8 of 128 PEs have work"
    assert found.change.endswith("one for each PE, with the operands sharded over all 128 slices of HBM")


def test_nobody_knows_the_waits_of_all_cubes_for_one_small_operand():
    assert placement_rules(norms(32, chip="one_sip", pes=list(range(8)))) == []


def test_nobody_knows_what_more_pes_do_for_steps_that_follow_each_other():
    x = np.ones((64, 64), np.float32)
    assert placement_rules(run(steps, x, kb.empty(x.shape, "f32"), pes=[0])) == []


def test_all_pes_in_use_leave_none():
    assert placement_rules(additions(8)) == []
    assert placement_rules(additions(1, chip="one_pe")) == []


def test_a_slow_pe_gets_an_equal_share_too():
    """Sums of squares on four PEs: the other four take as long with pe7, which is slow by 3."""
    few, slow = list(range(4)), kb.chip("one_cube", {"$.slow.pe7": 3})
    usual, slowed = (norms(32, pes=few, chip=chip) for chip in ("one_cube", slow))
    assert usual.latency_ps == slowed.latency_ps
    found, less = (next((each for each in remedies(one) if each.rule == "unused PEs"), None) for one in (usual, slowed))
    assert found is not None
    assert less is None or less.gain < found.gain
