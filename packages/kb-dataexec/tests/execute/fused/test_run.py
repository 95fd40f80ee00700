"""Fused mode gives the same bytes and errors as tile mode, even on logs that no simulator would write."""

import numpy as np
import pytest
from dataexec_gemm_log import HBM, REG, TCM, GemmProblem, LogBuilder, move
from hypothesis import given, settings
from hypothesis import strategies as st

from kb_dataexec.backends.numpy_backend import NumpyBackend
from kb_dataexec.execute.executor import Executor
from kb_dataexec.execute.fused import grid_product, producers
from kb_dataexec.execute.fused import run as fused
from kb_dataexec.log.schedule import Schedule
from kb_dataexec.memory.store import MemoryStore, StoreError
from kb_dataexec.ops.gemm import product
from kb_dataexec.ops.math import FUNCTIONS
from kb_dataexec.verify.tolerance import gemm_tolerance
from kb_messages import DType, KbError, OpKind, Role

SIZE = 96
OWNERS = (HBM, TCM, REG)
places = st.tuples(st.sampled_from(OWNERS), st.sampled_from([0, 4, 8, 16, 16, 32, 32, 48]))
released = st.sampled_from([0, 0, 0, 1])
shapes = st.sampled_from([(1, 4, 4), (1, 8, 8), (2, 4, 4), (2, 4, 8), (4, 4, 8), (2, 2, 4)])
pairs = st.tuples(places, places, shapes, released, st.sampled_from([DType.I8, DType.I8, DType.I8, DType.I16]))
results = st.sampled_from([(REG, 0), (REG, 0), (REG, 32), (TCM, 16), (HBM, 48)])
gemms = st.tuples(places, places, results, released, released, st.booleans(), st.booleans())
elements = st.sampled_from([DType.I8, DType.I32, DType.I32])
inputs = st.tuples(st.one_of(places, results), elements, released)
ops = st.sampled_from(["copy", "neg", "add", "mul", "maximum", "fma"])
maths = st.fixed_dictionaries({"op": ops, "inputs": st.tuples(inputs, inputs, inputs), "out": inputs})
records = st.one_of(st.lists(pairs, min_size=1, max_size=2), gemms, maths)


def new_memory():
    memory = MemoryStore([(owner, SIZE, str(owner)) for owner in OWNERS])
    for number, owner in enumerate(OWNERS):
        memory.write(owner, 0, (np.arange(SIZE) * (7 + number) % 251).astype(np.uint8).tobytes())
    return memory


def add_move(builder, place, moves):
    operands = []
    for source, target, (rows, nbytes, stride), release, dtype in moves:
        cols = nbytes // dtype.nbytes
        operands.append(move(Role.SRC, *source, rows, cols, stride, dtype, release))
        operands.append(move(Role.DST, *target, rows, cols, cols, DType.I8))
    builder.add(place, OpKind.MEMORY, "move", operands)


def add_gemm(builder, place, gemm):
    a, b, out, release_a, release_b, accumulate, transposed = gemm
    operands = [
        move(Role.A, *a, 2, 4, 4, DType.I8, release_a),
        move(Role.B, *b, 2, 4, 4, DType.I8, release_b)
        if transposed
        else move(Role.B, *b, 4, 2, 2, DType.I8, release_b),
        *([move(Role.ACC, *out, 2, 2, 8, DType.I32)] if accumulate else []),
        move(Role.OUT, *out, 2, 2, 8, DType.I32),
    ]
    flags = ['"accumulate":true'] * accumulate + ['"transpose_b":true'] * transposed
    builder.add(place, OpKind.GEMM, "gemm", operands, "{" + ",".join(flags) + "}")


def add_math(builder, place, math):
    """2 x 2 elements; i32 ones lie as the accumulators of `add_gemm`."""
    used = math["inputs"][: FUNCTIONS[math["op"]].arity]
    operands = [move(Role.IN, *at, 2, 2, 2 * dtype.nbytes, dtype, release) for at, dtype, release in used]
    at, dtype, _ = math["out"]
    out = move(Role.OUT, *at, 2, 2, 2 * dtype.nbytes, dtype)
    builder.add(place, OpKind.MATH, "math", [*operands, out], f'{{"op":"{math["op"]}"}}')


def add_record(builder, place, record):
    add = {list: add_move, tuple: add_gemm, dict: add_math}[type(record)]
    add(builder, place, record)


def outcome(log, mode, fuse_from=2):
    """Every byte of every memory, -1 where it is not initialised; or the text of the error."""
    try:
        store = Executor(log, new_memory(), mode, fuse_from=fuse_from).run()
    except KbError as error:
        return f"{type(error).__name__}: {error}"
    return [[byte_at(store, owner, at) for at in range(SIZE)] for owner in OWNERS]


def byte_at(store, owner, at):
    try:
        return int(store.read(owner, at, 1, 1, 1, DType.U8)[0, 0])
    except StoreError:
        return -1


@pytest.mark.parametrize("fuse_from", [2, 5])
@settings(max_examples=200)
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


def resolves(builder, memory=None) -> bool:
    """Whether the whole log runs as one fused window."""
    schedule = Schedule(builder.log())
    return fused._run_window(schedule, memory or new_memory(), 0, len(schedule.ops))


def one_move(builder, source, target, release=0, shape=(2, 4, 4)):
    add_move(builder, (0, 0, len(builder.ops)), [(source, target, shape, release, DType.I8)])


def test_a_value_that_is_overwritten_whole_needs_no_splitting():
    builder = LogBuilder()
    for offset in (0, 8):
        one_move(builder, (HBM, offset), (TCM, 0))
        one_move(builder, (TCM, 0), (HBM, 64 + offset))
    assert resolves(builder)


@pytest.mark.parametrize("release", [0, 1])
def test_a_smaller_tile_may_reuse_a_buffer_that_was_released(release):
    builder = LogBuilder()
    for shape, target in (((4, 4, 4), 64), ((2, 2, 2), 80)):
        one_move(builder, (HBM, 0), (TCM, 0), shape=shape)
        one_move(builder, (TCM, 0), (HBM, target), release=release, shape=shape)
    assert resolves(builder) is bool(release)


def test_a_larger_tile_may_be_written_over_one_that_is_not_released():
    builder = LogBuilder()
    for shape, target in (((2, 2, 2), 64), ((4, 4, 4), 80)):
        one_move(builder, (HBM, 0), (TCM, 0), shape=shape)
        one_move(builder, (TCM, 0), (HBM, target), shape=shape)
    assert resolves(builder)


@pytest.mark.parametrize("second", [4, 7])
def test_a_read_across_two_writes_is_split(second):
    builder = LogBuilder()
    one_move(builder, (HBM, 0), (TCM, 0), shape=(1, 8, 8))
    one_move(builder, (HBM, 0), (TCM, second), shape=(1, 4, 4))
    one_move(builder, (TCM, 0), (HBM, 64), shape=(1, 8, 8))
    assert not resolves(builder)


def test_interleaved_columns_resolve_together():
    builder = LogBuilder()
    for column in (0, 4):
        one_move(builder, (HBM, 0), (TCM, column), shape=(1, 4, 4))
    for column in (0, 4):
        sides = [move(Role.SRC, TCM, column, 1, 4, 4, DType.I8), move(Role.DST, HBM, 64 + column, 1, 4, 4, DType.I8)]
        builder.add((0, 0, len(builder.ops)), OpKind.MEMORY, "move", sides)
    assert resolves(builder)


@pytest.mark.parametrize(("hole", "is_read"), [(3, True), (5, True), (20, True), (29, True), (8, False), (27, False)])
def test_rectangles_side_by_side_are_checked_to_the_byte_and_no_further(hole, is_read):
    """Rows 0 and 1, 16 bytes apart: the columns 0 to 3, 4 to 7 and 12 to 15 are read, of which the last are kept."""
    builder = LogBuilder()
    for column in (0, 4, 12):
        one_move(builder, (HBM, column), (TCM, 0), shape=(2, 4, 16))
    memory = new_memory()
    memory.release(HBM, hole, 1, 1, 1)
    assert resolves(builder, memory) is not is_read


def test_math_on_products_and_on_math_resolves():
    builder = LogBuilder()
    add_gemm(builder, (0, 0, 0), ((HBM, 0), (HBM, 8), (REG, 0), 0, 0, False, False))
    add_gemm(builder, (0, 0, 1), ((HBM, 8), (HBM, 16), (REG, 0), 0, 0, True, False))
    once, again, rounded = ((REG, 0), DType.I32, 0), ((REG, 0), DType.I32, 1), ((REG, 32), DType.I8, 1)
    add_math(builder, (0, 0, 2), {"op": "mul", "inputs": [again, once], "out": rounded})
    add_math(builder, (0, 0, 3), {"op": "neg", "inputs": [rounded], "out": ((HBM, 48), DType.I8, 0)})
    assert resolves(builder)
    assert outcome(builder.log(), "fused") == outcome(builder.log(), "tile")


def test_a_product_whose_factor_was_computed_is_split():
    builder = LogBuilder()
    add_math(builder, (0, 0, 0), {"op": "neg", "inputs": [((HBM, 0), DType.I8, 0)], "out": ((TCM, 0), DType.I8, 0)})
    add_gemm(builder, (0, 0, 1), ((TCM, 0), (HBM, 8), (REG, 0), 0, 0, False, False))
    assert not resolves(builder)


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
