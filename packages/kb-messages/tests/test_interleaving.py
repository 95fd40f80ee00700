"""Where the bytes of a rectangle lie when granules go to several memories in turn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_messages import Interleaving, SlicePart

SPREAD = Interleaving(granule_nbytes=64, count=4)


@pytest.mark.parametrize(
    ("rectangle", "parts"),
    [
        ((0, 1, 64, 64), [(0, 0, 1, 64, 64)]),
        ((0, 1, 512, 512), [(each, 0, 1, 128, 128) for each in range(4)]),
        # From byte 40 of granule 1 on: 24 bytes of it, granule 2, and 12 bytes of granule 3.
        ((104, 1, 100, 100), [(1, 40, 1, 24, 24), (2, 0, 1, 64, 64), (3, 0, 1, 12, 12)]),
        # 24 bytes of granule 1, granules 2 to 4, and 8 bytes of granule 5, which is the second one of memory 1.
        ((104, 1, 224, 224), [(0, 64, 1, 64, 64), (1, 40, 1, 32, 32), (2, 0, 1, 64, 64), (3, 0, 1, 64, 64)]),
        # Rows of 96 bytes, two rounds apart: each begins in memory 1 of round 1.
        ((256 + 64, 3, 96, 512), [(1, 64, 3, 64, 128), (2, 64, 3, 32, 128)]),
        # Rows without gaps are one run.
        ((0, 4, 128, 128), [(each, 0, 1, 128, 128) for each in range(4)]),
        # Rows of 32 bytes, 96 apart: bytes 0, 96, 192 and 288 are in memories 0, 1, 3 and 0.
        ((0, 4, 32, 96), [(0, 0, 1, 64, 64), (1, 32, 1, 32, 32), (3, 0, 1, 32, 32)]),
    ],
)
def test_a_rectangle_has_a_part_in_each_memory(rectangle, parts):
    assert SPREAD.parts(*rectangle) == [SlicePart(*each) for each in parts]


def places(spread, offset, rows, row_nbytes, stride):
    """The place of every byte, one by one: the memory, and the byte in it."""
    for row in range(rows):
        for byte in range(offset + row * stride, offset + row * stride + row_nbytes):
            granule, within = divmod(byte, spread.granule_nbytes)
            yield granule % spread.count, granule // spread.count * spread.granule_nbytes + within


@given(
    granule=st.sampled_from([1, 3, 8]),
    count=st.integers(2, 5),
    offset=st.integers(0, 100),
    rows=st.integers(1, 7),
    row_nbytes=st.integers(1, 40),
    gap=st.integers(0, 50),
)
def test_parts_are_those_of_all_bytes_one_by_one(granule, count, offset, rows, row_nbytes, gap):
    spread = Interleaving(granule_nbytes=granule, count=count)
    stride = row_nbytes + gap
    expected = {}
    for memory, byte in places(spread, offset, rows, row_nbytes, stride):
        expected.setdefault(memory, []).append(byte)
    found = spread.parts(offset, rows, row_nbytes, stride)
    assert [part.number for part in found] == sorted(expected)
    for part in found:
        mine = expected[part.number]
        assert (part.offset, part.rows * part.row_nbytes) == (mine[0], len(mine))
        if rows == 1 or not gap or stride % spread.round_nbytes == 0:
            bytes_of_part = [
                part.offset + row * part.stride + byte for row in range(part.rows) for byte in range(part.row_nbytes)
            ]
            assert bytes_of_part == mine
