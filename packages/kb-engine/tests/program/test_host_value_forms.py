"""Forms of host values: affine integers, boxes and half spaces, compared with numpy's elements."""

import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_cases import examples

from kb_engine.program.values.affine import Affine, HalfSpace, IndexBox, merged_axes
from kb_engine.program.values.host_values import HostValue


def arange(start, end):
    return HostValue.of(Affine((end - start,), start, (int(end - start > 1),)), lambda: "kernel.py:7")


SIDE = st.integers(1, 5)
NUMBERS = st.integers(-7, 7)
KEYS = [
    (slice(None), None),
    (None, slice(None)),
    (Ellipsis, slice(1, None, 2)),
    (slice(None, None, -1),),
    (0,),
    (Ellipsis, -1),
    (slice(0, 1),),
]


@st.composite
def values(draw):
    """A known value and the array that numpy makes of the same operations."""
    start = draw(NUMBERS)
    end = start + draw(SIDE)
    known, array = arange(start, end), np.arange(start, end)
    for _ in range(draw(st.integers(0, 5))):
        known, array = step(draw, known, array)
    return known, array


def step(draw, known, array):
    kind = draw(st.sampled_from(["arithmetic", "divide", "key", "compare", "join", "turn"]))
    if kind == "key":
        key = draw(st.sampled_from(KEYS))
        if array.ndim + sum(each is None for each in key) > 4 or array.ndim < len([k for k in key if k is not None]):
            return known, array
        found, expected = known[key], array[key]
        return (found, expected) if expected.ndim and expected.size else (known, array)
    if kind == "turn":
        return (~known, ~array) if array.dtype == bool else (-known, -array)
    if kind == "join" and array.ndim:
        length = draw(SIDE)
        other, numbers = arange(0, length)[:, None], np.arange(length)[:, None]
        if array.dtype == bool:
            function = draw(st.sampled_from([operator.and_, operator.or_, operator.xor]))
            other, numbers = other < length - 1, numbers < length - 1
        else:
            function = draw(st.sampled_from([operator.add, operator.sub, operator.mul, operator.lt, operator.eq]))
        column = array.reshape(1, *array.shape)[..., :1, :] if array.ndim > 1 else array
        row = known[None][..., :1, :] if array.ndim > 1 else known
        return function(row, other), function(column, numbers)
    number = draw(NUMBERS)
    if kind == "compare":
        function = draw(st.sampled_from([operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]))
        return function(known, number), function(array, number)
    if kind == "divide" and number:
        function = draw(st.sampled_from([operator.floordiv, operator.mod]))
        return function(known, number), function(array.astype(np.int64), number)
    function = draw(st.sampled_from([operator.add, operator.sub, operator.mul]))
    return function(known, number), function(array.astype(np.int64), number)


@settings(max_examples=examples(400), deadline=None)
@given(values())
def test_the_elements_of_any_form_are_numpys(pair):
    known, array = pair
    assert known.shape == array.shape
    assert known.is_mask == (array.dtype == np.bool_)
    np.testing.assert_array_equal(known.data, array)
    if isinstance(known.form, Affine):
        assert (known.form.low, known.form.high) == (array.min(), array.max())
    if isinstance(known.form, IndexBox):
        assert known.form.is_empty == (not array.any())
        assert known.form.is_everywhere == array.all()


@given(st.lists(SIDE, min_size=1, max_size=3), st.data())
def test_a_reshape_is_affine_only_where_the_elements_are(sides, data):
    steps = [data.draw(st.integers(-2, 6)) if side > 1 else 0 for side in sides]
    affine = Affine(tuple(sides), 3, tuple(steps))
    order = data.draw(st.permutations(range(len(sides))))
    np.testing.assert_array_equal(affine.transposed(tuple(order)).data(), affine.data().transpose(order))
    total = affine.data().size
    shapes = [(a, total // a) for a in range(1, total + 1) if total % a == 0] + [(total,), (1, total, 1)]
    for shape in shapes:
        found = affine.reshaped(shape)
        if found is not None:
            np.testing.assert_array_equal(found.data(), affine.data().reshape(shape))
        elif len(shape) == 1:
            assert len(np.unique(np.diff(affine.data().reshape(shape)))) > 1


def test_a_range_of_any_size_costs_no_array():
    rows, columns = arange(0, 1 << 40), arange(0, 1 << 20)
    address = 64 + rows[:, None] * (1 << 20) + columns[None, :]
    assert address.form == Affine((1 << 40, 1 << 20), 64, (1 << 20, 1))
    inside = (rows < 1000)[:, None] & (columns * 2 >= 7)[None, :]
    assert inside.form == IndexBox((1 << 40, 1 << 20), ((0, 1000), (4, 1 << 20)))
    assert isinstance((rows[:, None] >= columns[None, :]).form, HalfSpace)


@pytest.mark.parametrize(
    ("known", "form"),
    [
        pytest.param(arange(8, 16) % 16, Affine((8,), 8, (1,)), id="modulo of one round"),
        pytest.param(arange(16, 24) % 16, Affine((8,), 0, (1,)), id="modulo of the next round"),
        pytest.param(arange(0, 8) * 32 % 16, Affine((8,), 0, (0,)), id="modulo of a product"),
        pytest.param(arange(0, 8) // 8, Affine((8,), 0, (0,)), id="quotient 0"),
        pytest.param(arange(0, 8) * 6 // 3, Affine((8,), 0, (2,)), id="quotient of a product"),
        pytest.param(arange(0, 8) << 3, Affine((8,), 0, (8,)), id="shift"),
        pytest.param(arange(0, 8) == 3, IndexBox((8,), ((3, 4),)), id="equal"),
        pytest.param(~(arange(0, 8) < 3), IndexBox((8,), ((3, 8),)), id="inverted box"),
        pytest.param(
            ~(arange(0, 8)[:, None] >= arange(0, 8)[None, :]),
            HalfSpace(Affine((8, 8), -1, (-1, 1))),
            id="inverted half space",
        ),
        pytest.param((arange(0, 8) < 3) | (arange(0, 8) > 100), IndexBox((8,), ((0, 3),)), id="or with an empty mask"),
    ],
)
def test_a_value_computed_from_a_range_has_a_form(known, form):
    assert known.form == form


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(arange(8, 24) % 16, id="modulo of two rounds"),
        pytest.param(arange(0, 8) // 3, id="uneven quotient"),
        pytest.param(arange(0, 8) * arange(0, 8), id="square"),
        pytest.param(arange(0, 8) & 3, id="bitwise and"),
        pytest.param(arange(0, 8) != 3, id="not equal"),
        pytest.param((arange(0, 8) < 3) | (arange(0, 8) > 5), id="two intervals"),
        pytest.param(arange(0, 8) + ((1 << 63) - 4), id="beyond i64"),
    ],
)
def test_a_value_without_a_form_has_data(known):
    assert known.form is None
    assert known.data.shape == known.shape


def test_an_array_on_the_left_leaves_the_operator_to_the_known_value():
    found = np.array([5, 7], np.int32)[:, None] * 10 + arange(0, 3)[None, :]
    assert isinstance(found, HostValue)
    np.testing.assert_array_equal(found, [[50, 51, 52], [70, 71, 72]])


def test_neighbouring_axes_that_pass_as_one_are_joined():
    assert merged_axes((4, 3, 2), ((6, 2, 1),)) == [(24, (1,))]
    assert merged_axes((4, 3, 2), ((6, 2, 1), (12, 4, 1))) == [(12, (2, 4)), (2, (1, 1))]
    assert merged_axes((1, 1), ((0, 0),)) == []
