import pytest
from dataexec_gemm_log import HBM, TCM, GemmProblem, LogBuilder, move
from dataexec_math_log import EpilogueProblem, SoftmaxProblem
from hypothesis import given, settings
from hypothesis import strategies as st

from kb_dataexec.dependencies import Rectangle, backward_slice, overlap
from kb_messages.dtypes import DType
from kb_messages.oplog import OpKind, Role

rectangles = st.builds(
    Rectangle, st.just(1), st.integers(0, 60), st.integers(1, 6), st.integers(1, 12), st.sampled_from([0, 5, 8, 12, 16])
)


def addresses(rectangle):
    _, offset, rows, row_nbytes, stride = rectangle
    return {offset + row * stride + at for row in range(rows) for at in range(row_nbytes)}


@settings(max_examples=400, deadline=None)
@given(rectangles, rectangles)
def test_overlap_is_exact(a, b):
    assert overlap(a, b) == overlap(b, a) == bool(addresses(a) & addresses(b))


def test_memories_do_not_overlap():
    assert not overlap(Rectangle(1, 0, 1, 8, 8), Rectangle(2, 0, 1, 8, 8))


def test_interleaved_columns_do_not_overlap():
    assert not overlap(Rectangle(1, 0, 8, 4, 8), Rectangle(1, 4, 8, 4, 8))


def copy(builder, source, target):
    """One row of 8 bytes from (owner, offset) to (owner, offset)."""
    sides = [move(role, *at, 1, 8, 8, DType.U8) for role, at in ((Role.SRC, source), (Role.DST, target))]
    return builder.add((len(builder.ops), 0, 0), OpKind.MEMORY, "copy", sides)


def test_the_slice_follows_bytes_backwards():
    builder = LogBuilder()
    first = copy(builder, (HBM, 0), (TCM, 0))
    copy(builder, (HBM, 8), (TCM, 8))
    last = copy(builder, (TCM, 0), (HBM, 64))
    assert backward_slice(builder.log(), [(HBM, 68, 1, 1, 1)]) == {first, last}


def test_a_write_that_is_overwritten_before_it_is_read_is_outside():
    builder = LogBuilder()
    copy(builder, (HBM, 0), (TCM, 0))
    second = copy(builder, (HBM, 8), (TCM, 0))
    last = copy(builder, (TCM, 0), (HBM, 64))
    assert backward_slice(builder.log(), [(HBM, 64, 1, 8, 8)]) == {second, last}


def test_a_write_that_is_overwritten_in_part_is_inside():
    builder = LogBuilder()
    first = copy(builder, (HBM, 0), (HBM, 64))
    second = copy(builder, (HBM, 8), (HBM, 68))
    log = builder.log()
    assert backward_slice(log, [(HBM, 64, 1, 12, 12)]) == {first, second}
    assert backward_slice(log, [(HBM, 68, 1, 8, 8)]) == {second}


def test_an_output_may_reach_beyond_what_the_log_touches():
    builder = LogBuilder()
    only = copy(builder, (HBM, 0), (HBM, 64))
    log = builder.log()
    assert backward_slice(log, [(HBM, 70, 4, 100, 200)]) == {only}
    assert backward_slice(log, [(HBM, 72, 4, 100, 200), (TCM, 0, 1, 4, 4)]) == set()


@pytest.mark.parametrize("tile", [(4, 4, 4), (5, 3, 2)])
def test_every_op_of_a_gemm_is_in_the_slice_of_its_output(tile):
    problem = GemmProblem(9, 7, 6, tile)
    log = problem.log()
    assert backward_slice(log, [problem.output]) == set(range(log.n_ops))


def test_the_slice_of_one_output_tile_is_that_tile():
    problem = GemmProblem(8, 8, 8, (4, 4, 4))
    log = problem.log()
    owner, offset, _, _, stride = problem.output
    tile_ids = {0, 1}
    expected = {record.op_id for record in log.records() if record.tile_id in tile_ids}
    assert backward_slice(log, [(owner, offset, 4, 8, stride)]) == expected


@pytest.mark.parametrize("problem", [EpilogueProblem(9, 7, 6, (4, 4, 4)), SoftmaxProblem(5, 6, 2)])
def test_every_math_op_is_in_the_slice_of_its_output(problem):
    log = problem.log()
    assert backward_slice(log, [problem.output]) == set(range(log.n_ops))


def test_the_slice_of_a_row_of_a_softmax_is_its_block():
    problem = SoftmaxProblem(5, 6, 2)
    log = problem.log()
    owner, offset, _, nbytes, stride = problem.output
    expected = {record.op_id for record in log.records() if record.tile_id == 1}
    assert backward_slice(log, [(owner, offset + 3 * stride, 1, nbytes, stride)]) == expected
