"""Long composites: the slowest stage sets the rate, fill and drain come on top, and queues are worth what they hold.

The tile is f16 and 16 x 16 x 16 throughout, the chip the round one; `test_pipeline` shows the arithmetic of a tile.
"Over K" are tiles that share one accumulator, stored and written once; "over M" each tile is an output of its own.
"""

import pytest

READ = WRITE = 2000 + 1000 + 512 * 20 + 30000 + 1000
BOTH = 2 * READ
FETCH = 1000 + 1024 * 5
GEMM = (16 + 30) * 1000
STORE = 1000 + 512 * 5
START = ISSUE = 3000 + 4000


def composite(tl, a, b, c):
    tl.composite("gemm", a, b, out=c, tile=(16, 16, 16))


def over_k(tiles):
    return (16, 16 * tiles, "f16"), (16 * tiles, 16, "f16"), (16, 16, "f16")


def over_m(tiles):
    return (16 * tiles, 16, "f16"), (16, 16, "f16"), (16 * tiles, 16, "f16")


def test_the_arithmetic_of_this_page():
    assert (BOTH, FETCH, GEMM, STORE, WRITE) == (88480, 6120, 46000, 3560, 44240)


LONG = pytest.mark.parametrize("tiles", [10, 40, 100])


@LONG
@pytest.mark.parametrize("problem", [over_k, over_m])
def test_reads_are_the_slowest(simulate, tiles, problem):
    """88480 a tile against 46000 of GEMM. Over M, a write is at HBM between two reads, each 10240 of 44240."""
    run = simulate(composite, *problem(tiles))
    assert run.end_ps == START + tiles * BOTH + (FETCH + GEMM + STORE + WRITE)


@LONG
def test_the_array_is_the_slowest(simulate, tiles):
    """184000 a tile at a quarter of the clock, against 88480 of reads."""
    run = simulate(composite, *over_k(tiles), changes=(("clock_ghz: 1.0", "clock_ghz: 0.25"),))
    assert run.end_ps == (START + BOTH + FETCH) + tiles * 4 * GEMM + (STORE + WRITE)


SLOW_TCM = (("bw_gbs: 200", "bw_gbs: 2"),)
SLOW_FETCH, SLOW_STORE = 1000 + 1024 * 500, 1000 + 512 * 500


@LONG
def test_fetches_are_the_slowest(simulate, tiles):
    """513000 a tile when a byte takes the TCM's port 500."""
    run = simulate(composite, *over_k(tiles), changes=SLOW_TCM)
    assert run.end_ps == (START + BOTH) + tiles * SLOW_FETCH + (GEMM + SLOW_STORE + WRITE)


@LONG
def test_fetches_and_stores_share_the_slowest_port(simulate, tiles):
    """513000 and 257000 a tile. Two accumulators: two fetches, two stores, and so on, each 46000 of GEMM behind one
    of the others; the last store too, where the number of tiles is even.
    """
    run = simulate(composite, *over_m(tiles), changes=SLOW_TCM)
    assert run.end_ps == (START + BOTH) + tiles * (SLOW_FETCH + SLOW_STORE) + WRITE


@LONG
def test_math_is_the_slowest(simulate, tiles):
    """256 elements in 16 lanes are 16 cycles, of 20000 each at a twentieth of a GHz: 320000 a tile against 44240."""

    def kernel(tl, a, c):
        tl.composite("relu", a, out=c, tile=(16, 16))

    shape = (16 * tiles, 16, "f16")
    slow = (("lanes: 16, clock_ghz: 1", "lanes: 16, clock_ghz: 0.05"),)
    run = simulate(kernel, shape, shape, changes=slow)
    fetch = 1000 + 512 * 5
    assert run.end_ps == (START + READ + fetch) + tiles * 16 * 20000 + (STORE + WRITE)


@LONG
def test_writes_are_the_slowest(simulate, tiles):
    """Both operands pinned, an array four times as fast: 44240 a tile against 6120 + 3560 at the port and 11500."""

    def kernel(tl, a, b, c):
        composite(tl, tl.load(a), tl.load(b), c)

    run = simulate(kernel, *over_m(tiles), changes=(("clock_ghz: 1.0", "clock_ghz: 4.0"),))
    loads = ISSUE + 34000 + tiles * 512 * 20 + ISSUE + READ
    assert run.end_ps == (loads + ISSUE + FETCH + GEMM // 4 + STORE) + tiles * WRITE


@pytest.mark.parametrize(
    ("kib", "overlaps"),
    [
        (2, False),  # one accumulator, one operand slot
        (3, False),  # the third KiB is a second accumulator's, kept for the next command's output
        (4, True),  # two of each
        (8, True),
    ],
)
def test_registers_for_one_tile_stop_the_overlap_of_fetch_and_compute(simulate, kib, overlaps):
    """An accumulator and an operand slot are 1 KiB each. With one slot, a fetch waits until GEMM has read."""
    changes = (("clock_ghz: 1.0", "clock_ghz: 0.25"), ("size: 64 KiB", f"size: {kib} KiB"))
    run = simulate(composite, *over_k(20), changes=changes)
    fetches = 1 if overlaps else 20
    assert run.end_ps == (START + BOTH) + fetches * FETCH + 20 * 4 * GEMM + (STORE + WRITE)


def test_one_accumulator_stops_the_overlap_with_the_store_too(simulate):
    changes = (("clock_ghz: 1.0", "clock_ghz: 0.25"), ("size: 64 KiB", "size: 2 KiB"))
    run = simulate(composite, *over_m(20), changes=changes)
    assert run.end_ps == (START + BOTH) + 20 * (FETCH + 4 * GEMM + STORE) + WRITE


def ten_that_compute_then_ten_that_read(tl, a, b, c, d, e):
    composite(tl, tl.load(a), tl.load(b), None)
    composite(tl, c, d, e)


T0 = 2 * (ISSUE + 34000 + 5120 * 20) + ISSUE
"""Two loads of 5120 bytes each, and the first composite is taken."""
ENTERED = {
    1: FETCH + 6 * GEMM,
    2: FETCH + 4 * GEMM,
    4: 5 * FETCH,
    8: FETCH,
}
"""When the last tile of the first composite is in FETCH's queue, after T0, by the depth of the queues.

While GEMM works on tile i, its queue holds i + 1 to i + depth, FETCH keeps the one after, and FETCH's queue the depth
after that. So tile 9 comes in when GEMM takes tile 9 - (2 depth + 1): tile 6 or 4 at depths 1 and 2. At depth 4 the two
queues hold all there are, and nothing but the first fetches is waited for: tile 9 comes in when FETCH has done five, at
depth 8 when it has done one.
"""


@pytest.mark.parametrize("depth", ENTERED)
def test_queues_are_worth_what_they_hold_until_they_hold_all(simulate, depth):
    """The reads of the second composite begin when the last tile of the first is in a queue, and are what it takes."""
    problem = (*over_k(10)[:2], *over_k(10))
    changes = (("queue_depth: 4", f"queue_depth: {depth}"),)
    run = simulate(ten_that_compute_then_ten_that_read, *problem, changes=changes)
    assert run.end_ps == (T0 + ENTERED[depth]) + 10 * BOTH + (FETCH + GEMM + STORE + WRITE)


def test_the_curve_flattens_at_depth_4():
    gains = [ENTERED[shallow] - ENTERED[deep] for shallow, deep in ((1, 2), (2, 4), (4, 8))]
    assert gains == [2 * GEMM, 4 * (GEMM - FETCH), 4 * FETCH]
