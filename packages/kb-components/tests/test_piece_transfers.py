"""What loads and stores in pieces cost, every time computed by hand, and what their records say.

On the round chip, in picoseconds: a command takes 7000 to begin, a read or a write 34000 and 20 a byte. A further piece
takes 4000, and a run counts in whole bursts of 64 bytes.
"""

import json

import numpy as np
import pytest

from kb_dataexec import MemoryLogWriter
from kb_messages import KernelError, MemorySpace, OpKind

BEGIN, TRANSFER, BYTE, PIECE = 7000, 34000, 20, 4000


def rows_anywhere(tl, a):
    tl.load(a[np.array([7, 2, 3, 4, 11])])


def every_second_row(tl, a):
    tl.load(a[::2])


def every_second_column(tl, a):
    tl.load(a[0:4, ::2])


def every_second_of_some_columns(tl, a):
    tl.load(a[0:4, 0:14:2])


def one_row_many_times(tl, a):
    tl.load(a[tl.arange(0, 8)[:, None] * 0, tl.arange(0, 16)[None, :]])


def slice_by_ranges(tl, a):
    tl.load(a[tl.arange(2, 6)[:, None], tl.arange(0, 16)[None, :]])


def causal(tl, a):
    mask = tl.arange(0, 4)[:, None] >= tl.arange(0, 4)[None, :]
    tl.store(a[0:4, 0:4], tl.load(a[0:4, 0:4], mask, 0.5), mask)


@pytest.mark.parametrize(
    ("kernel", "n_pieces", "nbytes"),
    [
        # Rows 7; 2 to 4, which are one run of 96 bytes from byte 64 on; 11. Rows 7 and 11 lie in one burst each.
        (rows_anywhere, 3, (1 + 2 + 1) * 64),
        # Eight rows of 32 bytes, 64 apart: one piece, and each run counts as a burst.
        (every_second_row, 1, 8 * 64),
        # 32 elements of 2 bytes, all 4 apart: one piece of as many runs.
        (every_second_column, 1, 32 * 64),
        # 4 rows of 7 elements. A piece is a row of seven runs of one element.
        (every_second_of_some_columns, 4, 28 * 64),
        # One run of 32 bytes, to eight rows of the tile.
        (one_row_many_times, 1, 64),
    ],
)
def test_a_piece_costs_its_time_and_a_run_whole_bursts(simulate, kernel, n_pieces, nbytes):
    run = simulate(kernel, (16, 16, "f16"))
    end = BEGIN + TRANSFER + (n_pieces - 1) * PIECE + nbytes * BYTE
    assert run.times(0, 0) == [(BEGIN, BEGIN, end, end)]
    operands = run.records[0, 0, 0].operands
    assert [each.role.name for each in operands] == ["SRC", "DST"] * n_pieces
    assert simulate(kernel, (16, 16, "f16"), log=False).end_ps == run.end_ps


def test_what_a_slice_can_say_costs_what_the_slice_costs(simulate):
    run = simulate(slice_by_ranges, (16, 16, "f16"))
    # 4 rows of 32 bytes: 128 bytes, in one rectangle.
    end = BEGIN + TRANSFER + 128 * BYTE
    assert run.times(0, 0) == [(BEGIN, BEGIN, end, end)]
    assert run.plans[0].stages[0].in_pieces is False


def whole_bursts(tl, a):
    part = tl.load(a[::2])
    tl.store(a[1::2], tl.exp(part))


def half_a_burst_later(tl, a):
    tl.load(a[::2, 8:24])


def test_one_piece_of_whole_bursts_is_a_rectangle_that_takes_as_long(simulate):
    run = simulate(whole_bursts, (16, 16, "f32"))
    # Eight rows of 64 bytes, 128 apart: a run is a burst, in pieces or not.
    end = BEGIN + TRANSFER + 8 * 64 * BYTE
    assert run.times(0, 0) == [(BEGIN, BEGIN, end, end)]
    load, store = run.plans[0].stages[0], run.plans[2].stages[0]
    assert not load.in_pieces
    assert not store.in_pieces
    (begin, _, end, _), *_ = run.times(2, 0)
    assert end - begin == TRANSFER + 8 * 64 * BYTE
    run = simulate(half_a_burst_later, (16, 32, "f32"))
    # Eight rows of 64 bytes that begin in the middle of a burst: two bursts each, so the command is one of pieces.
    end = BEGIN + TRANSFER + 8 * 2 * 64 * BYTE
    assert run.times(0, 0) == [(BEGIN, BEGIN, end, end)]
    assert run.plans[0].stages[0].in_pieces


def test_a_causal_mask_is_one_command_each_way(simulate):
    run = simulate(causal, (4, 4, "f32"))
    # Runs of 1, 2, 3 and 4 elements of 4 bytes, each in a burst: 4 pieces.
    time = TRANSFER + 3 * PIECE + 4 * 64 * BYTE
    assert run.times(0, 0) == [(BEGIN, BEGIN, BEGIN + time, BEGIN + time)]
    begin = 2 * BEGIN + time
    assert run.times(1, 0) == [(begin, begin, begin + time, begin + time)]
    load, store = run.records[0, 0, 0], run.records[1, 0, 0]
    # Three runs of the tile take the constant: 3, 2 and 1 elements.
    assert [each.space for each in load.operands[8::2]] == [MemorySpace.IMMEDIATE] * 3
    assert [each.row_nbytes for each in load.operands[9::2]] == [12, 8, 4]
    assert [each.row_nbytes for each in store.operands[1::2]] == [4, 8, 12, 16]


def slices_and_pieces(tl, a):
    for _ in range(2):
        tl.load(a[np.array([0, 2])])
        tl.load(a[0:2])
        tl.load(a[np.array([1, 4])])
        tl.load(a[0:4])
        tl.store(a[::3], tl.load(a[0:6]))
        tl.store(a[0:6], tl.load(a[::3]))


def test_transfers_of_as_many_bytes_are_told_apart(simulate):
    # The fixture checks that the parts of every transfer add up to its time: those of slices, which the log tells once,
    # and those of pieces, which it tells each time.
    run = simulate(slices_and_pieces, (16, 16, "f16"))
    assert len(run.plans) == 16
    assert len(run.log.table("transfers")) == 8 + 4


def many(tl, a):
    tl.load(a[np.arange(15)[::-1].copy()])


def test_more_pieces_than_a_dma_takes_make_several_commands(simulate):
    run = simulate(many, (16, 16, "f16"), changes=(("setup_ns: 2}", "setup_ns: 2, max_pieces: 6, piece_ns: 1}"),))
    assert [len(plan.stages[0].operands) // 2 for plan in run.plans] == [6, 6, 3]
    now = 0
    for number, pieces in enumerate((6, 6, 3)):
        begin = now + BEGIN
        now = begin + TRANSFER + (pieces - 1) * 1000 + pieces * 64 * BYTE
        assert run.times(number, 0) == [(begin, begin, now, now)]
    assert run.end_ps == now


def nothing_chosen(tl, a):
    value = tl.load(a, tl.arange(0, 16) < 0, other=2)
    tl.store(a, value, tl.arange(0, 16) > 99)


def store_of_data(tl, a):
    tl.store(a[0], tl.arange(0, 16) & 3)


def store_of_a_range(tl, a):
    tl.store(a[0], tl.arange(0, 16) * 3 - 1)


def test_a_load_of_nothing_takes_the_set_up_and_a_store_of_nothing_no_command(simulate):
    run = simulate(nothing_chosen, (16, 16, "f16"))
    assert run.times(0, 0) == [(BEGIN, BEGIN, BEGIN + 2000, BEGIN + 2000)]
    assert len(run.plans) == 1
    assert [each.role.name for each in run.records[0, 0, 0].operands] == ["SRC", "DST"]
    assert run.end_ps == BEGIN + 2000


def test_integers_that_follow_from_a_range_are_computed(simulate):
    run = simulate(store_of_a_range, (16, 16, "f16"))
    names = [json.loads(record.params)["op"] for record in run.records.values() if record.kind is OpKind.MATH]
    assert names == ["index", "copy"]


def test_integers_that_are_stored_come_as_constants_of_the_log(simulate):
    run = simulate(store_of_data, (16, 16, "f16"))
    load, store = run.records[0, 0, 0], run.records[1, 0, 0]
    assert (load.operands[0].space, load.operands[0].row_nbytes) == (MemorySpace.IMMEDIATE, 32)
    assert run.times(0, 0) == [(BEGIN, BEGIN, BEGIN + 2000, BEGIN + 2000)]
    assert (store.operands[0].offset, store.operands[0].row_nbytes) == (load.operands[1].offset, 32)
    assert run.end_ps == 2 * BEGIN + 2000 + TRANSFER + 32 * BYTE


def test_a_slice_over_blocks_has_a_piece_in_each_and_a_command_for_each_memory(chip_host):
    host = chip_host(
        ("impl: builtin.hbm_fixed, count: 1", "impl: builtin.hbm_fixed, count: 2"), ('to: "hbm[0]"', 'to: "hbm[*]"')
    )
    data = np.arange(16 * 12, dtype=np.float32).reshape(16, 12)
    seen = []

    def kernel(tl, a):
        seen.append(tl.load(a[3:13, 2:9]).data)

    host.launch(kernel, host.tensor("a", data, "f32", blocks=(2, 2), slices=(0, 1, 0, 1)))
    np.testing.assert_array_equal(seen[0], data[3:13, 2:9])
    assert len(host.launches) == 1
    # Two commands, one for each slice, of two pieces each. Blocks are 8 x 6 of 4 bytes. In slice 0 lie columns 2 to 5
    # of rows 3 to 7 and 8 to 12: runs of 16 bytes from byte 8 of rows of 24. In slice 1 columns 6 to 8: runs of 12.
    bursts = [sum(-(-(row * 24 + 8 + 16) // 64) - (row * 24 + 8) // 64 for row in (*range(3, 8), *range(5)))]
    bursts += [sum(-(-(row * 24 + 12) // 64) - (row * 24) // 64 for row in (*range(3, 8), *range(5)))]
    assert host.launches[0].end_ps == sum(BEGIN + TRANSFER + PIECE + n * 64 * BYTE for n in bursts)


def at_virtual_addresses(tl, a):
    tl.load(a[np.array([0, 200, 100])])


def test_pieces_at_virtual_addresses_look_their_pages_up(chip_host, mmu):
    host = chip_host(*mmu)
    data = np.arange(256 * 16, dtype=np.float16).reshape(256, 16)
    mapped = host.map(host.tensor("a", data, "f16"))
    end = host.launch(at_virtual_addresses, mapped).end_ps
    # A page is 128 rows of 32 bytes: rows 0 and 200 lie in two, which are walked to (21000 each). Row 100 joins row 0's
    # page: 1000. The order of the list has rows 0 and 200 in one piece, 6400 bytes apart.
    assert end == BEGIN + TRANSFER + PIECE + 3 * 64 * BYTE + 2 * 21000 + 1000


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ((np.array([3, 16]),), "index 16 in dimension 0 of a, 512 bytes from its start, needs 0 to 15"),
        ((np.array([-1, 3]),), "index -1 in dimension 0 of a, -32 bytes from its start, needs 0 to 15"),
        (
            (np.array([[2], [3]]), np.array([4, 17])),
            "index 17 in dimension 1 of a, 98 bytes from its start, needs 0 to 15",
        ),
    ],
)
def test_an_index_beyond_the_tensor_is_an_error_that_names_the_place(chip_host, key, message):
    def kernel(tl, a):
        tl.load(a[key])

    host = chip_host()
    with pytest.raises(KernelError) as caught:
        host.launch(kernel, host.tensor("a", np.zeros((16, 16), np.float16), "f16"))
    line = f"test_piece_transfers.py:{kernel.__code__.co_firstlineno + 1}"
    assert str(caught.value) == f"{line}: got {message}; leave it out by a mask, or correct the index"


@pytest.mark.parametrize("load", ["load", "load_async"])
def test_a_column_of_adjacent_elements_is_one_tile_that_math_takes(chip_host, load):
    def kernel(tl, a):
        column, row = getattr(tl, load)(a[2:6, None]), tl.load(a[3:5])
        assert column.shape == (4, 1)
        assert (column >= row).data.tolist() == [[False, False], [True, False], [True, True], [True, True]]

    host = chip_host(writer=MemoryLogWriter())
    host.launch(kernel, host.tensor("a", np.arange(8, dtype=np.int32), "i32"), pes=[0])
