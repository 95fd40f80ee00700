"""Fused mode gives the same bytes and errors as tile mode, even on logs that no simulator would write."""

import numpy as np
import pytest
from dataexec_gemm_log import HBM, REG, TCM, GemmProblem, LogBuilder, move
from dataexec_random_log import (
    add_gemm,
    add_math,
    add_move,
    add_record,
    new_memory,
    one_move,
    outcome,
    outcome_of_one_window,
    records,
    resolves,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_cases import examples

from kb_dataexec.backends.numpy_backend import NumpyBackend
from kb_dataexec.execute.executor import Executor
from kb_dataexec.execute.fused.accesses import producers
from kb_dataexec.execute.fused.products import grid_product
from kb_dataexec.ops.gemm import product
from kb_dataexec.verify.tolerance import gemm_tolerance
from kb_messages import DType, OpKind, Role


@pytest.mark.parametrize("fuse_from", [2, 5])
@settings(max_examples=examples(200))
@given(st.lists(records, min_size=2, max_size=16), st.integers(1, 4))
def test_fused_and_tile_mode_leave_the_same_bytes_or_the_same_error(fuse_from, history, tiles):
    builder = LogBuilder()
    for number, record in enumerate(history):
        place = (number // 8, number // tiles % tiles + number // 8, number)
        add_record(builder, place, record)
    log = builder.log()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(producers, "_WORTH_THREADS", 1 if fuse_from == 2 else 1 << 14)
        assert outcome(log, "fused", fuse_from) == outcome(log, "tile")


def test_a_value_that_is_overwritten_whole_needs_no_splitting():
    builder = LogBuilder()
    for offset in (0, 8):
        one_move(builder, (HBM, offset), (TCM, 0))
        one_move(builder, (TCM, 0), (HBM, 64 + offset))
    assert resolves(builder.log())


@pytest.mark.parametrize("release", [0, 1])
@pytest.mark.parametrize("second", [(2, 2, 2), (4, 4, 4)])
def test_a_tile_of_another_size_may_reuse_a_buffer(release, second):
    builder = LogBuilder()
    for shape, target in (((3, 4, 4), 64), (second, 80)):
        one_move(builder, (HBM, 0), (TCM, 0), shape=shape)
        one_move(builder, (TCM, 0), (HBM, target), release=release, shape=shape)
    outcome_of_one_window(builder)


@pytest.mark.parametrize("second", [4, 7])
@pytest.mark.parametrize("first_byte", [0, 2])
def test_a_read_across_two_writes_and_the_memory_before_them_resolves(second, first_byte):
    """Bytes 0 to 7 of TCM, and a part of 4 to 10 over them; bytes to 13 are as they were before."""
    builder = LogBuilder()
    one_move(builder, (HBM, 0), (TCM, 0), shape=(1, 8, 8))
    one_move(builder, (HBM, 0), (TCM, second), shape=(1, 4, 4))
    one_move(builder, (TCM, first_byte), (HBM, 64), shape=(3, 4, 4))
    outcome_of_one_window(builder)


def test_an_op_may_write_bytes_twice():
    """The second pair writes over the last half of the first."""
    builder = LogBuilder()
    shape = (2, 4, 4)
    pairs = [((HBM, 0), (TCM, 0), shape, 0, DType.I8), ((HBM, 16), (TCM, 4), shape, 0, DType.I8)]
    add_move(builder, (0, 0, 0), pairs)
    one_move(builder, (TCM, 0), (HBM, 64), shape=(3, 4, 4))
    outcome_of_one_window(builder)


def test_bytes_that_a_part_of_a_value_released_stay_uninitialised():
    """The value in TCM 0 to 7 is left in 0 to 3 alone: 4 to 7 were read and released, and partly written again."""
    builder = LogBuilder()
    one_move(builder, (HBM, 0), (TCM, 0), shape=(1, 8, 8))
    one_move(builder, (TCM, 4), (HBM, 64), release=1, shape=(1, 4, 4))
    one_move(builder, (HBM, 8), (TCM, 6), shape=(1, 2, 2))
    after = outcome_of_one_window(builder)
    assert [byte >= 0 for byte in after[1][:8]] == [True] * 4 + [False] * 2 + [True] * 2


def test_a_read_of_released_bytes_is_split():
    builder = LogBuilder()
    one_move(builder, (HBM, 0), (TCM, 0), shape=(1, 8, 8))
    one_move(builder, (TCM, 4), (HBM, 64), release=1, shape=(1, 4, 4))
    one_move(builder, (TCM, 0), (HBM, 72), shape=(1, 8, 8))
    assert not resolves(builder.log())


def test_a_partial_sum_that_is_read_in_part_stays_a_sum():
    """Columns of the accumulator are read between two products that add to it."""
    builder = LogBuilder()
    add_gemm(builder, (0, 0, 0), ((HBM, 0), (HBM, 8), (REG, 0), 0, 0, False, False))
    add_move(builder, (0, 0, 1), [((REG, 4), (HBM, 64), (2, 4, 8), 0, DType.I8)])
    add_gemm(builder, (0, 0, 2), ((HBM, 8), (HBM, 16), (REG, 0), 0, 0, True, False))
    one_move(builder, (HBM, 40), (REG, 12), shape=(1, 4, 4))
    outcome_of_one_window(builder)


def test_interleaved_columns_resolve_together():
    builder = LogBuilder()
    for column in (0, 4):
        one_move(builder, (HBM, 0), (TCM, column), shape=(1, 4, 4))
    for column in (0, 4):
        sides = [move(Role.SRC, TCM, column, 1, 4, 4, DType.I8), move(Role.DST, HBM, 64 + column, 1, 4, 4, DType.I8)]
        builder.add((0, 0, len(builder.ops)), OpKind.MEMORY, "move", sides)
    assert resolves(builder.log())


@pytest.mark.parametrize(("hole", "is_read"), [(3, True), (5, True), (20, True), (29, True), (8, False), (27, False)])
def test_rectangles_side_by_side_are_checked_to_the_byte_and_no_further(hole, is_read):
    """Rows 0 and 1, 16 bytes apart: the columns 0 to 3, 4 to 7 and 12 to 15 are read, of which the last are kept."""
    builder = LogBuilder()
    for column in (0, 4, 12):
        one_move(builder, (HBM, column), (TCM, 0), shape=(2, 4, 16))
    memory = new_memory()
    memory.release(HBM, hole, 1, 1, 1)
    assert resolves(builder.log(), memory) is not is_read


def test_math_on_products_and_on_math_resolves():
    builder = LogBuilder()
    add_gemm(builder, (0, 0, 0), ((HBM, 0), (HBM, 8), (REG, 0), 0, 0, False, False))
    add_gemm(builder, (0, 0, 1), ((HBM, 8), (HBM, 16), (REG, 0), 0, 0, True, False))
    once, again, rounded = ((REG, 0), DType.I32, 0), ((REG, 0), DType.I32, 1), ((REG, 32), DType.I8, 1)
    add_math(builder, (0, 0, 2), {"op": "mul", "inputs": [again, once], "out": rounded})
    add_math(builder, (0, 0, 3), {"op": "neg", "inputs": [rounded], "out": ((HBM, 48), DType.I8, 0)})
    outcome_of_one_window(builder)


def test_a_product_of_which_a_factor_was_computed_in_part_resolves():
    """The first row of A is computed, the second is as it was before."""
    builder = LogBuilder()
    add_math(builder, (0, 0, 0), {"op": "neg", "inputs": [((HBM, 0), DType.I8, 0)], "out": ((TCM, 0), DType.I8, 0)})
    add_gemm(builder, (0, 0, 1), ((TCM, 0), (HBM, 8), (REG, 0), 0, 0, False, False))
    outcome_of_one_window(builder)


@pytest.mark.parametrize(
    ("side", "threads", "parts"),
    [
        # Lines of tiles of 8, 8, 8 and 6 rows, chains of tiles of 8, 8 and 4 columns; a block has at least one of each.
        (1, 2, [(6, 4), (6, 8), (6, 8), *[(8, 4)] * 3, *[(8, 8)] * 6]),
        (16, 2, [(14, 4), (14, 16), (16, 4), (16, 16)]),
        (16, 5, [(30, 20)]),  # four blocks would leave a thread without work
        (1000, 1, [(30, 20)]),
    ],
)
def test_a_product_in_blocks_is_the_same(monkeypatch, side, threads, parts):
    problem = GemmProblem(30, 20, 24, (8, 8, 8))
    monkeypatch.setattr(grid_product, "_BLOCK", (side, side))
    monkeypatch.setattr(grid_product, "WORKERS", threads)
    counted = []
    monkeypatch.setattr(grid_product, "product", lambda a, b: counted.append((len(a), b.shape[1])) or product(a, b))
    store = Executor(problem.log(), problem.memory(), "fused").run()
    expected, scale = problem.expected()
    assert (np.abs(problem.result(store) - expected) <= gemm_tolerance(expected, scale, 24, DType.F16)).all()
    assert sorted(counted) == parts


def test_a_backend_that_needs_all_cores_gets_whole_products(monkeypatch):
    class Greedy(NumpyBackend):
        shares_cores = False

    problem = GemmProblem(30, 20, 24, (8, 8, 8))
    monkeypatch.setattr(grid_product, "_BLOCK", (1, 1))
    counted = []
    monkeypatch.setattr(grid_product, "product", lambda a, b: counted.append(len(a)) or product(a, b))
    Executor(problem.log(), problem.memory(), "fused", Greedy()).run()
    assert counted == [30]
