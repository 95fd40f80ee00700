"""Rows for services that overlap."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kb_cli.trace.slices import rows_without_overlap


def rows(*slices: tuple[int, int, int]) -> list[int]:
    """The rows of (lane, start, end), which are sorted first."""
    lane, start, end = np.array(sorted(slices), np.int64).reshape(-1, 3).T
    return rows_without_overlap(lane, start, end).tolist()


def test_slices_that_touch_need_one_row() -> None:
    assert rows((0, 0, 5), (0, 5, 5), (0, 5, 9), (1, 0, 9), (1, 9, 10)) == [0, 0, 0, 0, 0]


def test_a_slice_takes_the_first_row_that_is_free() -> None:
    assert rows((0, 0, 10), (0, 2, 4), (0, 3, 5), (0, 4, 6), (0, 10, 11), (1, 0, 3), (2, 0, 2), (2, 1, 3)) == [
        0, 1, 2, 1, 0, 0, 0, 1,
    ]  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20), st.integers(0, 9)), min_size=1))
def test_no_row_has_two_slices_at_once_and_no_row_is_wasted(drawn: list[tuple[int, int, int]]) -> None:
    slices = sorted((lane, start, start + length) for lane, start, length in drawn)
    found = rows(*slices)
    for lane in {each[0] for each in slices}:
        mine = [(start, end, row) for (at, start, end), row in zip(slices, found, strict=True) if at == lane]
        for row in {each[2] for each in mine}:
            ends = 0
            for start, end, _ in [each for each in mine if each[2] == row]:
                assert start >= ends
                ends = end
        most = max(sum(start <= at < max(end, start + 1) for start, end, _ in mine) for at in range(31))
        assert max(row for *_, row in mine) < most
