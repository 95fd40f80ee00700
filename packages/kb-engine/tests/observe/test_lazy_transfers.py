"""Rows of reads that come with their way and their end: what they are when they are taken out, by hand."""

import pytest

from kb_engine.fabric.lazy_reads import NOT_YET, ReadWay, pack_row
from kb_engine.observe.run_rows import LazyTransfers
from kb_messages import LogError

NEAR, FAR = ReadWay(7, 1000, 1000, 500), ReadWay(8, 3000, 4000, 900)


def test_rows_of_reads_follow_from_their_way_and_their_end():
    rows = LazyTransfers()
    near, far = rows.number_of(NEAR), rows.number_of(FAR)
    rows.tail.append(pack_row(90, 1, near, 9000, 51_240, 20_000, 50_000, 50_240, NOT_YET, 0, 4))
    rows.add(91, (2, 7, 9000, 9500, -1, -1, 9800, 700, 5, -1))
    rows.tail.append(pack_row(92, 3, far, 10_000, 60_100, 13_000, 50_000, 50_100, NOT_YET, 0, 4))
    assert rows.n_kept == 3
    assert rows.cut().rows.tolist() == [
        [90, 1, 7, 9000, 10_000, 20_000, 50_000, 50_240, 1000, 0, 4],  # it ends 1 us after its last byte left
        [91, 2, 7, 9000, 9500, -1, -1, 9800, 700, 5, -1],
        [92, 3, 8, 10_000, 13_000, 13_000, 50_000, 50_100, 4000, 5200, -1],  # 60100 - 4000 - (50000 + 900)
    ]


def test_the_bytes_of_a_request_share_a_link_with_those_of_others_of_its_transfer():
    """They take 2500 ps on the link of all, so the last byte could have left at 52,500, and came 500 ps later."""
    rows = LazyTransfers()
    near = rows.number_of(NEAR)
    rows.add(93, (5, near, 9000, 54_000, 20_000, 50_000, 50_240, NOT_YET, 2500, 4))
    assert rows.cut().rows.tolist() == [[93, 5, 7, 9000, 10_000, 20_000, 50_000, 50_240, 1000, 500, 4]]


def test_rows_of_reads_are_repeated_before_they_are_completed():
    rows = LazyTransfers()
    near = rows.number_of(NEAR)
    mark = rows.mark()
    rows.tail.append(pack_row(90, 5, near, 9000, 51_240, 20_000, 50_000, 50_240, NOT_YET, 0, 4))
    rows.tail.append(pack_row(95, 6, near, 9000, 51_240, -1, 50_000, 50_240, NOT_YET, 0, 5))
    rows.repeat(mark, 1, ops=2, ps=100_000)
    found = rows.cut().rows.tolist()
    assert found[2:] == [
        [100_090, 7, 7, 109_000, 110_000, 120_000, 150_000, 150_240, 1000, 0, 6],
        [100_095, 8, 7, 109_000, 110_000, -1, 150_000, 150_240, 1000, 0, -1],
    ]


def test_rows_are_cut_at_a_mark_and_put_back():
    rows = LazyTransfers()
    near = rows.number_of(NEAR)
    row = pack_row(90, 1, near, 9000, 51_240, 20_000, 50_000, 50_240, NOT_YET, 0, 4)
    rows.tail.append(row)
    mark = rows.mark()
    rows.tail.append(row)
    last = rows.cut(mark).rows
    rows.put_back(last)
    rows.tail.append(row)
    assert rows.cut(mark).rows.tolist() == [last[0].tolist()] * 2
    assert rows.cut().rows.tolist() == [last[0].tolist()]


def test_a_time_beyond_64_bits_is_refused():
    with pytest.raises(LogError, match="a time that does not fit 64 bits"):
        LazyTransfers().add(0, (1, 7, 1 << 63, 0, 0, 0, 0, 0, 0, 0))
    with pytest.raises(LogError, match="a time that does not fit 64 bits"):
        LazyTransfers().add(1 << 63, (1, 7, 0, 0, 0, 0, 0, 0, 0, 0))
