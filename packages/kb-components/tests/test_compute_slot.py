"""GEMM and MATH of a PE take turns, or do not: every time computed by hand. The round chip's numbers, in picoseconds.

A and B lie in TCM, so that tiles of 16 x 16 x 16 come as fast as they are fetched. A load of 512 bytes takes 44240
(test_pipeline.py), of 1536 bytes 34000 + 1536 x 20 = 64720. Per tile: FETCH 1000 + 1024 x 5 = 6120, GEMM 46000, relu of
256 elements in 16 lanes 16000, STORE 3560, DMA_WRITE 44240.
"""

from itertools import pairwise

import pytest

from kb_messages import CommandComplete, KernelError

FETCH, GEMM, RELU, STORE, WRITE = 6120, 46000, 16000, 3560, 44240
FIRST = 7000 + 64720 + 7000 + 44240 + 7000
"""When the composite is fed: two loads and three commands of 7000 each."""
INDEPENDENT = (("output_kib: 64}", "output_kib: 64, compute_slots: independent}"),)
PINNED = (48, 16, "f16"), (16, 16, "f16"), (48, 16, "f16")


def relu(tl, a, b, c):
    x, y = tl.load(a), tl.load(b)
    tl.composite("gemm", x, y, out=c, tile=(16, 16, 16), epilogue=(tl.relu(),))


def served(run, stage):
    """Start and end of a stage of the composite's three tiles, from when the first tile's GEMM is ready."""
    times = [run.times(2, tile)[stage] for tile in range(3)]
    return [(start - FIRST - FETCH, end - FIRST - FETCH) for _, start, end, _ in times]


def test_the_arithmetic_of_this_page():
    assert FIRST == 129960


def test_gemm_and_math_take_turns_at_one_slot(simulate):
    run = simulate(relu, *PINNED)
    # Tile 1 is ready for GEMM at 6120, tile 2 at 12240 + ... : both behind tile 0. When tile 0's GEMM ends at 46000,
    # its relu asks for the slot and gets it: GEMM's next tile is behind it in line. From then on they alternate.
    assert served(run, 1) == [(0, 46000), (62000, 108000), (124000, 170000)]
    assert served(run, 2) == [(46000, 62000), (108000, 124000), (170000, 186000)]
    assert run.end_ps == FIRST + FETCH + 186000 + STORE + WRITE


def test_a_wait_for_the_slot_is_counted_as_one(simulate):
    run = simulate(relu, *PINNED)
    # Tile 1 waits in GEMM's queue from 6120 to 46000, then for the slot until 62000.
    assert run.records[2, 1, 1].waits_ps == (46000 - 6120, 0, 0, 16000, 0, 0)
    assert run.records[2, 1, 2].waits_ps == (0, 0, 0, 0, 0, 0)


def test_independent_slots_overlap_the_next_tiles_gemm(simulate):
    run = simulate(relu, *PINNED, changes=INDEPENDENT)
    assert served(run, 1) == [(0, 46000), (46000, 92000), (92000, 138000)]
    assert served(run, 2) == [(46000, 62000), (92000, 108000), (138000, 154000)]
    assert run.end_ps == FIRST + FETCH + 154000 + STORE + WRITE


def test_three_ops_follow_each_other_on_one_tile(simulate):
    def kernel(tl, a, b, c):
        ops = (tl.scale(0.5), tl.gelu(), tl.relu())
        tl.composite("gemm", a, b, out=c, tile=(16, 16, 16), epilogue=ops)

    run = simulate(kernel, *[(16, 16, "f16")] * 3)
    # Two reads of 44240, then FETCH: 7000 + 88480 + 6120 = 101600. gelu takes 4 cycles a group.
    assert run.times(0, 0)[3:8] == [
        (101600, 101600, 147600, 147600),
        (147600, 147600, 163600, 163600),
        (163600, 163600, 227600, 227600),
        (227600, 227600, 243600, 243600),
        (243600, 243600, 247160, 247160),
    ]


def test_an_output_ops_operand_costs_a_read_and_its_share_of_the_fetch(simulate):
    def kernel(tl, a, b, c, d):
        tl.composite("gemm", a, b, out=c, tile=(16, 16, 16), epilogue=(tl.bias(d),))

    run = simulate(kernel, (16, 32, "f16"), (32, 16, "f16"), (16, 16, "f16"), (1, 16, "f16"))
    assert [len(run.times(0, tile)) for tile in range(2)] == [4, 8]
    # The second tile over K: reads of A and B end at 7000 + 4 x 44240 = 183960; 32 bytes more take 34000 + 32 x 20.
    assert run.times(0, 1)[2] == (183960, 183960, 218600, 218600)
    # 1024 + 32 bytes: 1000 + 1056 x 5.
    assert run.times(0, 1)[3] == (218600, 218600, 224880, 224880)
    gemm = 224880 + GEMM
    assert run.times(0, 1)[5] == (gemm, gemm, gemm + 16000, gemm + 16000)


def test_k_tile_ops_cost_two_more_services_a_tile(simulate):
    def kernel(tl, a, b, c):
        tl.composite("gemm", a, b, out=c, tile=(16, 16, 16), epilogue=(tl.dequant(0.5, scope="k_tile"),))

    run = simulate(kernel, (16, 32, "f16"), (32, 16, "f16"), (16, 16, "f16"))
    assert [record.params for key, record in sorted(run.records.items()) if record.name == "math"] == [
        '{"op":"mul","scalars":[0.5]}', '{"op":"copy"}', '{"op":"mul","scalars":[0.5]}', '{"op":"add"}',
    ]  # fmt: skip
    # The second tile is fetched at 7000 + 4 x 44240 + 6120 = 190080; the first is long through.
    assert [start for _, start, _, _ in run.times(0, 1)[3:7]] == [190080, 236080, 252080, 268080]


def test_a_ragged_tile_takes_the_groups_it_has(simulate):
    run = simulate(relu, (19, 16, "f16"), (16, 16, "f16"), (19, 16, "f16"))
    # 3 x 16 elements: three groups.
    _, start, end, _ = run.times(2, 1)[2]
    assert end - start == 3000


@pytest.mark.parametrize("epilogue", ["relu", "bias", "dequant"])
@pytest.mark.parametrize("slots", [(), INDEPENDENT])
def test_every_epilogue_ends_at_depth_one_with_the_smallest_register_file(simulate, epilogue, slots):
    def kernel(tl, a, b, c, d):
        x, y = tl.load(a), tl.load(b)
        ops = {"relu": tl.relu(), "bias": tl.bias(d), "dequant": tl.dequant(d, scope="k_tile")}
        for left, right in ((a, b), (x, y), (x, b)):
            tl.composite("gemm", left, right, out=c, tile=(8, 8, 8), epilogue=(ops[epilogue],))

    # A, B and the bias take 128, 128 and 64 bytes, the product (of k_tile ops) and the accumulator 256 each.
    registers = {"relu": 128 + 128 + 256, "bias": 320 + 256, "dequant": 320 + 256 + 256}[epilogue]
    changes = (("queue_depth: 4", "queue_depth: 1"), ("size: 64 KiB", f"size: {registers} B"), *slots)
    shapes = (20, 20, "f16"), (20, 20, "f16"), (20, 20, "f16"), (1, 20, "f16")
    run = simulate(kernel, *shapes, changes=changes)
    assert len(run.traced(CommandComplete)) == 5
    with pytest.raises(KernelError, match=rf"got a tile of {registers} bytes \(operands and accumulator\)"):
        simulate(kernel, *shapes, changes=(("size: 64 KiB", f"size: {registers - 1} B"),))


def test_tiles_that_start_with_their_fetch_do_not_overtake_one_that_reads_first(simulate):
    def kernel(tl, a, b, c, d):
        x, y = tl.load(a), tl.load(b)
        tl.composite("gemm", x, y, out=c, tile=(8, 8, 8), epilogue=(tl.residual(d),))

    run = simulate(kernel, *[(16, 16, "f16")] * 4)
    fetches = [
        (record.t_start_ps, key[1]) for key, record in run.records.items() if key[0] == 2 and record.name == "fetch"
    ]
    assert [tile for _, tile in sorted(fetches)] == list(range(8))


def test_a_chip_without_a_math_unit_says_so(simulate):
    wires = ("scheduler -> pe_math", "fetch_store -> pe_math", "gemm -> pe_math")
    changes = (
        ("      pe_math: {kind: pe_math, impl: builtin.pe_math, queue_depth: 4, lanes: 16, clock_ghz: 1}\n", ""),
        *((f"      - pe_{wire}\n", "") for wire in wires),
        ("      - pe_math -> pe_fetch_store\n", ""),
    )
    with pytest.raises(KernelError) as caught:
        simulate(relu, *PINNED, changes=changes)
    assert str(caught.value) == (
        f"test_compute_slot.py:{relu.__code__.co_firstlineno + 2}: sip0.cube0.pe0.pe_scheduler: got a MATH for "
        "sip0.cube0.pe0.pe_math, needs a wire to it; add `pe_scheduler -> pe_math` to the wires of pe_template, "
        "and a pe_math if there is none, or take a chip with one"
    )


def test_the_slot_is_shared_from_the_first_math_on_with_a_gemm_that_is_running(simulate):
    def kernel(tl, a, b, c):
        x, y = tl.load(a), tl.load(b)
        tl.composite("gemm", x, y, out=c, tile=(16, 16, 16))
        tl.composite("gemm", x, y, tile=(16, 16, 16), epilogue=(tl.relu(),))

    run = simulate(kernel, *PINNED)
    computed = sorted(
        (record.t_start_ps, record.t_end_ps) for record in run.records.values() if record.name in ("gemm", "math")
    )
    assert len(computed) == 3 + 3 + 3
    assert all(end <= start for (_, end), (start, _) in pairwise(computed))
