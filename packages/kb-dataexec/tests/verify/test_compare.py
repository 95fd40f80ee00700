import math

import numpy as np
import pytest

from kb_dataexec.arrays.dtypes import cast
from kb_dataexec.verify import ToleranceError, compare, default_tolerance
from kb_messages import DType


def test_the_worst_element_is_the_one_furthest_beyond_its_bound():
    outcome = compare("c", np.array([[1.0, 2.5], [9.0, 4.0]]), np.array([[1.0, 2.0], [3.0, 4.0]]), 0.25)
    assert str(outcome) == "c: 2 of 4 elements wrong (50 %), in [0:2, 0:2]; at [1, 0] got 9, expected 3 within 0.25"
    assert outcome.max_abs_err == 6.0


def test_the_region_is_the_smallest_box_of_all_wrong_elements_in_all_blocks(monkeypatch):
    monkeypatch.setitem(compare.__globals__, "_BLOCK_ELEMENTS", 16)  # two rows of 8 elements a block
    expected = np.zeros((9, 8))
    got = expected.copy()
    got[2, 5] = got[7, 3] = got[4, 4] = 1
    outcome = compare("c", got, expected, 0.5)
    assert (outcome.region, outcome.share) == (((2, 8), (3, 6)), 3 / 72)
    assert str(outcome).startswith("c: 3 of 72 elements wrong (4.17 %), in [2:8, 3:6]; at [2, 5] got 1, expected 0 ")
    assert compare("c", expected, expected, 0.5).region == ()
    one = compare("c", np.array(2.0), np.array(1.0), 0.5)
    assert (one.ok, one.region) == (False, ())


def test_a_comparison_that_holds_says_so():
    assert str(compare("c", np.array([1.5]), np.array([1.0]), 0.5)) == "c: ok, 1 element, largest error 0.5"


def test_nothing_to_compare_is_ok():
    assert str(compare("c", np.zeros((0, 4)), np.zeros((0, 4)), 0.0)) == "c: ok, no elements"


@pytest.mark.parametrize(
    ("got", "expected", "ok"),
    [
        (math.nan, math.nan, True),
        (math.inf, math.inf, True),
        (-math.inf, math.inf, False),
        (math.inf, 1e30, False),
        (1.0, math.nan, False),
        (math.nan, 1.0, False),
    ],
)
def test_only_equal_non_finite_values_agree(got, expected, ok):
    outcome = compare("c", np.array([got], np.float32), np.array([expected]), 1e6)
    assert outcome.ok is ok
    assert outcome.max_abs_err == (0.0 if ok else math.inf)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1e-9])
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int32])
def test_a_tolerance_that_says_nothing_is_refused(bad, kind):
    values = np.arange(3, dtype=kind)
    message = rf"^c: tolerance: got {bad:g}, needs a number of 0 or more that is finite$"
    for tolerance in (bad, np.array([0.0, bad, 1.0]), np.float32(bad), np.full((1, 1), bad)[0]):
        with pytest.raises(ToleranceError, match=message):
            compare("c", values, values, tolerance)


@pytest.mark.parametrize("bad", [1j, "1", None, np.array(["x"])])
def test_a_tolerance_that_is_no_number_is_refused(bad):
    with pytest.raises(ToleranceError, match=r"needs numbers$"):
        compare("c", np.ones(1), np.ones(1), bad)


def test_a_tolerance_follows_a_reference_that_is_not_finite():
    expected = np.array([np.inf, np.nan, 1.0])
    tolerance = default_tolerance(expected, DType.F16)
    assert compare("c", np.array([np.inf, np.nan, 1.0], np.float16), expected, tolerance).ok
    assert not compare("c", np.array([1.0, 1.0, 1.0], np.float16), expected, tolerance).ok
    for value in (np.inf, np.nan):
        alone = np.full((2, 2), value)
        assert compare("c", alone, alone, default_tolerance(alone, DType.F16)).ok


def test_large_integers_compare_exactly():
    assert not compare("c", np.array([2**60 + 1]), np.array([2**60]), 0.0).ok


def test_low_precision_outputs_compare_by_value():
    got = cast(np.array([1.0, 2.0]), DType.F8E4M3)
    assert compare("c", got, np.array([1.0, 2.0]), 0.0).ok


def test_an_error_in_a_late_block_is_found_at_its_place():
    got, expected = np.zeros((3000, 1000), np.float16), np.zeros((3000, 1000), np.float16)
    got[2999, 998] = 1
    outcome = compare("c", got, expected, 0.5)
    assert (outcome.n_wrong, outcome.worst) == (1, (2999, 998))


def test_scalars_and_vectors_compare():
    assert compare("c", np.float32(1.0), np.float64(1.0), 0.0).ok
    assert compare("c", np.ones(5), np.ones(5), np.zeros(5)).ok


def test_shapes_must_agree():
    with pytest.raises(ValueError, match=r"^c: got shape \(2,\), needs \(3,\)$"):
        compare("c", np.zeros(2), np.zeros(3), 0.0)
