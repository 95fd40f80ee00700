"""`tl.arange` and values computed from it: numpy's integers, without time and without records."""

import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_engine.program.values.host_values import HostValue
from kb_messages import KernelError

FUNCTIONS = ["add", "sub", "mul", "floordiv", "mod", "and_", "or_", "xor", "lt", "le", "gt", "ge", "eq", "ne"]
small = st.integers(-50, 50)


def vector(*elements):
    return HostValue(np.array(elements), lambda: "kernel.py:7")


@given(st.lists(small, min_size=1, max_size=5), small, st.sampled_from(FUNCTIONS))
def test_operators_are_numpys(elements, number, name):
    function, array, numbers = getattr(operator, name), np.array(elements), vector(*elements)
    cases = [(numbers, numbers, array, array), (numbers, number, array, number), (number, numbers, number, array)]
    for x, y, a, b in cases:
        if name in ("floordiv", "mod") and not np.all(b):
            with pytest.raises(KernelError, match=r"^kernel.py:7: got a division by zero of integers, needs another "):
                function(x, y)
            continue
        got = function(x, y)
        np.testing.assert_array_equal(got.data, function(a, b))
        assert got.data.dtype == (np.bool_ if name in ("lt", "le", "gt", "ge", "eq", "ne") else np.int64)


@given(st.lists(small, min_size=1, max_size=5), st.integers(0, 8))
def test_shifts_are_numpys(elements, by):
    array, numbers = np.array(elements), vector(*elements)
    np.testing.assert_array_equal((numbers << by).data, array << by)
    np.testing.assert_array_equal((numbers >> by).data, array >> by)
    np.testing.assert_array_equal((1 << (numbers & 7)).data, 1 << (array & 7))


def test_signs_and_bits_turn():
    assert list(-vector(1, -2)) == [-1, 2]
    assert list(~vector(1, -2)) == [-2, 1]
    assert list(~(vector(1, -2) > 0)) == [False, True]


def test_booleans_count_as_integers_where_they_are_added():
    both = vector(1, 2) > 0
    assert list(both + both) == [2, 2]
    assert list(both << 9) == [512, 512]
    assert list(-both) == [-1, -1]


def test_a_column_and_a_row_broadcast():
    grid = vector(0, 1, 2)[:, None] * 10 + vector(0, 1)[None, :]
    assert grid.shape == (3, 2)
    assert grid[2, 1] == 21
    assert type(grid[2, 1]) is int
    assert str(grid < 3) == "3 x 2 booleans"


def test_elements_are_python_numbers_that_can_steer_and_index():
    numbers = vector(3, 4)
    assert [type(each) for each in numbers] == [int, int]
    assert range(9)[numbers[0:1]] == 3
    assert int(numbers[1:2]) == 4
    assert bool(numbers[0:1] == 3)
    assert len(numbers) == 2


def test_data_is_read_only():
    with pytest.raises(ValueError, match="read-only"):
        vector(1).data[0] = 2


@pytest.mark.parametrize(
    ("do", "message"),
    [
        (
            lambda: vector(1, 2) + 0.5,
            ("got add of 2 integers and a float, needs integers, booleans, or vectors computed from tl.arange"),
        ),
        (
            lambda: vector(1, 2) * vector(1, 2, 3),
            "got mul of 2 and 3, needs shapes that broadcast; make a column: v[:, None]",
        ),
        (lambda: vector(1) + (1 << 70), f"got add of 1 integers and {1 << 70}, needs a number of i64"),
        (lambda: 1 // vector(0, 1), "got a division by zero of integers, needs another divisor"),
        (lambda: bool(vector(1, 2) > 0), "got the truth value of 2 booleans, needs one element; index it"),
        (lambda: int(vector(1, 2)), "got `int()` of 2 integers, needs one element; index it"),
        (lambda: range(9)[vector(1, 2)], "got use as an index of 2 integers, needs one element; index it"),
    ],
)
def test_wrong_operators_are_refused(do, message):
    with pytest.raises(KernelError) as caught:
        do()
    assert str(caught.value) == f"kernel.py:7: {message}"
