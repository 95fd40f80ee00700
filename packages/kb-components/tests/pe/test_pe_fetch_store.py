"""The register file, and the port that FETCH and STORE share. One tile's arithmetic is that of test_pipeline.py."""

import pytest

from kb_components.pe.pe_fetch_store import PeFetchStore, PeFetchStoreSpec
from kb_engine import Engine
from kb_engine.block import Context, WiringError
from kb_engine.timing import Clock
from kb_messages import StageType, TransferParams, WaitReason

READ = WRITE = 44240
BOTH, FETCH, GEMM, STORE = 88480, 6120, 46000, 3560
TILE = (16, 16, 16)


@pytest.mark.parametrize(
    ("nbytes", "expected"),
    [
        (0, 1000),
        (1, 1005),
        (1024, 1000 + 1024 * 5),
    ],
)
def test_cost_is_that_of_the_tcms_port(chip, nbytes, expected):
    block = Engine(chip()).components["sip0.cube0.pe0.pe_fetch_store"]
    assert block.service_ps(TransferParams(nbytes=nbytes)) == expected


def test_both_queues_have_the_depth_of_the_spec():
    block = PeFetchStore(PeFetchStoreSpec(queue_depth=3), Context("pe0.pe_fetch_store", Clock(), None, 1024))
    assert [block.queue_depth(stage) for stage in block.serves] == [3, 3]
    assert block.serves == (StageType.FETCH, StageType.STORE)


def test_a_fetch_store_without_a_wire_to_a_tcm_is_refused(chip):
    with pytest.raises(WiringError) as caught:
        Engine(chip(("      - pe_fetch_store -> pe_tcm\n", "")))
    assert str(caught.value) == (
        "sip0.cube0.pe0.pe_fetch_store: got 0 wires to a pe_tcm that is a Scratchpad, needs one; "
        "add `pe_fetch_store -> pe_tcm` to the wires of pe_template"
    )


def test_fetch_and_store_take_turns_at_the_port(simulate):
    def kernel(tl, a, b):
        x, y = tl.load(a), tl.load(b)
        tl.composite("gemm", x, y, tile=TILE)

    # At 23 GHz the 46 cycles of a GEMM take 2000 ps, so that the port is what everyone waits for.
    run = simulate(kernel, (48, 16, "f16"), (16, 16, "f16"), changes=(("clock_ghz: 1.0", "clock_ghz: 23"),))
    # Loads of 1536 and 512 bytes: 7000 + 34000 + 1536 x 20 = 71720, then 71720 + 7000 + 44240 = 122960.
    t0 = 122960 + 7000
    assert [run.times(2, tile)[0][0] for tile in range(3)] == [t0, t0, t0]
    t1 = t0 + FETCH  # fetch 0 leaves the port, fetch 1 takes it
    t2 = t1 + FETCH  # store 0 waits there since t1 + 2000; fetch 2 needs the accumulator that it gives back
    t3 = t2 + STORE  # fetch 2 has its accumulator and is at the port first, store 1 just leaves its queue
    t4 = t3 + FETCH  # store 1
    t5 = t4 + STORE  # store 2
    fetches = [run.times(2, tile)[0] for tile in range(3)]
    stores = [run.times(2, tile)[2] for tile in range(3)]
    assert fetches == [(t0, t0, t1, t1), (t0, t1, t2, t2), (t0, t3, t4, t4)]
    assert stores == [(t1 + 2000, t2, t3, t3), (t2 + 2000, t4, t5, t5), (t4 + 2000, t5, t5 + STORE, t5 + STORE)]
    waits = {tile: (run.records[2, tile, 0].waits_ps[:3], run.records[2, tile, 2].waits_ps[:3]) for tile in range(3)}
    # By channel (the queue), port and registers.
    assert waits == {
        0: ((0, 0, 0), (0, FETCH - 2000, 0)),
        1: ((FETCH, 0, 0), (STORE - 2000, FETCH, 0)),
        2: ((2 * FETCH, 0, STORE), (STORE - 2000, 0, 0)),
    }


SMALLEST = (
    ("queue_depth: 4", "queue_depth: 1"),
    ("submission_depth: 8", "submission_depth: 1"),
    ("size: 64 KiB", "size: 2 KiB"),
    ("clock_ghz: 1.0", "clock_ghz: 0.25"),
)
"""Queues of one; 2 KiB hold the operands (1024 bytes) and the f32 accumulator (1024) of one 16 x 16 x 16 tile of f16.
The array is so slow that tiles wait for it."""


def test_with_registers_for_one_tile_a_fetch_waits_for_the_store_before_it(simulate):
    def kernel(tl, a, b, c):
        tl.composite("gemm", a, b, out=c, tile=TILE)

    run = simulate(kernel, (32, 16, "f16"), (16, 16, "f16"), (32, 16, "f16"), changes=SMALLEST)
    # Tile 0: fetched at 101600, GEMM of 46 x 4000 until 285600, stored at 289160. Tile 1 is read at 183960.
    assert run.times(0, 1)[2] == (183960, 289160, 295280, 295280)
    assert run.records[0, 1, 2].waits_ps == (0, 0, 289160 - 183960, 0, 0, 0)


def test_over_k_a_fetch_waits_for_the_gemm_before_it_alone(simulate):
    def kernel(tl, a, b, c):
        tl.composite("gemm", a, b, out=c, tile=TILE)

    run = simulate(kernel, (16, 32, "f16"), (32, 16, "f16"), (16, 16, "f16"), changes=SMALLEST)
    assert run.times(0, 1)[2] == (183960, 285600, 291720, 291720)
    assert run.records[0, 1, 2].waits_ps == (0, 0, 285600 - 183960, 0, 0, 0)


def unpinned(tl, a, b, c):
    tl.composite("gemm", a, b, out=c, tile=TILE)


def pinned_a(tl, a, b, c):
    tl.composite("gemm", tl.load(a), b, out=c, tile=TILE)


def pinned_b(tl, a, b, c):
    tl.composite("gemm", a, tl.load(b), out=c, tile=TILE)


def pinned_both(tl, a, b, c):
    tl.composite("gemm", tl.load(a), tl.load(b), out=c, tile=TILE)


def kept(tl, a, b, c):
    tl.composite("gemm", a, b, tile=TILE)


def moved(tl, a, b, c):
    tl.store(c, tl.load(c))


def all_of_them(tl, a, b, c):
    x, y = tl.load(a), tl.load(b)
    for left in (a, x):
        for right in (b, y):
            for out in (c, None):
                tl.composite("gemm", left, right, out=out, tile=TILE)
    tl.store(c, tl.load(c))


@pytest.mark.parametrize("kernel", [unpinned, pinned_a, pinned_b, pinned_both, kept, moved, all_of_them])
def test_every_plan_finishes_with_queues_of_one_and_the_smallest_register_file(simulate, kernel):
    run = simulate(kernel, (40, 40, "f16"), (40, 24, "f16"), (40, 24, "f16"), changes=SMALLEST)
    assert all(plan.n_tiles in (1, 3 * 2 * 3) for plan in run.plans)
    waited = sum(record.waits_ps[WaitReason.REGISTER_FILE] for record in run.records.values())
    assert (waited > 0) == (kernel is not moved)


def test_a_cost_is_the_latency_and_the_bytes(chip):
    block = Engine(chip()).components["sip0.cube0.pe0.pe_fetch_store"]
    assert block.service_parts(TransferParams(nbytes=1024)) == {"latency": 1000, "bytes": 1024 * 5}
