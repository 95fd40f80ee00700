import math
import re
import warnings
from fractions import Fraction

import numpy as np
import pytest
from dataexec_gemm_log import HBM, REG, REGIONS, TCM, LogBuilder
from dataexec_math_values import STEP, attributes, inputs_of, values, whole
from hypothesis import given, settings
from hypothesis import strategies as st

from kb_dataexec.arrays import special
from kb_dataexec.arrays.dtypes import cast
from kb_dataexec.execute.executor import Executor
from kb_dataexec.memory.store import MemoryStore, StoreError
from kb_dataexec.ops.math import FUNCTIONS
from kb_messages import MATH_FUNCTIONS, DType, LogError, OpKind, Role

WHERE = "op 0 (an_op, pe0, kernel.py:3)"
FLOATS = [DType.F32, DType.F16, DType.BF16, DType.F8E4M3, DType.F8E5M2]


def execute(operands, params, arrays=()):
    builder = LogBuilder()
    builder.add((0, 0, 0), OpKind.MATH, "an_op", operands, params)
    store = MemoryStore(REGIONS)
    for at, array in enumerate(arrays):
        store.write_tensor(TCM, at * STEP, array)
    return Executor(builder.log(), store, "tile").run()


def apply(op, *arrays, out=DType.F32, shape=None, axis=None, scalars=(), scalar_at=(), reverse=False, group=None):
    """The result of one record on *arrays*."""
    shape = shape or np.broadcast_shapes(*(array.shape for array in arrays))
    operands = [*inputs_of(arrays), whole(Role.OUT, REG, 0, shape, out)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store = execute(operands, attributes(op, axis, scalars, scalar_at, reverse, group), arrays)
    nbytes = shape[1] * out.nbytes
    return store.read(REG, 0, shape[0], nbytes, nbytes, out)


def expect(error, text):
    return pytest.raises(error, match=f"^{re.escape(text)}$")


def column(*numbers, dtype=np.int32):
    return np.array([numbers], dtype)


UNARY = {
    "copy": lambda x: x,
    "neg": lambda x: -x,
    "abs": np.abs,
    "sign": np.sign,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log2": np.log2,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "erf": np.vectorize(math.erf),
    "floor": np.floor,
    "ceil": np.ceil,
    "rint": np.rint,
    "trunc": np.trunc,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + np.exp(-x)),
}
LIBRARY = {
    "tan": (np.tan, -1.5, 1.5),
    "asin": (np.arcsin, -1, 1),
    "acos": (np.arccos, -1, 1),
    "atan": (np.arctan, -9, 9),
    "sinh": (np.sinh, -9, 9),
    "cosh": (np.cosh, -9, 9),
    "asinh": (np.arcsinh, -9, 9),
    "acosh": (np.arccosh, 1, 9),
    "atanh": (np.arctanh, -0.9, 0.9),
    "log10": (np.log10, 0.1, 9),
    "exp10": (lambda x: 10**x, -3, 3),
    "cbrt": (np.cbrt, -9, 9),
    "rcbrt": (lambda x: 1 / np.cbrt(x), 1, 9),
    "sinpi": (lambda x: np.sin(np.pi * x), -9, 9),
    "cospi": (lambda x: np.cos(np.pi * x), -9, 9),
    "erfc": (np.vectorize(math.erfc), -3, 3),
    "tgamma": (np.vectorize(math.gamma), 0.5, 9),
    "lgamma": (np.vectorize(math.lgamma), 0.5, 9),
    "round": (lambda x: np.trunc(x + np.copysign(0.5, x)), -9, 9),
    "logb": (lambda x: np.floor(np.log2(np.abs(x))), 0.1, 9),
}
"""Reference, and the arguments from and to."""
BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "pow": np.power,
    "copysign": np.copysign,
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "rhypot": lambda x, y: 1 / np.hypot(x, y),
    "fmod": np.fmod,
    "remainder": np.vectorize(math.remainder),
    "fdim": lambda x, y: np.maximum(x - y, 0),
    "nextafter": lambda x, y: x + 0 * y,
    "ldexp": lambda x, y: x * 2 ** np.trunc(y),
}
COMPARISONS = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal}
COMPARISONS |= {"gt": np.greater, "ge": np.greater_equal}
LOGIC = {"and": np.logical_and, "or": np.logical_or}
INTEGER = {
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "lshift": lambda a, b: a << b if 0 <= b < 64 else 0,
    "rshift": lambda a, b: a >> b if 0 <= b < 64 else -(a < 0),
    "bit_and": lambda a, b: a & b,
    "bit_or": lambda a, b: a | b,
    "bit_xor": lambda a, b: a ^ b,
    "tdiv": lambda a, b: int(Fraction(a, b)) if b else 0,
    "trem": lambda a, b: a - b * int(Fraction(a, b)) if b else 0,
}
REDUCTIONS = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}
SCANS = {"cumsum": np.cumsum, "cumprod": np.cumprod}
SCANS |= {"cummax": np.maximum.accumulate, "cummin": np.minimum.accumulate}
BITS = {"reduce_and": np.bitwise_and, "reduce_or": np.bitwise_or, "reduce_xor": np.bitwise_xor}
POSITIVE = {"log", "log2", "log1p", "sqrt", "rsqrt", "pow"}


def test_every_op_of_the_table_is_tested_here():
    others = {
        "not",
        "where",
        "fma",
        "bit_not",
        "isnan",
        "isinf",
        "umulhi",
        "popcount",
        "clz",
        "ffs",
        "brev",
        "argmax",
        "argmin",
    }
    others |= {"rearrange", "combine", "gather", "histogram", "bitcast", "philox", "sort"}  # tests of their own
    others |= {"fill", "index", "cas", "spread", "isfinite", "signbit", *special.UNARY, *LIBRARY}
    assert set(FUNCTIONS) == {*UNARY, *BINARY, *COMPARISONS, *LOGIC, *INTEGER, *REDUCTIONS, *SCANS, *BITS} | others


def test_the_table_agrees_with_what_plans_and_kernels_know():
    def kinds(table):
        return {
            name: (each.arity, each.float_only, each.int_only, each.reduces, each.scans, each.generates)
            for name, each in table.items()
        }

    assert kinds(FUNCTIONS) == kinds(MATH_FUNCTIONS)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", UNARY)
def test_a_unary_function_is_computed_in_f32(op, dtype):
    x = values(dtype, low=0.5 if op in POSITIVE else -4.0)
    assert apply(op, x) == pytest.approx(UNARY[op](x.astype(np.float64)), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", LIBRARY)
def test_a_function_of_a_library_is_computed_in_f32(op, dtype):
    function, low, high = LIBRARY[op]
    x = values(dtype, low=low, high=high)
    assert apply(op, x) == pytest.approx(function(x.astype(np.float64)), rel=1e-5, abs=2e-6)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("shape", [(5, 7), (1, 7), (5, 1), (1, 1)])
def test_a_binary_function_broadcasts_and_is_computed_in_f32(op, dtype, shape):
    x, y = (values(dtype, s, 0.5 if op in POSITIVE else -4.0, seed=seed) for s, seed in (((5, 7), 1), (shape, 2)))
    expected = BINARY[op](x.astype(np.float64), y.astype(np.float64))
    assert apply(op, x, y) == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert apply(op, x, values(DType.F32, shape, 0.5, seed=3)).shape == (5, 7)


def test_a_row_and_a_column_broadcast_against_each_other():
    assert apply("sub", column(1, 2, 3), column(1, 2).T, out=DType.I32).tolist() == [[0, 1, 2], [-1, 0, 1]]


@pytest.mark.parametrize("op", [*COMPARISONS, *LOGIC])
@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.I8])
def test_comparisons_and_logic_give_bool(op, dtype):
    x, y = cast(column(0, 1, 2, -3), dtype), cast(column(0, 2, 1, 0), dtype)
    expected = (COMPARISONS | LOGIC)[op](column(0, 1, 2, -3), column(0, 2, 1, 0)).tolist()
    assert apply(op, x, y, out=DType.BOOL).tolist() == expected
    assert apply(op, x, y, out=DType.F16).tolist() == [[float(flag) for flag in expected[0]]]


def test_not_is_whether_a_value_is_zero():
    assert apply("not", column(0, 2, -1), out=DType.BOOL).tolist() == [[True, False, False]]


def test_where_takes_a_where_the_condition_is_not_zero():
    condition = np.array([[True, False, True]])
    assert apply("where", condition, column(1, 2, 3), column(4, 5, 6), out=DType.I32).tolist() == [[1, 5, 3]]
    assert apply("where", condition, scalars=(0.5, -1e39)).tolist() == [[0.5, -np.inf, 0.5]]


def test_the_condition_of_where_says_nothing_about_the_type_of_the_values():
    exact = column(2**60 + 1, -(2**60) - 1, dtype=np.int64)
    condition = column(0.5, 0.0, dtype=np.float32)
    assert apply("where", condition, exact, exact - 1, out=DType.I64).tolist() == [[2**60 + 1, -(2**60) - 2]]


def test_cas_exchanges_what_is_equal():
    old = np.float32([[1, 2], [1, 3]])
    assert apply("cas", old, np.ones_like(old), 10 * old).tolist() == [[10, 2], [10, 3]]
    assert apply("cas", old, scalars=(3.0, -1.0)).tolist() == [[1, 2], [1, -1]]


def test_fma_rounds_the_product_and_then_the_sum():
    a = np.array([[1 + 2.0**-12]], np.float32)
    c = np.array([[-1 - 2.0**-11]], np.float32)
    assert apply("fma", a, a, c).tolist() == [[0.0]]  # one rounding would leave 2^-24


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


def test_integers_are_computed_in_i64_and_wrap_into_out():
    x = column(100, -128, 127, dtype=np.int8)
    assert apply("mul", x, x, out=DType.I32).tolist() == [[10000, 16384, 16129]]
    assert apply("add", x, x, out=DType.I8).tolist() == [[-56, 0, -2]]
    assert apply("abs", x, out=DType.U8).tolist() == [[100, 128, 127]]
    assert apply("sum", x, axis=1, shape=(1, 1), out=DType.I8).tolist() == [[99]]
    assert apply("relu", x, out=DType.I8).tolist() == [[100, 0, 127]]
    big = column(2**62, dtype=np.int64)
    assert apply("fma", big, big, big, out=DType.I64).tolist() == [[2**62]]


def test_integers_beside_floats_are_computed_in_f32():
    assert apply("add", column(2**24 + 1), column(0.5, dtype=np.float16)).tolist() == [[2.0**24]]


@pytest.mark.parametrize("source", list(DType))
@pytest.mark.parametrize("target", list(DType))
def test_copy_is_the_cast(source, target):
    x = cast(np.array([[0, 1, 2.5, 300, 70000, -1, 2.0**63]]), source)
    got = apply("copy", x, out=target)
    assert got.tobytes() == cast(x, target).tobytes()


def test_scalars_come_after_the_operands():
    x = column(1.0, 2.0, 4.0, dtype=np.float32)
    assert apply("sub", x, scalars=(0.5,)).tolist() == [[0.5, 1.5, 3.5]]
    assert apply("fma", x, scalars=(2.0, 1.0)).tolist() == [[3.0, 5.0, 9.0]]
    assert apply("add", column(1, 2), scalars=(3.0,), out=DType.I32).tolist() == [[4, 5]]


def test_scalars_take_the_places_that_they_are_given():
    x = column(1.0, 2.0, 4.0, dtype=np.float32)
    assert apply("sub", x, scalars=(0.5,), scalar_at=(0,)).tolist() == [[-0.5, -1.5, -3.5]]
    assert apply("div", x, scalars=(1.0,), scalar_at=(0,)).tolist() == [[1.0, 0.5, 0.25]]
    assert apply("fma", x, scalars=(2.0, 1.0), scalar_at=(0, 1)).tolist() == [[3.0, 4.0, 6.0]]
    assert apply("fma", x, x, scalars=(2.0,), scalar_at=(1,)).tolist() == [[3.0, 6.0, 12.0]]
    condition = column(1, 0, 1)
    assert apply("where", condition, x, scalars=(9.0,), scalar_at=(1,)).tolist() == [[9.0, 2.0, 9.0]]
    assert apply("where", x, scalars=(1.0, 9.0), scalar_at=(0, 2)).tolist() == [[1.0, 2.0, 4.0]]


def test_integers_beside_a_scalar_in_front_stay_integers():
    exact = column(2**60 + 1, dtype=np.int64)
    assert apply("sub", exact, scalars=(2.0,), scalar_at=(0,), out=DType.I64).tolist() == [[1 - 2**60]]


words = st.integers(-(2**63), 2**63 - 1)


@settings(max_examples=150)
@given(
    st.sampled_from(sorted(INTEGER)), st.lists(st.tuples(words, words | st.integers(-2, 70)), min_size=1, max_size=6)
)
def test_integer_functions_are_pythons_modulo_2_64(op, pairs):
    a, b = (np.array([side], np.int64) for side in zip(*pairs, strict=True))
    expected = [(INTEGER[op](x, y) + 2**63) % 2**64 - 2**63 for x, y in pairs]
    assert apply(op, a, b, out=DType.I64).tolist() == [expected]


def test_bit_not_turns_every_bit_around():
    assert apply("bit_not", column(0, 5, -1), out=DType.I32).tolist() == [[-1, -6, 0]]
    assert apply("bit_not", column(0, 5, dtype=np.uint8), out=DType.U8).tolist() == [[255, 250]]


GROUPS = [(6, 1), (3, 1), (2, 3), (1, 2), (3, 2), (12, 1)]
"""Rows of a group, and rows between two of them, of values of 12 rows."""


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


@pytest.mark.parametrize(
    ("op", "axis", "group", "shape", "message"),
    [
        ("spread", None, None, (12, 5), "spread with group None, needs rows of a group"),
        ("exp", None, (2, 1), (12, 5), "exp with group (2, 1), needs none"),
        ("sum", 1, (2, 1), (12, 1), "sum with group (2, 1), needs none"),
        ("sum", 0, (5, 1), (2, 5), "sum of 12 rows in groups of 5, 1 apart, needs a multiple of 5"),
        ("cumsum", 0, (0, 1), (12, 5), "cumsum of 12 rows in groups of 0, 1 apart, needs a multiple of 0"),
        ("spread", None, (2, 5), (24, 5), "spread of 12 rows in groups of 2, 5 apart, needs a multiple of 5"),
        ("sum", 0, (3, 1), (3, 5), "sum of 12 x 5 f32 into OUT 3 x 5 f32, needs an OUT of 4 x 5"),
    ],
)
def test_groups_that_mean_nothing_are_refused(op, axis, group, shape, message):
    with expect(LogError, f"{WHERE}: got {message}"):
        apply(op, values(DType.F32, (12, 5)), axis=axis, group=group, shape=shape)


def test_without_operands_the_scalars_fill_out():
    assert apply("copy", shape=(2, 2), scalars=(0.1,)).tolist() == [[np.float32(0.1)] * 2] * 2
    assert apply("copy", shape=(1, 2), scalars=(2.0**40 + 1,), out=DType.I64).tolist() == [[2**40 + 1] * 2]


@pytest.mark.parametrize(
    "op",
    [
        name
        for name, each in FUNCTIONS.items()
        if not (each.reduces or each.generates or each.spreads or each.is_layout)
    ],
)
def test_no_value_gives_a_warning(op):
    x = column(0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-45, dtype=np.float32)
    pairs = np.repeat(x, 10, axis=1), np.tile(x, (1, 10))
    arrays = [*pairs, *pairs, *pairs, *pairs][: FUNCTIONS[op].arity]
    if FUNCTIONS[op].int_only:
        arrays = [cast(array, DType.I64) for array in arrays]
    for out in (DType.F32, DType.F16, DType.F8E4M3, DType.I8):
        apply(op, *arrays, out=out, axis=1 if FUNCTIONS[op].scans else None)


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


def test_functions_of_bits_know_the_width_of_the_type():
    x = column(-1, 0, 1, 2**31 - 1, -(2**31))
    assert apply("popcount", x, scalars=(32.0,), out=DType.I32).tolist() == [[32, 0, 1, 31, 1]]
    assert apply("clz", x, scalars=(32.0,), out=DType.I32).tolist() == [[0, 32, 31, 1, 0]]
    assert apply("clz", x.astype(np.int64), scalars=(64.0,), out=DType.I32).tolist() == [[0, 64, 63, 33, 0]]
    assert apply("ffs", x, scalars=(32.0,), out=DType.I32).tolist() == [[1, 0, 1, 1, 32]]
    assert apply("brev", x, scalars=(32.0,), out=DType.I32).tolist() == [[-1, 0, -(2**31), -2, 1]]
    rng = np.random.default_rng(1)
    a, b = (rng.integers(0, 2**32, (1, 9), np.uint32) for _ in range(2))
    high = [[int(x) * int(y) >> 32 for x, y in zip(a[0], b[0], strict=True)]]
    assert apply("umulhi", a, b, scalars=(32.0,), out=DType.U32).tolist() == high
    assert apply("umulhi", a.view(np.int32), b.view(np.int32), scalars=(32.0,), out=DType.U32).tolist() == high
    a, b = (rng.integers(0, 2**64, (1, 9), np.uint64) for _ in range(2))
    high = [[int(x) * int(y) >> 64 for x, y in zip(a[0], b[0], strict=True)]]
    assert apply("umulhi", a, b, scalars=(64.0,), out=DType.U64).tolist() == high
    assert apply("umulhi", a.view(np.int64), b.view(np.int64), scalars=(64.0,), out=DType.U64).tolist() == high


def test_what_has_an_operand_of_u64_is_computed_in_u64():
    big, small = column(2**64 - 1, 2**63, 5, dtype=np.uint64), column(3, 2**63 + 1, 7, dtype=np.uint64)
    assert apply("lt", big, small, out=DType.BOOL).tolist() == [[False, True, True]]
    assert apply("floordiv", big, small, out=DType.U64).tolist() == [[(2**64 - 1) // 3, 0, 0]]
    assert apply("trem", big, small, out=DType.U64).tolist() == [[0, 2**63, 5]]
    assert apply("tdiv", big, scalars=(0.0,), out=DType.U64).tolist() == [[0, 0, 0]]
    assert apply("rshift", big, scalars=(1.0,), out=DType.U64).tolist() == [[2**63 - 1, 2**62, 2]]
    assert apply("maximum", big, column(-1, 1, -1, dtype=np.int64), out=DType.U64).tolist() == [
        [2**64 - 1, 2**63, 2**64 - 1]
    ]
    assert apply("where", column(1, 0, 1), big, small, out=DType.U64).tolist() == [[2**64 - 1, 2**63 + 1, 5]]


def test_generators_fill_any_shape():
    assert apply("fill", shape=(2, 3), scalars=("-inf",)).tolist() == [[-np.inf] * 3] * 2
    assert np.isnan(apply("fill", shape=(1, 1), scalars=("nan",))).all()
    assert apply("fill", shape=(1, 2), scalars=(3.0,), out=DType.I8).tolist() == [[3, 3]]
    assert apply("index", shape=(2, 3), scalars=(5.0, 10.0, -1.0), out=DType.I32).tolist() == [[5, 4, 3], [15, 14, 13]]


def test_erf_is_that_of_python():
    x = np.concatenate([np.linspace(-7, 7, 2001), np.geomspace(1e-30, 1, 50)])
    exact = np.array([math.erf(each) for each in x])
    np.testing.assert_allclose(FUNCTIONS["erf"].apply(x), exact, rtol=1e-14, atol=0)
    assert FUNCTIONS["erf"].apply(np.array([np.inf, -np.inf])).tolist() == [1, -1]
    assert np.isnan(FUNCTIONS["erf"].apply(np.array([np.nan]))).all()


def test_nan_and_infinities_are_found_and_may_be_scalars():
    x = column(1, np.nan, np.inf, -np.inf, dtype=np.float32)
    assert apply("isnan", x, out=DType.BOOL).tolist() == [[False, True, False, False]]
    assert apply("isinf", x, out=DType.BOOL).tolist() == [[False, False, True, True]]
    assert apply("isfinite", x, out=DType.BOOL).tolist() == [[True, False, False, False]]
    assert apply("signbit", column(-1, 0.0, -0.0, -np.inf, dtype=np.float32), out=DType.BOOL).tolist() == [
        [True, False, True, True]
    ]
    assert apply("maximum", column(1.0, 2.0, dtype=np.float32), scalars=("inf",)).tolist() == [[np.inf, np.inf]]


def test_nan_goes_through_maximum_and_max():
    x = column(1, np.nan, dtype=np.float32)
    assert np.isnan(apply("maximum", x, column(2, 2, dtype=np.float32))).tolist() == [[False, True]]
    assert np.isnan(apply("max", x, axis=1, shape=(1, 1))).tolist() == [[True]]


def test_inputs_are_read_released_and_then_out_is_written():
    x = column(1, 2, 3)
    same = whole(Role.OUT, TCM, 4, (1, 3), DType.I32)
    store = execute([*inputs_of([x], release=1), same], attributes("neg"), [x])
    assert store.read(TCM, 4, 1, 12, 12, DType.I32).tolist() == [[-1, -2, -3]]
    with pytest.raises(StoreError, match="were released"):
        store.read(TCM, 0, 1, 4, 4, DType.I32)


def test_a_copy_over_its_own_bytes_takes_the_old_values():
    x = column(1, 2, 3, 4)
    source, target = (whole(role, TCM, at, (1, 3), DType.I32) for role, at in ((Role.IN, 0), (Role.OUT, 4)))
    store = execute([source, target], attributes("copy"), [x])
    assert store.read(TCM, 0, 1, 16, 16, DType.I32).tolist() == [[1, 1, 2, 3]]


def test_an_immediate_is_an_operand():
    builder = LogBuilder()
    operands = [(Role.IN, 5, 0, 0, 1, 4, 4, DType.F32.info.code, 0), whole(Role.OUT, REG, 0, (1, 1), DType.F32)]
    builder.add((0, 0, 0), OpKind.MATH, "neg", operands, attributes("neg"))
    log = builder.log()
    log.immediates = np.float32(1.5).tobytes()
    assert Executor(log, MemoryStore(REGIONS)).run().read(REG, 0, 1, 4, 4, DType.F32).tolist() == [[-1.5]]


def test_unwritten_inputs_name_the_op():
    operands = [whole(Role.IN, TCM, 0, (1, 2), DType.F32), whole(Role.OUT, REG, 0, (1, 2), DType.F32)]
    text = "got a read of 1 x 2 f32 whose bytes from 0x0 on were never written, needs initialised bytes"
    text += "; no op of the log writes it"
    with expect(StoreError, f"{WHERE}: tcm + 0x0 (address {TCM << 32:#x}): {text}"):
        execute(operands, attributes("neg"))


def in_out(shapes, out, dtype=DType.F32):
    sources = [whole(Role.IN, TCM, at * STEP, shape, dtype) for at, shape in enumerate(shapes)]
    return [*sources, whole(Role.OUT, REG, 0, out, DType.F32)]


ONE = in_out([(2, 3)], (2, 3))
TWO = in_out([(2, 3)] * 2, (2, 3))


@pytest.mark.parametrize(
    ("operands", "params", "text"),
    [
        (ONE, "", "got params '', needs the JSON of MathAttributes"),
        (ONE, '{"op":"abs","x":1}', 'got params \'{"op":"abs","x":1}\', needs the JSON of MathAttributes'),
        (ONE, attributes("gamma"), f"got op 'gamma', needs one of {', '.join(FUNCTIONS)}"),
        (ONE[:1], attributes("abs"), "got operands IN, needs IN operands and one OUT"),
        ([], attributes("abs"), "got operands none, needs IN operands and one OUT"),
        ([*ONE, ONE[1]], attributes("abs"), "got operands IN, OUT, OUT, needs IN operands and one OUT"),
        (ONE, attributes("add"), "got add of 1 IN operands and 0 scalars, needs 2 arguments"),
        (ONE, attributes("abs", scalars=(1.0,)), "got abs of 1 IN operands and 1 scalars, needs 1 arguments"),
        (
            ONE,
            attributes("sub", scalars=(1.0,), scalar_at=(2,)),
            "got sub with scalar_at [2] of 1 scalars, needs a place among the arguments for each scalar, ascending",
        ),
        (
            ONE,
            attributes("fma", scalars=(1.0, 2.0), scalar_at=(1, 0)),
            "got fma with scalar_at [1, 0] of 2 scalars, needs a place among the arguments for each scalar, ascending",
        ),
        (TWO, attributes("mod"), "got mod of 2 x 3 f32, 2 x 3 f32, needs integers"),
        (ONE, attributes("sum"), "got sum over no axis, needs axis 0 or 1"),
        (ONE, attributes("max", 2), "got max over axis 2, needs axis 0 or 1"),
        (TWO, attributes("add", 1), "got add over axis 1, needs no axis, as it is no reduction and no scan"),
        (in_out([(2, 3)], (2, 3), DType.I8), attributes("exp"), "got exp of 2 x 3 i8, needs floats"),
        (
            in_out([(2, 3), (3, 1)], (2, 3)),
            attributes("add"),
            "got add of 2 x 3 f32, 3 x 1 f32, needs shapes that broadcast",
        ),
        (
            in_out([(1, 3), (2, 1)], (2, 4)),
            attributes("add"),
            "got add of 1 x 3 f32, 2 x 1 f32 into OUT 2 x 4 f32, needs an OUT of 2 x 3",
        ),
        (
            in_out([(1, 1)], (2, 3)),
            attributes("copy"),
            "got copy of 1 x 1 f32 into OUT 2 x 3 f32, needs an OUT of 1 x 1",
        ),
        (
            in_out([(2, 3)], (1, 3)),
            attributes("sum", 1),
            "got sum of 2 x 3 f32 into OUT 1 x 3 f32, needs an OUT of 2 x 1",
        ),
        (
            in_out([(2, 3)], (2, 3), DType.I8),
            attributes("add", scalars=(0.5,)),
            "got scalars 0.5 in add of integers, needs whole numbers of 64 bits",
        ),
    ],
)
@pytest.mark.parametrize("mode", ["tile", "fused"])
def test_a_wrong_record_names_its_place(operands, params, text, mode):
    builder = LogBuilder()
    builder.add((0, 0, 0), OpKind.MATH, "an_op", operands, params)
    builder.add((0, 0, 1), OpKind.MATH, "another", ONE, attributes("abs"))
    store = MemoryStore(REGIONS)
    store.write_tensor(TCM, 0, np.ones(3 * STEP, np.uint8))
    with expect(LogError, f"{WHERE}: {text}"):
        Executor(builder.log(), store, mode, fuse_from=2).run()
