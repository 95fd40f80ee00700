"""Sets of bytes, against the overlap of rectangles taken by pairs."""

from itertools import combinations, pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_cases import examples

from kb_dataexec.analysis.byte_sets import split_bytes
from kb_messages import Rectangle, overlaps


def test_tiles_of_one_stride_are_not_cut_into_rows():
    side = 64
    tiles = [(m * side * 4096 + n * side, side, side, 4096) for m in range(16) for n in range(16)]
    offset, rows, row_nbytes, stride = map(np.array, zip(*tiles, strict=True))
    first, member = split_bytes(np.zeros_like(offset), offset, rows, row_nbytes, stride)
    assert np.diff(first).tolist() == [1] * 256
    assert len(set(member.tolist())) == 256


strides = st.sampled_from([0, 5, 8, 12, 16])
rectangles = st.builds(Rectangle, st.integers(0, 60), st.integers(1, 6), st.integers(1, 12), strides)


@settings(max_examples=examples(300))
@given(st.lists(rectangles, min_size=1, max_size=8))
def test_rectangles_share_a_set_where_they_overlap(given_rectangles):
    columns = [np.array(column) for column in zip(*(each.in_memory for each in given_rectangles), strict=True)]
    first, member = split_bytes(*columns)
    sets_of = [set(member[start:end].tolist()) for start, end in pairwise(first)]
    for (one, its), (other, others) in combinations(zip(given_rectangles, sets_of, strict=True), 2):
        assert bool(its & others) == overlaps(one, other)
