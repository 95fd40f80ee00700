"""What a tile waited for before its first block, by name. Chip and arithmetic are those of test_pe_scheduler.py."""

from components_changes import FOUR_TILES, ONE_TILE, two_gemms

from kb_messages import CommandSubmitted, SubCommandDispatched

BOTH, FETCH = 88480, 6120


def waits(run):
    return {(event.command_seq, event.tile_id): event.waits_ps for event in run.traced(SubCommandDispatched)}


def test_tiles_wait_for_earlier_tiles_and_for_room_in_the_first_queue(simulate):
    run = simulate(two_gemms, *FOUR_TILES, changes=(("pe_dma, queue_depth: 4", "pe_dma, queue_depth: 1"),))
    # Command 0 is submitted at 3000 and decoded at 7000. Two tiles go in at once; it is tile 2's turn, and from
    # 7000 + BOTH on, when that went in, tile 3's. Each waits a tile's reads for room.
    waited = waits(run)
    assert waited[0, 0] == waited[0, 1] == {"decode": 4000}
    assert waited[0, 2] == {"decode": 4000, "queue_full": BOTH}
    assert waited[0, 3] == {"decode": 4000, "earlier_tiles": BOTH, "queue_full": BOTH}


def test_a_command_waits_to_be_taken_and_for_the_tiles_of_the_one_before(simulate):
    run = simulate(two_gemms, *FOUR_TILES, changes=(("pe_dma, queue_depth: 4", "pe_dma, queue_depth: 1"),))
    # Command 1 is submitted at 6000, taken at 7000, decoded at 11000; tile 3 of command 0 goes in at 7000 + 2 x BOTH.
    first = {"submission_queue": 1000, "decode": 4000, "earlier_commands": 7000 + 2 * BOTH - 11000, "queue_full": BOTH}
    assert waits(run)[1, 0] == first
    assert waits(run)[1, 2] == {**first, "earlier_tiles": 2 * BOTH}


def test_a_tile_waits_for_a_tile_buffer(simulate):
    # 1 KiB holds one tile's A and B: tile 1 is fed when tile 0 has been read and fetched.
    run = simulate(two_gemms, *FOUR_TILES, changes=(("input_kib: 64", "input_kib: 1"),))
    assert waits(run)[0, 1] == {"decode": 4000, "tile_buffer": BOTH + FETCH}
    assert waits(run)[0, 2] == {"decode": 4000, "earlier_tiles": BOTH + FETCH, "tile_buffer": BOTH + FETCH}


def test_a_tile_that_starts_with_its_fetch_waits_for_those_before_it_to_be_fetched(simulate):
    def kernel(tl, a, b, c, d):
        x, y = tl.load(a[0:16, 0:16]), tl.load(b)
        tl.composite("gemm", a, b, out=c, tile=ONE_TILE)
        tl.composite("gemm", x, y, out=d, tile=ONE_TILE)

    run = simulate(kernel, (32, 16, "f16"), (16, 16, "f16"), (32, 16, "f16"), (16, 16, "f16"))
    # Submitted at 108480, taken at 109480 and decoded at 113480, when command 2 has been fed; its second tile is
    # fetched until 292560.
    assert waits(run)[3, 0] == {"submission_queue": 1000, "decode": 4000, "fetch_order": 292560 - 113480}


def test_a_command_waits_for_room_in_the_submission_queue(simulate):
    def kernel(tl, a, b, c):
        for _ in range(4):
            tl.composite("gemm", a, b, out=c, tile=ONE_TILE)

    slow = (("submission_depth: 8", "submission_depth: 1"), ("command_ns: 4", "command_ns: 10"))
    run = simulate(kernel, (16, 16, "f16"), (16, 16, "f16"), (16, 16, "f16"), changes=slow)
    # Command 2 arrives at 9000 and gets in at 13000; command 3, issued then, arrives at 16000 and gets in at 23000.
    assert [event.waits_ps for event in run.traced(CommandSubmitted)] == [
        {}, {}, {"queue_full": 4000}, {"queue_full": 7000},
    ]  # fmt: skip
