"""Assemblies give the bytes that copies in memory would give."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_cases import examples

from kb_dataexec.execute.fused.assembly import Assembly, Source, ValueLayout
from kb_messages import DType

U8, F16, F32 = (dtype.info.code for dtype in (DType.U8, DType.F16, DType.F32))
COUNT, SIZE, HOME = 2, 96, 32


def layouts(unit):
    def layout(rows, cols, gap):
        return ValueLayout(rows, cols * unit, (cols + gap) * unit if rows > 1 else cols * unit, U8)

    return st.builds(layout, st.integers(1, 4), st.integers(1, 6), st.integers(0, 3))


def places(layout, offset):
    """The addresses of the bytes of a layout: (rows, bytes of a row)."""
    return offset + np.arange(layout.rows)[:, None] * layout.stride + np.arange(layout.row_nbytes)


@settings(max_examples=examples(300))
@given(st.data(), st.sampled_from([1, 2, 4]))
def test_an_assembly_is_what_copies_in_memory_leave(data, unit):
    target = data.draw(layouts(unit))
    shapes = data.draw(st.lists(st.tuples(layouts(unit), st.integers(-4, 12)), min_size=1, max_size=4))
    sources = [Source(layout, unit * distance) for layout, distance in shapes]
    rng = np.random.default_rng(0)
    stacks = [rng.integers(0, 256, (COUNT, *each.layout[:2]), np.uint8) for each in sources]
    memory, written = np.zeros((COUNT, 4 * SIZE), np.uint8), np.zeros(4 * SIZE, np.bool_)
    for source, stack in zip(sources, stacks, strict=True):
        at = places(source.layout, HOME + source.distance)
        memory[:, at], written[at] = stack, True
    home = places(target, HOME)
    assembly = Assembly(target, sources)
    filled = assembly.filled(range(len(sources)))
    assert (filled == written[home]).all()
    if filled.all():
        assert (assembly(stacks) == memory[:, home]).all()


def test_a_view_of_another_type_and_shape_copies_nothing():
    stack = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    assembly = Assembly(ValueLayout(1, 48, 48, F16), [Source(ValueLayout(3, 16, 16, F32), 0)])
    found = assembly([stack])
    assert (found.shape, found.dtype) == ((2, 1, 24), np.float16)
    assert np.shares_memory(found, stack)


def test_rows_that_overlap_repeat_their_bytes():
    """Two rows of 8 bytes, 4 bytes apart, have 12 bytes of the 16 bytes of the source."""
    stack = np.arange(4, dtype=np.float32).reshape(1, 1, 4)
    found = Assembly(ValueLayout(2, 8, 4, F32), [Source(ValueLayout(1, 16, 16, F32), 0)])([stack])
    assert found.tolist() == [[[0, 1], [1, 2]]]
