"""The index of rectangles, against looking at all of them."""

from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_cases import examples

from kb_engine.memory.rectangle_index import RectangleIndex
from kb_messages import Rectangle, overlaps

rectangles = st.builds(
    Rectangle.of_memory,
    st.integers(1, 2), st.integers(0, 60), st.integers(1, 4), st.integers(1, 12), st.integers(0, 16),
)  # fmt: skip


@settings(max_examples=examples(300))
@given(st.lists(st.tuples(rectangles, st.booleans()), max_size=12), rectangles)
def test_all_that_overlap_are_near(steps, asked):
    index, kept = RectangleIndex[int](), []
    for number, (rectangle, stays) in enumerate(steps):
        entry = index.add(rectangle, number)
        assert entry.payload == number
        kept.append(entry)
        if not stays:
            index.remove(kept.pop(0))
    assert len(index) == len(kept)
    near = [entry.payload for entry in index.near(asked)]
    assert len(near) == len(set(near))
    assert {entry.payload for entry in kept if overlaps(entry.rectangle, asked)} <= set(near)
    assert set(near) <= {entry.payload for entry in kept}


def test_equal_rectangles_are_entries_of_their_own():
    index, rectangle = RectangleIndex[str](), Rectangle.of_memory(1, 0, 1, 4, 4)
    first, second = index.add(rectangle, "same"), index.add(rectangle, "same")
    index.remove(second)
    assert [entry is first for entry in index.near(rectangle)] == [True]


def test_another_memory_is_not_near():
    index = RectangleIndex[int]()
    index.add(Rectangle.of_memory(1, 0, 1, 4, 4), 0)
    assert index.near(Rectangle.of_memory(2, 0, 1, 4, 4)) == []
