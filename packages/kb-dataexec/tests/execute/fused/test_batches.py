"""A batch gives the same bytes as one op at a time."""

import numpy as np
import pytest
from dataexec_gemm_log import HBM, REG, REGIONS, TCM, LogBuilder, move
from dataexec_math_log import params

from kb_dataexec.arrays.dtypes import cast, numpy_dtype
from kb_dataexec.execute.executor import Executor
from kb_dataexec.execute.fused import batches
from kb_dataexec.log.rows import Op, OperandRow
from kb_dataexec.memory.store import MemoryStore
from kb_dataexec.ops.gemm import product
from kb_dataexec.ops.math import FUNCTIONS, decode
from kb_dataexec.ops.stacks import gemm_on_stacks, math_on_stacks
from kb_messages import DType, GemmAttributes, OpKind, Role, has_own_form

COUNT = 7
SHAPES = [(1, 1), (1, 33), (5, 1), (3, 17), (16, 64)]


def math_of(op, shapes, axis=None, dtype=DType.F32):
    shape = np.broadcast_shapes(*shapes)
    out = shape if not FUNCTIONS[op].reduces else (1, shape[1]) if axis == 0 else (shape[0], 1)
    rows = [OperandRow(Role.IN, REG, 0, r, c * dtype.nbytes, c * dtype.nbytes, dtype, 0) for r, c in shapes]
    target = OperandRow(Role.OUT, REG, 0, out[0], out[1] * dtype.nbytes, out[1] * dtype.nbytes, dtype, 0)
    return decode(Op(0, OpKind.MATH, "math", "pe0", "k.py:1", params(op, axis), [*rows, target]))


def stacks_of(shapes, dtype):
    rng = np.random.default_rng(0)
    found = [cast(rng.uniform(-4, 4, (COUNT, *shape)), dtype) for shape in shapes]
    for stack in found:
        stack.reshape(COUNT, -1)[::2, 0] = -0.0
    return found


@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        (op, dtype)
        for op, function in sorted(FUNCTIONS.items())
        if not (function.generates or function.spreads or has_own_form(op) or op == "philox")
        for dtype in ((DType.I8, DType.I32) if function.int_only else (DType.F32, DType.BF16))
    ],
)
def test_a_stack_gives_the_bytes_of_its_values_one_by_one(op, dtype):
    """Not for `philox`, two of whose arguments are scalars."""
    function = FUNCTIONS[op]
    for shape in SHAPES:
        for axis in (0, 1) if function.has_axis else (None,):
            others = [shape, (1, shape[1]), (shape[0], 1)]
            for second in others if function.arity > 1 else [shape]:
                shapes = [shape, second, shape][: function.arity]
                math, stacks = math_of(op, shapes, axis, dtype), stacks_of(shapes, dtype)
                together = math_on_stacks(math, stacks)
                single = np.stack([math.evaluate([stack[nth] for stack in stacks]) for nth in range(COUNT)])
                assert together.tobytes() == single.tobytes()
                assert together.shape == single.shape


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.I8])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("size", [(1, 5, 3), (4, 8, 8), (16, 7, 1)])
def test_a_stack_of_products_is_their_products(dtype, transposed, size):
    m, k, n = size
    shapes = (k, m) if transposed[0] else (m, k), (n, k) if transposed[1] else (k, n)
    a, b = stacks_of(shapes, dtype)
    acc = cast(stacks_of([(m, n)], dtype)[0], dtype.accumulator)
    attributes = GemmAttributes(accumulate=True, transpose_a=transposed[0], transpose_b=transposed[1])
    together = gemm_on_stacks(attributes, [a, b, acc])
    for nth in range(COUNT):
        single = product(a[nth].T if transposed[0] else a[nth], b[nth].T if transposed[1] else b[nth]) + acc[nth]
        assert together.dtype == single.dtype
        np.testing.assert_allclose(together[nth], single, rtol=0, atol=k * 32 * 2.0**-23 * dtype.is_float)


def rows_log(rows, cols):
    """y[i] = exp(x[i]) + exp(x[i]), through one buffer in registers that every row uses."""
    builder = LogBuilder()
    nbytes = cols * 4
    for row in range(rows):
        x, y = (HBM, row * nbytes), (HBM, (rows + row) * nbytes)
        places = [(row, 0, stage) for stage in range(4)]
        wide = (1, cols, cols, DType.F32)
        builder.add(places[0], OpKind.MEMORY, "load", [move(Role.SRC, *x, *wide), move(Role.DST, REG, 0, *wide)])
        both = [move(Role.IN, REG, 0, *wide, 1), move(Role.OUT, REG, 0, *wide)]
        builder.add(places[1], OpKind.MATH, "exp", both, params("exp"))
        twice = [move(Role.IN, REG, 0, *wide), move(Role.IN, REG, 0, *wide, 1), move(Role.OUT, REG, 4096, *wide)]
        builder.add(places[2], OpKind.MATH, "add", twice, params("add"))
        sides = [move(Role.SRC, REG, 4096, *wide, 1), move(Role.DST, *y, *wide)]
        builder.add(places[3], OpKind.MEMORY, "store", sides)
    return builder.log()


def x_memory(rows, cols):
    memory = MemoryStore(REGIONS)
    memory.write_tensor(HBM, 0, np.random.default_rng(1).standard_normal((rows, cols), dtype=np.float32))
    return memory


@pytest.mark.parametrize(
    ("segment", "most", "of_a_kind", "widest"),
    # A result takes 80 bytes, so a segment of 4096 has 51 of them, every other one an exponential. With 10 nodes of
    # each of two kinds a segment has 20 nodes, and not more than 8 if it may have 640 bytes.
    [(1, 1, 10, 1), (4096, 1, 10, 26), (1 << 22, 1, 10, 96), (1, 1 << 20, 10, 10), (1, 640, 10, 4)],
)
def test_rows_that_share_a_buffer_run_together(monkeypatch, segment, most, of_a_kind, widest):
    rows, cols = 96, 20
    log, memory = rows_log(rows, cols), x_memory(rows, cols)
    sizes = []
    monkeypatch.setattr(batches, "_SEGMENT_NBYTES", segment)
    monkeypatch.setattr(batches, "_LARGEST_SEGMENT_NBYTES", most)
    monkeypatch.setattr(batches, "_NODES_OF_A_KIND", of_a_kind)
    monkeypatch.setattr(
        batches, "math_on_stacks", lambda math, stacks: sizes.append(len(stacks[0])) or math_on_stacks(math, stacks)
    )
    after = Executor(log, memory).run()
    y = (HBM, rows * cols * 4, rows, cols * 4, cols * 4, DType.F32)
    assert after.read(*y).tobytes() == Executor(log, memory, "tile").run().read(*y).tobytes()
    assert max(sizes) == widest
    assert sum(sizes) == 2 * rows


def test_a_product_of_computed_factors_is_batched(monkeypatch):
    builder = LogBuilder()
    shape = (4, 4, 16, DType.F32)
    for tile in range(16):
        places = [(tile, 0, stage) for stage in range(3)]
        a = [move(Role.IN, HBM, tile * 64, *shape), move(Role.OUT, TCM, 0, *shape)]
        builder.add(places[0], OpKind.MATH, "exp", a, params("exp"))
        factors = [move(Role.A, TCM, 0, *shape, 1), move(Role.B, HBM, 0, *shape), move(Role.OUT, REG, 0, *shape)]
        builder.add(places[1], OpKind.GEMM, "gemm", factors)
        sides = [move(Role.SRC, REG, 0, *shape, 1), move(Role.DST, HBM, 4096 + tile * 64, *shape)]
        builder.add(places[2], OpKind.MEMORY, "store", sides)
    log, memory, sizes = builder.log(), x_memory(16, 16), []
    monkeypatch.setattr(batches, "gemm_on_stacks", lambda *both: sizes.append(len(both[1][0])) or gemm_on_stacks(*both))
    out = (HBM, 4096, 64, 16, 16, DType.F32)
    after = Executor(log, memory, fuse_from=2).run().read(*out)
    assert sizes == [16]
    np.testing.assert_allclose(after, Executor(log, memory, "tile").run().read(*out), rtol=1e-6)


def test_one_irregular_record_ends_in_tile_mode():
    """Windows of one record are not halved again."""
    builder = LogBuilder()
    builder.add(
        (0, 0, 0), OpKind.MATH, "math", [move(Role.OUT, REG, 0, 1, 4, 4, DType.F32)], params("copy", scalars=(2.0,))
    )
    operands = [move(Role.OUT, REG, 64, 1, 4, 4, DType.F32), move(Role.IN, REG, 0, 1, 4, 4, DType.F32)]
    builder.add((0, 0, 1), OpKind.MATH, "math", operands, params("neg"))
    after = Executor(builder.log(), MemoryStore(REGIONS), fuse_from=1).run().read(REG, 64, 1, 16, 16, DType.F32)
    assert after.tolist() == [[-2.0] * 4]
    assert after.dtype == numpy_dtype(DType.F32)
