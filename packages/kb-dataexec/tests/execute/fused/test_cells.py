"""The groups of cells, compared with the overlaps of all pairs of rectangles."""

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_cases import examples

from kb_dataexec.execute.fused.accesses.cells import COLUMNS, Cells
from kb_messages import DType, Rectangle, covers, overlaps

CODE = DType.U8.info.code


def cells_of(rectangles, changed):
    rows = [(*each.in_memory, CODE) for each in rectangles]
    columns = dict(zip(COLUMNS, map(np.array, zip(*rows, strict=True)), strict=True))
    return Cells(columns, np.array(changed))


def rectangles_with(strides):
    """Rectangles whose rows do not overlap, as an executor writes them."""
    shapes = strides.flatmap(lambda stride: st.tuples(st.integers(1, 5), st.integers(1, stride), st.just(stride)))
    either_owner = st.sampled_from([1, 2])
    return st.builds(
        lambda owner, offset, shape: Rectangle.of_memory(owner, offset, *shape),
        either_owner,
        st.integers(0, 50),
        shapes,
    )


def labels(pairs, count):
    """A label for each of *count* things, equal where a chain of *pairs* connects two."""
    label = list(range(count))
    for one, other in pairs:
        label = [label[one] if each == label[other] else each for each in label]
    return label


def same_parts(one, other):
    return all((one[a] == one[b]) == (other[a] == other[b]) for a, b in combinations(range(len(one)), 2))


@settings(max_examples=examples(300))
@given(st.lists(st.tuples(rectangles_with(st.just(12)), st.booleans()), min_size=1, max_size=8))
def test_cells_of_one_stride_are_grouped_by_what_overlaps(given_cells):
    rectangles, changed = map(list, zip(*given_cells, strict=True))
    cells = cells_of(rectangles, changed)
    group = cells.group[cells.index].tolist()
    is_changed = cells.changed[cells.index].tolist()
    same = [(a, b) for a, b in combinations(range(len(rectangles)), 2) if cells.index[a] == cells.index[b]]
    conflicts = [
        (a, b)
        for a, b in combinations(range(len(rectangles)), 2)
        if (is_changed[a] or is_changed[b]) and overlaps(rectangles[a], rectangles[b])
    ]
    assert same_parts(group, labels(same + conflicts, len(rectangles)))


@settings(max_examples=examples(300))
@given(st.lists(rectangles_with(st.sampled_from([5, 8, 12])), min_size=2, max_size=8))
def test_changed_cells_that_overlap_are_in_one_group_whatever_their_strides(rectangles):
    cells = cells_of(rectangles, [True] * len(rectangles))
    for a, b in combinations(range(len(rectangles)), 2):
        if overlaps(rectangles[a], rectangles[b]):
            assert cells.group[cells.index[a]] == cells.group[cells.index[b]]


@settings(max_examples=examples(300))
@given(rectangles_with(st.sampled_from([5, 12])), rectangles_with(st.sampled_from([5, 12])))
def test_a_cell_covers_another_of_its_group_as_rectangles_do(one, other):
    cells = cells_of([one, other], [True, True])
    above, below = cells.index
    if cells.group[above] == cells.group[below] and overlaps(one, other):
        assert cells.cover(np.array([above]), np.array([below])).tolist() == [covers(one, other)]
