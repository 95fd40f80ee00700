"""Tensors as arguments of a call: shapes and places that are none, and casts."""

import numpy as np
import pytest

import kernbench as kb


@pytest.mark.parametrize("make", [kb.empty, kb.zeros])
@pytest.mark.parametrize("shape", [(2.5,), None, -3, (4, -1), "abc", True, [[1]]])
def test_a_shape_has_integers(make, shape):
    with pytest.raises(kb.KbError, match=r"^a tensor's shape: got .*, needs integers of 0 or more$"):
        make(shape, "f32")


@pytest.mark.parametrize(
    ("placing", "text"),
    [
        ({"blocks": 3}, r"^blocks: got 3, needs two numbers: down the rows, and along the columns$"),
        ({"blocks": (1, 2, 3)}, r"^blocks: got \(1, 2, 3\), needs two numbers"),
        ({"slices": ["a"]}, r"^slices: got \['a'\], needs the numbers of memories$"),
        ({"cube": 0.5}, r"^cube: got \[0\.5\], needs the number of a cube$"),
    ],
)
def test_places_have_integers(placing, text):
    with pytest.raises(kb.KbError, match=text):
        kb.empty(3, "f32", **placing)


def test_a_cast_takes_names_of_types_and_lists():
    """256 and 258 are bf16, and 257 lies in the middle: it is rounded to the even one."""
    assert kb.cast([256.0, 257.0, 258.0], "bf16").astype(np.float32).tolist() == [256, 256, 258]
    assert kb.cast(np.float32(1.5), np.int32).tolist() == 1
    with pytest.raises(kb.KbError, match=r"^a tensor's dtype: got 'bf17', needs one of .*did you mean 'bf16'\?$"):
        kb.cast([1.0], "bf17")
    with pytest.raises(kb.KbError, match=r"^kernbench\.cast: got an array of <U1, needs numbers$"):
        kb.cast(["a"], "bf16")
