"""The operations on rectangles, against sets of bytes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_cases import examples

from kb_messages.memory.address import join_address, split_address
from kb_messages.memory.rectangles import (
    CountedPieces,
    Rectangle,
    common_byte,
    counted_nbytes,
    covers,
    cut,
    overlaps,
    without,
)

BASE = join_address(5, 0)


def bytes_of(rectangle):
    starts = (rectangle.base + row * rectangle.stride for row in range(rectangle.rows))
    return {start + at for start in starts for at in range(rectangle.row_nbytes)}


anywhere = st.builds(
    lambda offset, *shape: Rectangle(BASE + offset, *shape),
    st.integers(0, 60), st.integers(1, 6), st.integers(1, 12), st.sampled_from([0, 5, 8, 12, 16, 32]),
)  # fmt: skip


@st.composite
def tiles(draw):
    """Rectangles of one row-major array with rows of 12 bytes, as slices of one tensor are."""
    row, col = draw(st.integers(0, 5)), draw(st.integers(0, 11))
    return Rectangle(BASE + row * 12 + col, draw(st.integers(1, 6 - row)), draw(st.integers(1, 12 - col)), 12)


either = st.one_of(anywhere, tiles())


@settings(max_examples=examples(500))
@given(either, either)
def test_overlap_is_exact(first, second):
    assert overlaps(first, second) == overlaps(second, first) == bool(bytes_of(first) & bytes_of(second))


@settings(max_examples=examples(500))
@given(either, either)
def test_the_common_byte_is_the_lowest_of_both(first, second):
    lowest = min(bytes_of(first) & bytes_of(second), default=None)
    assert common_byte(first, second) == common_byte(second, first) == lowest


@settings(max_examples=examples(500))
@given(either, either)
def test_a_cover_has_no_gaps_and_holds_the_span(outer, inner):
    span = set(range(inner.base, inner.end))
    has_gaps = bytes_of(outer) != set(range(outer.base, outer.end))
    if covers(outer, inner):
        assert span <= bytes_of(outer)
    else:
        assert has_gaps or not span <= bytes_of(outer)


@settings(max_examples=examples(1000))
@given(either, either)
def test_what_is_left_loses_only_the_hole(whole, hole):
    parts = without(whole, hole)
    left = set().union(*map(bytes_of, parts))
    assert sum(len(bytes_of(part)) for part in parts) == len(left)
    assert bytes_of(whole) - bytes_of(hole) <= left <= bytes_of(whole)


@settings(max_examples=examples(500))
@given(tiles(), tiles())
def test_within_one_tensor_what_is_left_is_exact(whole, hole):
    assert set().union(*map(bytes_of, without(whole, hole))) == bytes_of(whole) - bytes_of(hole)


def test_memories_do_not_overlap():
    first, second = (Rectangle.of_memory(owner, 0, 4, 4, 4) for owner in (5, 6))
    assert not overlaps(first, second)
    assert without(first, second) == [first]


def test_interleaved_columns_do_not_overlap():
    assert not overlaps(Rectangle(0, 8, 4, 8), Rectangle(4, 8, 4, 8))


def test_a_rectangle_tells_its_bytes_and_its_end():
    rectangle = Rectangle(100, 3, 10, 64)
    assert (rectangle.nbytes, rectangle.end) == (30, 100 + 2 * 64 + 10)


@given(st.integers(0, (1 << 30) - 1), st.integers(0, (1 << 38) - 1))
def test_owner_and_offset_make_the_address_and_come_back(owner, offset):
    assert split_address(join_address(owner, offset)) == (owner, offset)
    assert Rectangle.of_memory(owner, offset, 2, 3, 4).in_memory == (owner, offset, 2, 3, 4)


@pytest.mark.parametrize("hole", [Rectangle(BASE, 3, 2, 0), Rectangle(BASE + 1, 2, 3, 5)])
def test_a_hole_whose_rows_do_not_line_up_leaves_the_whole(hole):
    whole = Rectangle(BASE, 4, 6, 12)
    assert without(whole, hole) == [whole]


@given(st.integers(0, 99), st.integers(1, 6), st.integers(1, 9), st.integers(0, 9), st.data())
def test_cut_gives_the_bytes_between_two_numbers_in_order(base, rows, width, gap, data):
    whole = Rectangle(base, rows, width, width + gap)
    start = data.draw(st.integers(0, whole.nbytes))
    end = data.draw(st.integers(start, whole.nbytes))
    addresses = [
        each for row in range(rows) for each in range(base + row * whole.stride, base + row * whole.stride + width)
    ]
    parts = cut(whole, start, end)
    found = [
        each
        for part in parts
        for row in range(part.rows)
        for each in range(part.base + row * part.stride, part.base + row * part.stride + part.row_nbytes)
    ]
    assert found == addresses[start:end]
    assert len(parts) <= 3


@given(st.integers(0, 99), st.integers(1, 9), st.integers(1, 40), st.integers(0, 40), st.sampled_from([1, 16, 24, 64]))
def test_every_run_counts_in_whole_bursts(base, rows, width, gap, burst):
    rectangle = Rectangle(base, rows, width, width + gap)
    starts = [base + row * rectangle.stride for row in range(rows)]
    bursts = [len({each // burst for each in range(start, start + width)}) for start in starts]
    assert counted_nbytes(rectangle, burst) == sum(bursts) * burst


def test_counted_pieces_are_handed_over_piece_by_piece():
    pieces = Rectangle(BASE, 2, 4, 128), Rectangle(BASE + 60, 1, 8, 8), Rectangle(BASE + 512, 1, 64, 64)
    counted = CountedPieces.of(pieces, 64)
    assert (counted.base, counted.nbytes, counted.ends) == (BASE, 5 * 64, (128, 256, 320))
    assert [counted.whole(nbytes) for nbytes in (0, 127, 128, 319, 320)] == [0, 0, 128, 256, 320]
    rest = counted.between(128, 320)
    assert (rest.base, rest.nbytes, rest.pieces, rest.ends) == (BASE + 60, 192, pieces[1:], (128, 192))


def test_pieces_that_were_counted_once_are_moved_by_whole_bursts():
    pieces = Rectangle(BASE, 2, 4, 128), Rectangle(BASE + 60, 1, 8, 8), Rectangle(BASE + 512, 1, 64, 64)
    further = tuple(Rectangle(each.base + 192, each.rows, each.row_nbytes, each.stride) for each in pieces)
    moved, wanted = CountedPieces.of(pieces, 64).moved(128).moved(64), CountedPieces.of(further, 64)
    assert (moved.base, moved.nbytes, moved.pieces, moved.ends) == (wanted.base, wanted.nbytes, further, wanted.ends)
    one, two = moved.between(128, 320), wanted.between(128, 320)
    assert (one.base, one.nbytes, one.pieces, one.ends) == (two.base, two.nbytes, two.pieces, two.ends)
