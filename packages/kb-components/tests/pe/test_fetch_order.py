"""Registers are claimed in the order in which tiles are fed, also by math without operands in TCM.

Numbers of the round chip in picoseconds, as in test_compute_slot.py: 7000 from a call to the first stage, a read of 512
bytes 44240, FETCH of two tiles 6120, GEMM 46000, `fill` of 256 elements in 16 lanes 16000.
"""

from kb_dataexec import sanitize

DECOUPLED = ("issue_ns: 3}", "issue_ns: 3, issue: decoupled}")
SMALL = ("memory: {space: reg, size: 64 KiB}", "memory: {space: reg, size: 1 KiB}")
TILE = (16, 16, "f16")


def filled_beside_a_product(tl, a, b, c, d):
    tl.composite("gemm", a, b, out=c, tile=(16, 16, 16))
    tl.store(d, tl.full((16, 16), 1.0, "f16"))


def test_math_without_a_fetch_does_not_overtake_tiles_that_are_not_fetched(simulate):
    run = simulate(filled_beside_a_product, *[TILE] * 4)
    fetched = 7000 + 2 * 44240 + 6120
    # The second command is issued at 6000, taken at 7000 and decoded at 11000.
    assert run.times(0, 0)[2][2] == fetched
    assert run.times(1, 0)[0] == (fetched, fetched, fetched + 16000, fetched + 16000)
    assert sanitize(run.log) == []


def test_a_fetch_does_not_overtake_math_that_claims_registers(simulate):
    def kernel(tl, a, b, c, d):
        x, y = tl.load(a), tl.load(b)
        tl.store(c, tl.exp(x))
        tl.store(d, tl.full((16, 16), 1.0, "f16"))
        tl.store(c, tl.abs(y))

    run = simulate(kernel, *[TILE] * 4, changes=(DECOUPLED,))
    # x is there at 51240. Then 4000 to take exp, a FETCH of 3560, exp 64000 and, behind it, fill 16000. y was there at
    # 95480, in time.
    fill, fetch = run.times(4, 0)[0], run.times(6, 0)[0]
    assert fill[1:3] == (51240 + 4000 + 3560 + 64000, 138800)
    assert fetch[0] == 138800
    assert sanitize(run.log) == []


def test_math_without_a_fetch_gets_registers_before_those_behind_it(simulate):
    """Without an order, the last program holds half of the registers and waits behind the fill, which needs all."""

    def kernel(tl, a, b, c, d, e):
        x, y = tl.load(a), tl.load(b)
        tl.store(c, tl.exp(x))
        tl.store(d, tl.full((32, 16), 1.0, "f16"))
        tl.store(e, tl.abs(y))

    run = simulate(kernel, TILE, TILE, TILE, (32, 16, "f16"), TILE, changes=(DECOUPLED, SMALL))
    assert len(run.plans) == 8
    assert sanitize(run.log) == []
