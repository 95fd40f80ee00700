"""Numbers for pairs, against numpy's sort."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kb_cli.trace.pairs import number_pairs


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 200))))
def test_pairs_are_numbered_in_ascending_order(drawn: list[tuple[int, int]]) -> None:
    first, second = np.array(drawn, np.int32).reshape(-1, 2).T
    pairs = number_pairs(first, second)
    assert pairs.found == sorted(set(drawn))
    assert [pairs.found[number] for number in pairs.number.tolist()] == drawn
