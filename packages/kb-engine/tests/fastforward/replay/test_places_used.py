"""How many programs meet the bytes of others as the first one does, against the rectangles of each."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kb_engine.fastforward.replay.places_used import PlaceUsed
from kb_messages import Rectangle, overlaps

shapes = st.builds(
    lambda rows, nbytes, gap: Rectangle(0, rows, nbytes, nbytes + gap),
    st.integers(1, 3),
    st.integers(1, 8),
    st.integers(0, 8),
)
bases = st.lists(st.integers(0, 60), min_size=6, max_size=6)


@given(shapes, bases, shapes, st.one_of(bases, st.integers(0, 60)))
def test_programs_overlap_equally_up_to_the_first_one_that_does_not(first, first_bases, second, second_bases):
    constant = isinstance(second_bases, int)
    one = PlaceUsed(np.array(first_bases), first, True)
    other = PlaceUsed(second_bases if constant else np.array(second_bases), second, False)
    meets = [overlaps(one.at(which), other.at(which)) for which in range(6)]
    expected = next((which for which in range(6) if meets[which] != meets[0]), None)
    assert one.n_with_equal_overlap(other) == other.n_with_equal_overlap(one) == expected


def test_two_places_of_all_programs_always_overlap_equally():
    shape = Rectangle(0, 1, 8, 8)
    assert PlaceUsed(0, shape, True).n_with_equal_overlap(PlaceUsed(4, shape, False)) is None
