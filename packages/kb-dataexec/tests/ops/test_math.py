"""MATH records, one at a time: each function of the table against a reference of its own."""

import math
from fractions import Fraction

import numpy as np
import pytest
from dataexec_gemm_log import REG, REGIONS, TCM, LogBuilder
from dataexec_math_records import BITS, REDUCTIONS, SCANS, apply, column, execute
from dataexec_math_values import attributes, inputs_of, values, whole
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_cases import examples

from kb_dataexec.arrays import special
from kb_dataexec.arrays.dtypes import cast
from kb_dataexec.execute.executor import Executor
from kb_dataexec.memory.store import MemoryStore, StoreError
from kb_dataexec.ops.math import FUNCTIONS
from kb_messages import MATH_FUNCTIONS, DType, OpKind, Role

FLOATS = [DType.F32, DType.F16, DType.BF16, DType.F8E4M3, DType.F8E5M2]
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
    "maximum_number": np.maximum,
    "minimum_number": np.minimum,
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
        "argmax_number",
        "argmin_number",
    }
    others |= {"rearrange", "combine", "gather", "histogram", "bitcast", "philox", "sort", "merge"}  # tests elsewhere
    others |= {"fill", "index", "cas", "jn", "yn", "spread", "isfinite", "signbit", *special.UNARY, *LIBRARY}
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


@pytest.mark.parametrize("dtype", FLOATS)
def test_cas_compares_the_bits_of_floats(dtype):
    old = cast(column(0.0, -0.0, np.nan, 1.0, dtype=np.float32), dtype)
    expected = cast(column(-0.0, -0.0, np.nan, np.nan, dtype=np.float32), dtype)
    found = apply("cas", old, expected, cast(column(2, 3, 4, 5, dtype=np.float32), dtype), out=dtype)
    assert found.tolist() == [[0.0, 3.0, 4.0, 1.0]]
    assert np.signbit(apply("cas", old, scalars=(0.0, 7.0), out=dtype)[0, 1])


def test_cas_takes_every_bit_of_a_nan():
    old = np.array([[0x7FC00000, 0x7FC00001, 0xFFC00000]], np.uint32).view(np.float32)
    expected = np.full((1, 3), 0x7FC00001, np.uint32).view(np.float32)
    found = apply("cas", old, expected, np.ones_like(old))
    assert found.view(np.uint32).tolist() == [[0x7FC00000, 0x3F800000, 0xFFC00000]]


def test_fma_rounds_the_product_and_then_the_sum():
    a = np.array([[1 + 2.0**-12]], np.float32)
    c = np.array([[-1 - 2.0**-11]], np.float32)
    assert apply("fma", a, a, c).tolist() == [[0.0]]  # one rounding would leave 2^-24


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


@settings(max_examples=examples(150))
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


"""Rows of a group, and rows between two of them, of values of 12 rows."""


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
    assert apply("fill", shape=(1, 1), scalars=(-(2.0**63),), out=DType.I64).tolist() == [[-(2**63)]]
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
