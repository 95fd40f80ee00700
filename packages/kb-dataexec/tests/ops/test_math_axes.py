"""Reductions and scans of MATH records, along rows, columns and groups of rows."""

import numpy as np
import pytest
from dataexec_gemm_log import HBM, REG, REGIONS, LogBuilder
from dataexec_math_records import BITS, REDUCTIONS, SCANS, apply, column
from dataexec_math_values import attributes, values, whole

from kb_dataexec.execute.executor import Executor
from kb_dataexec.memory.store import MemoryStore
from kb_messages import DType, OpKind, Role


@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16, DType.I8])
def test_a_reduction_keeps_its_axis_with_length_1(op, axis, dtype):
    x = values(dtype)
    expected = REDUCTIONS[op](x.astype(np.float64), axis=axis, keepdims=True)
    assert apply(op, x, axis=axis, shape=expected.shape) == pytest.approx(expected, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_sum_adds_pairwise_along_either_axis(axis):
    x = np.full((1, 4096), 0.1, np.float32) if axis else np.full((4096, 1), 0.1, np.float32)
    store = MemoryStore(REGIONS)
    store.write_tensor(HBM, 0, np.repeat(x, 2, axis=1 - axis))
    shape, out = ((2, 4096), (2, 1)) if axis else ((4096, 2), (1, 2))
    builder = LogBuilder()
    operands = [whole(Role.IN, HBM, 0, shape, DType.F32), whole(Role.OUT, REG, 0, out, DType.F32)]
    builder.add((0, 0, 0), OpKind.MATH, "sum", operands, attributes("sum", axis))
    got = Executor(builder.log(), store, "tile").run().read(REG, 0, 1, 8, 8, DType.F32)
    assert np.abs(got.astype(np.float64) - 4096 * float(np.float32(0.1))).max() <= 2 * 12 * 2.0**-24 * 409.6


GROUPS = [(6, 1), (3, 1), (2, 3), (1, 2), (3, 2), (12, 1)]


def in_groups(x, n, step):
    """*x* with the rows of a group along axis 1 of four."""
    return x.reshape(-1, n, step, x.shape[1])


@pytest.mark.parametrize(("n", "step"), GROUPS)
@pytest.mark.parametrize("dtype", [DType.F32, DType.I32])
def test_a_reduction_over_groups_of_rows(n, step, dtype):
    x = values(dtype, (12, 5), low=-9.0, high=9.0)
    for op, function in {"sum": np.sum, "max": np.max, "argmin": np.argmin}.items():
        wanted = function(in_groups(x, n, step), axis=1).reshape(-1, 5)
        out = DType.I32 if op == "argmin" else dtype
        found = apply(op, x, axis=0, group=(n, step), shape=wanted.shape, out=out)
        assert found == pytest.approx(wanted, rel=1e-6, abs=1e-5)


@pytest.mark.parametrize(("n", "step"), GROUPS)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_along_groups_of_rows(n, step, reverse):
    x = values(DType.I32, (12, 5), low=-9.0, high=9.0)
    turned = np.flip(in_groups(x, n, step), 1) if reverse else in_groups(x, n, step)
    wanted = np.cumsum(turned, axis=1)
    wanted = (np.flip(wanted, 1) if reverse else wanted).reshape(12, 5)
    assert (apply("cumsum", x, axis=0, group=(n, step), out=DType.I32, reverse=reverse) == wanted).all()


def test_spread_repeats_groups_of_rows():
    x = values(DType.F16, (6, 5))
    wanted = np.repeat(x.reshape(3, 1, 2, 5), 4, axis=1).reshape(24, 5)
    assert (apply("spread", x, group=(4, 2), shape=(24, 5), out=DType.F16) == wanted).all()
    assert (apply("spread", x, group=(1, 6), shape=(6, 5), out=DType.F32) == x).all()


@pytest.mark.parametrize("op", SCANS)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16, DType.I32])
def test_a_scan_goes_along_its_axis_and_back(op, axis, dtype):
    x = values(dtype, low=0.5)
    wide = x.astype(np.float64 if dtype.is_float else np.int64)
    assert apply(op, x, axis=axis, out=dtype.accumulator) == pytest.approx(SCANS[op](wide, axis=axis), rel=1e-5)
    back = np.flip(SCANS[op](np.flip(wide, axis), axis=axis), axis)
    assert apply(op, x, axis=axis, out=dtype.accumulator, reverse=True) == pytest.approx(back, rel=1e-5)


@pytest.mark.parametrize("op", BITS)
@pytest.mark.parametrize("axis", [0, 1])
def test_bits_are_reduced_along_an_axis(op, axis):
    x = np.random.default_rng(4).integers(-(2**31), 2**31, (5, 7)).astype(np.int32)
    found = apply(op, x, axis=axis, out=DType.I32, shape=(1, 7) if axis == 0 else (5, 1))
    assert found.tolist() == BITS[op].reduce(x, axis=axis, keepdims=True).tolist()


def test_the_lowest_index_of_an_extreme_is_found():
    x = np.array([[3, 7, 7], [7, 1, 1]], np.float16)
    assert apply("argmax", x, axis=1, out=DType.I32, shape=(2, 1)).tolist() == [[1], [0]]
    assert apply("argmin", x, axis=1, out=DType.I32, shape=(2, 1)).tolist() == [[0], [1]]
    assert apply("argmax", x, axis=0, out=DType.I32, shape=(1, 3)).tolist() == [[1, 0, 0]]
    assert apply("argmax", column(1, np.nan, 5, dtype=np.float32), axis=1, out=DType.I32, shape=(1, 1)) == 1


def test_functions_among_numbers_leave_out_nan():
    x = np.array([[np.nan, 3, np.nan, 7, 7, -1], [np.nan] * 6], np.float32)
    sided = {"axis": 1, "shape": (2, 1)}
    np.testing.assert_array_equal(apply("max_number", x, **sided), [[7], [np.nan]])
    np.testing.assert_array_equal(apply("min_number", x, **sided), [[-1], [np.nan]])
    assert apply("argmax_number", x, out=DType.I32, **sided).tolist() == [[3], [0]]
    assert apply("argmin_number", x, out=DType.I32, **sided).tolist() == [[5], [0]]
    np.testing.assert_array_equal(apply("cummax_number", x, axis=1)[0], [np.nan, 3, 3, 7, 7, 7])
    np.testing.assert_array_equal(apply("cummin_number", x, axis=1)[0], [np.nan, 3, 3, 3, 3, -1])
    np.testing.assert_array_equal(apply("maximum_number", x[:1], x[1:]), x[:1])
    np.testing.assert_array_equal(apply("minimum_number", x[1:], x[:1]), x[:1])
