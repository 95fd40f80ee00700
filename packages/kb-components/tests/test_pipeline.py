"""What a composite costs from the first command to the last acknowledgement, every time computed by hand.

One f16 tile of 16 x 16 x 16 on the round chip, in picoseconds. An operand is 512 bytes:

- command: 3000 to issue, 4000 to take.
- DMA_READ of an operand, 44240: 2000 set-up, 1000 through the crossbar, 30000 HBM latency, 512 x 20 for the bytes at
  HBM, 1000 back. The link is faster than HBM, so its 512 x 10 hide behind.
- FETCH of both, 6120: 1000 + 1024 x 5.
- GEMM, 46000: 16 steps and 16 + 16 - 2 to fill and drain, at 1000 a cycle.
- STORE, 3560: 1000 + 512 x 5.
- DMA_WRITE, 44240: 2000 set-up, 1000 for the head, 512 x 20 at HBM, 30000 latency, 1000 for the acknowledgement.
"""

READ = WRITE = 2000 + 1000 + 512 * 20 + 30000 + 1000
BOTH = 2 * READ
FETCH = 1000 + 1024 * 5
GEMM = (16 + 30) * 1000
STORE = 1000 + 512 * 5
START = 3000 + 4000


def one_gemm(tl, a, b, c):
    tl.composite("gemm", a, b, out=c, tile=(16, 16, 16))


def test_the_arithmetic_of_this_page():
    assert (READ, BOTH, FETCH, GEMM, STORE, START) == (44240, 88480, 6120, 46000, 3560, 7000)


def test_one_tile_alone_waits_for_nothing(simulate):
    run = simulate(one_gemm, (16, 16, "f16"), (16, 16, "f16"), (16, 16, "f16"))
    assert run.times(0, 0) == [
        (7000, 7000, 51240, 51240),
        (51240, 51240, 95480, 95480),
        (95480, 95480, 101600, 101600),
        (101600, 101600, 147600, 147600),
        (147600, 147600, 151160, 151160),
        (151160, 151160, 195400, 195400),
    ]
    assert run.end_ps == 195400


def test_reads_of_three_tiles_follow_each_other_and_the_rest_hides_behind_them(simulate):
    run = simulate(one_gemm, (48, 16, "f16"), (16, 16, "f16"), (48, 16, "f16"))
    for tile in range(3):
        start = START + tile * BOTH
        ready = 7000 if tile < 3 else 0  # all three enter the DMA's queue of 4 at once
        fetched = start + BOTH + FETCH
        stored = fetched + GEMM + STORE
        assert run.times(0, tile) == [
            (ready, start, start + READ, start + READ),
            (start + READ, start + READ, start + BOTH, start + BOTH),
            (start + BOTH, start + BOTH, fetched, fetched),
            (fetched, fetched, fetched + GEMM, fetched + GEMM),
            (fetched + GEMM, fetched + GEMM, stored, stored),
            (stored, stored, stored + WRITE, stored + WRITE),
        ]
    assert run.end_ps == 7000 + 3 * 88480 + 6120 + 46000 + 3560 + 44240 == 372360


SLOW = (("clock_ghz: 1.0", "clock_ghz: 0.25"), ("queue_depth: 4", "queue_depth: 1"))
SLOW_GEMM = 46 * 4000
"""At a quarter of the clock GEMM takes 184000, more than the 88480 of a tile's reads. Every queue has room for one."""
BUSY = [101600 + tile * SLOW_GEMM for tile in range(6)]


def test_a_slow_array_fills_its_queue_and_then_holds_the_fetch_back(simulate):
    assert BUSY == [101600, 285600, 469600, 653600, 837600, 1021600]
    run = simulate(one_gemm, (16, 80, "f16"), (80, 16, "f16"), (16, 16, "f16"), changes=SLOW)
    fetches = [run.times(0, tile)[2] for tile in range(5)]
    assert fetches == [
        (95480, 95480, 101600, 101600),
        (183960, 183960, 190080, 190080),  # into GEMM's queue
        (272440, 272440, 278560, 285600),  # the queue is full until GEMM takes tile 1
        (360920, 360920, 367040, 469600),
        (449400, 469600, 475720, 653600),  # waits in FETCH's own queue for tile 3 to leave
    ]
    assert run.records[0, 4, 2].waits_ps == (469600 - 449400, 0, 0, 0, 0, 0)
    ready = [101600, 190080, 285600, 469600, 653600]
    gemms = [run.times(0, tile)[3] for tile in range(5)]
    assert gemms == [(ready[tile], BUSY[tile], BUSY[tile + 1], BUSY[tile + 1]) for tile in range(5)]
    assert run.records[0, 4, 3].waits_ps == (837600 - 653600, 0, 0, 0, 0, 0)
    assert run.end_ps == 1021600 + STORE + WRITE


def test_outputs_take_turns_at_two_accumulators(simulate):
    run = simulate(one_gemm, (80, 16, "f16"), (16, 16, "f16"), (80, 16, "f16"), changes=SLOW)
    fetches = [run.times(0, tile)[2] for tile in range(5)]
    stored = [BUSY[tile + 1] + STORE for tile in range(3)]
    assert stored == [289160, 473160, 657160]
    assert fetches == [
        (95480, 95480, 101600, 101600),
        (183960, 183960, 190080, 190080),
        (272440, 289160, 295280, 295280),  # takes the accumulator of tile 0 when that is stored
        (360920, 473160, 479280, 479280),
        (449400, 657160, 663280, 663280),  # behind tile 3 until 479280, then without an accumulator
    ]
    assert run.records[0, 2, 2].waits_ps == (0, 0, 289160 - 272440, 0, 0, 0)
    assert run.records[0, 4, 2].waits_ps == (479280 - 449400, 0, 657160 - 479280, 0, 0, 0)
    assert [run.times(0, tile)[3][1] for tile in range(5)] == BUSY[:5]
    assert run.end_ps == 1021600 + STORE + WRITE


def test_a_loop_over_k_accumulates_and_stores_once(simulate):
    run = simulate(one_gemm, (16, 48, "f16"), (48, 16, "f16"), (16, 16, "f16"))
    # A of 48 columns is read in rows of 32 bytes: 512 bytes a tile all the same.
    names = [[run.records[key].name for key in sorted(run.records) if key[1] == tile] for tile in range(3)]
    inputs = ["dma_read", "dma_read", "fetch", "gemm"]
    assert names == [inputs, inputs, [*inputs, "store", "dma_write"]]
    gemms = [run.records[0, tile, 3] for tile in range(3)]
    assert [record.params for record in gemms] == ["{}", '{"accumulate":true}', '{"accumulate":true}']
    assert [len(record.operands) for record in gemms] == [3, 4, 4]  # A, B, OUT; then ACC too
    assert len({operand.offset for record in gemms for operand in record.operands[2:]}) == 1
    assert run.end_ps == 7000 + 3 * BOTH + FETCH + GEMM + STORE + WRITE


def test_read_and_write_channel_overlap(simulate):
    # Tiles of 16 x 16 x 16 leave at 151160, while the reads of tile 1 go on until 183960.
    run = simulate(one_gemm, (32, 16, "f16"), (16, 16, "f16"), (32, 16, "f16"))
    assert run.times(0, 0)[5] == (151160, 151160, 195400, 195400)
    assert run.times(0, 1)[1] == (139720, 139720, 183960, 183960)


def test_result_that_stays_in_tcm_is_not_written(simulate):
    def kernel(tl, a, b):
        tl.composite("gemm", a, b, tile=(16, 16, 16))

    run = simulate(kernel, (16, 16, "f16"), (16, 16, "f16"))
    assert [record.name for _, record in sorted(run.records.items())] == [
        "dma_read",
        "dma_read",
        "fetch",
        "gemm",
        "store",
    ]
    assert run.end_ps == 151160


def test_pinned_operand_has_no_read(simulate):
    def kernel(tl, a, b, c):
        x = tl.load(a)
        tl.composite("gemm", x, b, out=c, tile=(16, 16, 16))

    run = simulate(kernel, (16, 16, "f16"), (16, 16, "f16"), (16, 16, "f16"))
    # The load: 7000 to 51240. The composite is issued then, submitted at 54240, fed at 58240, and reads B alone.
    assert run.times(0, 0) == [(7000, 7000, 51240, 51240)]
    assert run.times(1, 0)[:2] == [(58240, 58240, 58240 + READ, 58240 + READ), (102480, 102480, 108600, 108600)]
    assert run.end_ps == 108600 + GEMM + STORE + WRITE


def test_store_blocks_the_kernel_until_it_is_acknowledged(simulate):
    def kernel(tl, a, c):
        tl.store(c, tl.load(a))

    run = simulate(kernel, (16, 16, "f16"), (16, 16, "f16"))
    assert run.times(1, 0) == [(51240 + 7000, 58240, 58240 + WRITE, 102480)]
    assert run.end_ps == 102480


def test_ragged_edge_costs_what_it_moves(simulate):
    # 24 x 16 in tiles of 16: the second has 8 rows, 256 bytes of A: 34000 + 256 x 20 to read, 8 x 16 x 2 to store.
    run = simulate(one_gemm, (24, 16, "f16"), (16, 16, "f16"), (24, 16, "f16"))
    read_a = 34000 + 256 * 20
    assert run.times(0, 1)[0] == (7000, 95480, 95480 + read_a, 95480 + read_a)
    fetched = 95480 + read_a + READ
    assert run.times(0, 1)[2] == (fetched, fetched, fetched + 1000 + 768 * 5, fetched + 4840)
    gemm = fetched + 4840 + GEMM  # 8 rows of 16 still take 16 steps, filled and drained
    assert run.times(0, 1)[4] == (gemm, gemm, gemm + 1000 + 256 * 5, gemm + 2280)
    assert run.end_ps == gemm + 2280 + 34000 + 256 * 20
