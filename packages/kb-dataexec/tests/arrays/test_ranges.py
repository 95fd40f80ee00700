"""Numbers of distinct values, close together or far apart, and of distinct rows."""

import numpy as np
import pytest

from kb_dataexec.arrays.ranges import numbered, numbered_rows


@pytest.mark.parametrize(
    ("keys", "distinct", "places"),
    [
        ([], [], []),
        ([7], [7], [0]),
        ([5, 3, 5, 4, 3], [3, 4, 5], [2, 0, 2, 1, 0]),
        ([-2, 1, -2], [-2, 1], [0, 1, 0]),
        ([1 << 50, -(1 << 50), 3, 1 << 50], [-(1 << 50), 3, 1 << 50], [2, 0, 1, 2]),
    ],
)
def test_keys_are_numbered_in_their_order(keys: list[int], distinct: list[int], places: list[int]) -> None:
    found, place = numbered(np.array(keys, np.int64))
    assert (found.tolist(), place.tolist()) == (distinct, places)


def test_small_types_do_not_overflow() -> None:
    found, place = numbered(np.array([127, -128, 0], np.int8))
    assert (found.tolist(), place.tolist()) == ([-128, 0, 127], [2, 0, 1])


def test_many_keys_are_numbered_as_by_sorting() -> None:
    keys = np.random.default_rng(0).integers(-5000, 5000, 20_000)
    for scale in (1, 1 << 40):
        found, place = numbered(keys * scale)
        expected = np.unique(keys * scale, return_inverse=True)
        assert (found == expected[0]).all()
        assert (place == expected[1]).all()


def test_rows_are_equal_if_all_their_columns_are() -> None:
    columns = np.array([4, 4, 9, 4, 9]), np.array([1 << 40, 2, 2, 1 << 40, 2]), np.array([0, 0, 0, 0, 1], np.int8)
    assert numbered_rows(*columns).tolist() == [1, 0, 2, 1, 3]
    assert numbered_rows(*(column[:0] for column in columns)).tolist() == []
