"""The rule `tail` finds launches in which one PE has more work than others, and states what equal shares would gain."""

import numpy as np
import pytest
from rule_runs import check_gain, placement_rules, remedies, run

import kernbench as kb


def product(tl, a, b, y, rows, cols):
    program, down = tl.program_id(), y.shape[0] // rows
    m = slice(program % down * rows, (program % down + 1) * rows)
    n = slice(program // down * cols, (program // down + 1) * cols)
    tl.store(y[m, n], tl.dot(tl.load(a[m, :]), tl.load(b[:, n])).to("f16"))


def silu(tl, x, y, rows):
    for block in range(tl.program_id(), x.shape[0] // rows, tl.num_programs()):
        part = slice(block * rows, (block + 1) * rows)
        value = tl.load(x[part, :]).to("f32")
        tl.store(y[part, :], (value / (1 + tl.exp(-value))).to("f16"))


def triangle(tl, x, y, rows):
    """Program p reads p + 1 blocks of rows, like a causal mask."""
    program = tl.program_id()
    total = tl.load(x[0:rows, :]).to("f32")
    for block in range(1, program + 1):
        total = total + tl.load(x[block * rows : (block + 1) * rows, :])
    tl.store(y[program * rows : (program + 1) * rows, :], total.to("f16"))


def folded(tl, x, y, rows):
    """Program p does the work of programs p and 15 - p of `triangle`."""
    for program in (tl.program_id(), 15 - tl.program_id()):
        total = tl.load(x[0:rows, :]).to("f32")
        for block in range(1, program + 1):
            total = total + tl.load(x[block * rows : (block + 1) * rows, :])
        tl.store(y[program * rows : (program + 1) * rows, :], total.to("f16"))


def parted(tl, x, y, starts):
    """Program p takes rows in blocks of 16, from its place in *starts* to the next place."""
    for row in range(starts[tl.program_id()], starts[tl.program_id() + 1], 16):
        value = tl.load(x[row : row + 16, :]).to("f32")
        for _ in range(8):
            value = value / (1 + tl.exp(-value))
        tl.store(y[row : row + 16, :], value.to("f16"))


def products(m, k, n, rows, cols, grid):
    a, b = np.ones((m, k), np.float16), np.ones((k, n), np.float16)
    return run(product, a, b, kb.empty((m, n), "f16"), rows, cols, grid=(grid,))


def rows_of(shape, rows, **options):
    return run(silu, np.ones(shape, np.float16), kb.empty(shape, "f16"), rows, **options)


def test_nine_programs_on_eight_pes():
    flawed = products(256, 512, 576, 256, 64, 9)
    found = check_gain(flawed, products(256, 512, 576, 128, 144, 8), "tail")
    assert found.flaw.startswith("9 programs on 8 PEs: sip0.cube0.pe0 ends last, and PEs wait ")
    assert found.change == "choose other blocks: 8 equal shares of the work, one for each PE"
    assert (found.part, found.line) == ("sip0.cube0.pe0", "")


@pytest.mark.parametrize(("chip", "n_pes"), [("one_cube", 8), ("one_sip", 128)])
def test_rows_in_blocks_that_pes_cannot_share(chip, n_pes):
    shape, all_pes = (128 * (n_pes + 1), 512 if n_pes == 8 else 64), list(range(n_pes))
    flawed = rows_of(shape, 128, chip=chip, pes=all_pes)
    if n_pes == 128:  # the way to one cube is what all PEs wait for, and a better share of the work gains nothing
        assert "tail" not in placement_rules(flawed)
        return
    found = check_gain(flawed, rows_of(shape, 144, chip=chip, pes=all_pes), "tail")
    assert found.flaw == "sip0.cube0.pe0 has 1.78 times the work that 8 PEs have on average"  # 2 blocks, of 9 / 8


def test_programs_of_a_triangle():
    shape, rows = (16 * 64, 512), 64
    x = np.ones(shape, np.float16)
    flawed = run(triangle, x, kb.empty(shape, "f16"), rows, grid=(16,))
    rewritten = run(folded, x, kb.empty(shape, "f16"), rows, grid=(8,))
    check_gain(flawed, rewritten, "tail")


def test_a_gain_that_fixed_costs_make_uncertain_is_not_told():
    """Of 25 programs on 8 PEs, shares of one program gain 19 %, and shares of three programs 8 %."""

    def double(tl, x, y, size):
        part = slice(tl.program_id() * size, min((tl.program_id() + 1) * size, x.shape[0]))
        tl.store(y[part], tl.load(x[part]) * 2)

    x = np.ones(100_000, np.float32)
    assert "tail" not in placement_rules(run(double, x, kb.empty(x.shape, "f32"), 4096, grid=(25,)))


@pytest.mark.parametrize(
    ("m", "rows", "cols", "grid"), [(256, 256, 64, 8), (256, 128, 128, 8), (512, 256, 64, 16), (512, 512, 64, 8)]
)
def test_equal_shares_have_no_tail(m, rows, cols, grid):
    assert "tail" not in placement_rules(products(m, 256, 512, rows, cols, grid))


def shares_of(shares, slow):
    """A run of `parted` on PEs that have *shares* of 16 rows each, on a chip with *slow* PEs."""
    starts = [16 * sum(shares[:number]) for number in range(len(shares) + 1)]
    x = np.ones((starts[-1], 512), np.float16)
    values = {f"$.slow.{pe}": factor for pe, factor in slow.items()}
    return run(
        parted, x, kb.empty(x.shape, "f16"), starts, chip=kb.chip("one_cube", values), pes=list(range(len(shares)))
    )


@pytest.mark.parametrize(
    ("slow", "shares", "times"),
    [
        ({"pe3": 2}, [8, 8, 8, 4, 8, 8, 8, 8], "1.88"),  # 2 blocks of 8 over the 8 of 7.5 PEs
        ({"pe1": 4, "pe6": 2}, [8, 2, 8, 8, 8, 8, 4, 8], "3.38"),  # 4 over 8 / 6.75, as 6 + 1/4 + 1/2 PEs
    ],
)
def test_a_slow_pe_with_the_work_of_the_others(slow, shares, times):
    equal = [sum(shares) // 8 + (number < sum(shares) % 8) for number in range(8)]
    found = check_gain(shares_of(equal, slow), shares_of(shares, slow), "tail")
    last = max(slow, key=slow.get)
    factor = slow[last]
    assert found.part == f"sip0.cube0.{last}"
    assert found.flaw.startswith(f"sip0.cube0.{last} is slow by {factor}, and has ")
    assert found.flaw.endswith(" times the work that is due to it")
    assert found.change == "choose other blocks: give a slow PE the work of another PE, divided by its factor"
    assert float(found.flaw.split(" has ")[1].split()[0]) == pytest.approx(float(times), rel=0.07)


def test_the_programs_of_a_grid_that_wait_for_a_slow_pe():
    """17 programs of equal work on 8 PEs, of which pe3 takes ten times as long."""
    x = np.ones((17 * 128, 512), np.float16)
    starts = [128 * number for number in range(18)]
    found = run(parted, x, kb.empty(x.shape, "f16"), starts, chip=kb.chip("one_cube", {"$.slow.pe3": 10}), grid=17)
    (tail,) = [each for each in remedies(found) if each.rule == "tail"]
    assert tail.flaw.startswith("17 programs on 8 PEs: sip0.cube0.pe3 is slow by 10, and ends last, and PEs wait ")


def test_a_slow_pe_with_its_share_has_no_tail():
    assert "tail" not in placement_rules(shares_of([8, 8, 8, 4, 8, 8, 8, 8], {"pe3": 2}))
