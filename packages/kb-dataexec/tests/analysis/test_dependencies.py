import numpy as np
import pytest
from dataexec_gemm_log import HBM, TCM, GemmProblem, LogBuilder, move
from dataexec_math_log import EpilogueProblem, SoftmaxProblem
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_cases import examples

from kb_dataexec.analysis.dependencies import DependencyKind as Kind
from kb_dataexec.analysis.dependencies import backward_slice, dependencies
from kb_messages import DType, LogError, OpKind, Rectangle, Role

at = Rectangle.of_memory


def copy(builder, source, target):
    """One row of 8 bytes from (owner, offset) to (owner, offset)."""
    sides = [move(role, *at, 1, 8, 8, DType.U8) for role, at in ((Role.SRC, source), (Role.DST, target))]
    return builder.add((len(builder.ops), 0, 0), OpKind.MEMORY, "copy", sides)


def test_the_slice_follows_bytes_backwards():
    builder = LogBuilder()
    first = copy(builder, (HBM, 0), (TCM, 0))
    copy(builder, (HBM, 8), (TCM, 8))
    last = copy(builder, (TCM, 0), (HBM, 64))
    assert backward_slice(builder.log(), [at(HBM, 68, 1, 1, 1)]) == {first, last}


def test_a_write_that_is_overwritten_before_it_is_read_is_outside():
    builder = LogBuilder()
    copy(builder, (HBM, 0), (TCM, 0))
    second = copy(builder, (HBM, 8), (TCM, 0))
    last = copy(builder, (TCM, 0), (HBM, 64))
    assert backward_slice(builder.log(), [at(HBM, 64, 1, 8, 8)]) == {second, last}


def test_a_write_that_is_overwritten_in_part_is_inside():
    builder = LogBuilder()
    first = copy(builder, (HBM, 0), (HBM, 64))
    second = copy(builder, (HBM, 8), (HBM, 68))
    log = builder.log()
    assert backward_slice(log, [at(HBM, 64, 1, 12, 12)]) == {first, second}
    assert backward_slice(log, [at(HBM, 68, 1, 8, 8)]) == {second}


def test_an_output_may_reach_beyond_what_the_log_touches():
    builder = LogBuilder()
    only = copy(builder, (HBM, 0), (HBM, 64))
    log = builder.log()
    assert backward_slice(log, [at(HBM, 70, 4, 100, 200)]) == {only}
    assert backward_slice(log, [at(HBM, 72, 4, 100, 200), at(TCM, 0, 1, 4, 4)]) == set()


@pytest.mark.parametrize("tile", [(4, 4, 4), (5, 3, 2)])
def test_every_op_of_a_gemm_is_in_the_slice_of_its_output(tile):
    problem = GemmProblem(9, 7, 6, tile)
    log = problem.log()
    assert backward_slice(log, [at(*problem.output)]) == set(range(log.n_ops))


def test_the_slice_of_one_output_tile_is_that_tile():
    problem = GemmProblem(8, 8, 8, (4, 4, 4))
    log = problem.log()
    owner, offset, _, _, stride = problem.output
    tile_ids = {0, 1}
    expected = {record.op_id for record in log.records() if record.tile_id in tile_ids}
    assert backward_slice(log, [at(owner, offset, 4, 8, stride)]) == expected


@pytest.mark.parametrize("problem", [EpilogueProblem(9, 7, 6, (4, 4, 4)), SoftmaxProblem(5, 6, 2)])
def test_every_math_op_is_in_the_slice_of_its_output(problem):
    log = problem.log()
    assert backward_slice(log, [at(*problem.output)]) == set(range(log.n_ops))


def test_the_slice_of_a_row_of_a_softmax_is_its_block():
    problem = SoftmaxProblem(5, 6, 2)
    log = problem.log()
    owner, offset, _, nbytes, stride = problem.output
    expected = {record.op_id for record in log.records() if record.tile_id == 1}
    assert backward_slice(log, [at(owner, offset + 3 * stride, 1, nbytes, stride)]) == expected


few_places = st.tuples(st.sampled_from([HBM, TCM]), st.integers(0, 40))
few_shapes = st.sampled_from(
    [(1, 4, 4), (1, 9, 9), (3, 4, 8), (3, 2, 8), (2, 8, 8), (4, 3, 12), (2, 6, 4), (5, 1, 16), (3, 5, 0)]
)
accesses = st.lists(st.tuples(few_places, few_shapes, st.sampled_from([0, 0, 1])), min_size=1, max_size=4)


def by_definition(log):
    """{(follower, producer): kind} from the sets of bytes, pair by pair."""
    touched = []
    for record in log.records():
        reads, writes = set(), set()
        for each in record.operands:
            starts = (each.offset + row * each.stride for row in range(each.rows))
            found = {(each.owner, start + byte) for start in starts for byte in range(each.row_nbytes)}
            if not each.role.is_write:
                reads |= found
            if each.role.is_write or each.release:
                writes |= found
        touched.append((reads, writes))
    expected = {}
    for later, (reads, writes) in enumerate(touched):
        seen = set()
        for earlier in range(later - 1, -1, -1):
            old_reads, old_writes = (found - seen for found in touched[earlier])
            kind = Kind(0)
            kind |= Kind.RAW if reads & old_writes else 0
            kind |= Kind.WAR if writes & old_reads else 0
            kind |= Kind.WAW if writes & old_writes else 0
            if kind:
                expected[later, earlier] = kind
            seen |= touched[earlier][1]
    return expected


def as_dict(found):
    followers = np.repeat(np.arange(len(found.op_id)), np.diff(found.first)).tolist()
    return dict(zip(zip(followers, found.producer.tolist(), strict=True), map(Kind, found.kind.tolist()), strict=True))


@settings(max_examples=examples(300))
@given(st.lists(accesses, min_size=1, max_size=12))
def test_dependencies_are_those_of_the_definition(history):
    builder = LogBuilder()
    for number, record in enumerate(history):
        rows = []
        for (owner, offset), (n, nbytes, stride), release in record:
            rows += [move(Role.SRC, owner, offset, n, nbytes, stride, DType.U8, release)]
            rows += [move(Role.DST, owner, offset // 2, n, nbytes, stride, DType.U8)]
        builder.add((number, 0, 0), OpKind.MEMORY, "move", rows)
    log = builder.log()
    assert as_dict(dependencies(log)) == by_definition(log)


def test_dependencies_follow_command_order_not_the_order_of_the_rows():
    builder = LogBuilder()
    for seq, (source, target) in ((1, (8, 16)), (0, (0, 8))):
        sides = [move(role, HBM, at, 1, 8, 8, DType.U8) for role, at in ((Role.SRC, source), (Role.DST, target))]
        builder.add((seq, 0, 0), OpKind.MEMORY, "copy", sides)
    found = dependencies(builder.log())
    assert found.op_id.tolist() == [1, 0]
    assert as_dict(found) == {(1, 0): Kind.RAW}


def test_an_explicit_dependency_joins_those_of_the_bytes():
    builder = LogBuilder()
    copy(builder, (HBM, 0), (TCM, 0))
    copy(builder, (TCM, 0), (HBM, 64))
    copy(builder, (HBM, 8), (TCM, 64))
    log = builder.log()
    assert as_dict(dependencies(log, [(1, 0), (2, 0)])) == {
        (1, 0): Kind.RAW | Kind.EXPLICIT,
        (2, 0): Kind.EXPLICIT,
    }


@pytest.mark.parametrize("pair", [(0, 1), (1, 1), (1, 7), (7, 0)])
def test_an_explicit_dependency_is_on_an_earlier_op(pair):
    builder = LogBuilder()
    copy(builder, (HBM, 0), (TCM, 0))
    copy(builder, (HBM, 8), (TCM, 8))
    with pytest.raises(LogError) as error:
        dependencies(builder.log(), [pair])
    assert str(error.value) == (
        f"explicit dependencies: got op {pair[0]} after op {pair[1]}, needs ops of the log, the second an earlier one"
    )


def test_an_empty_log_has_no_dependencies():
    assert as_dict(dependencies(LogBuilder().log())) == {}
