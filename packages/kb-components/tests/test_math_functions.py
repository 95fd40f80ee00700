"""Every function of `tl`, through a chip and pass 2, against numpy in float64."""

import math

import numpy as np
import pytest

from kb_dataexec import Executor, MemoryLogWriter, numpy_dtype
from kb_engine import Engine, Host, read_tensor
from kb_messages import DType, KernelError

DTYPE_OF = {numpy_dtype(each): each for each in DType}
RNG = np.random.default_rng(7)
FLOATS = RNG.uniform(-3, 3, (5, 40)).astype(np.float32)
POSITIVE = np.abs(FLOATS) + 0.5
INTEGERS = RNG.integers(-(2**31), 2**31, (5, 40)).astype(np.int32)
UNARY = {
    "exp2": np.exp2, "expm1": np.expm1, "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
    "erf": np.vectorize(math.erf), "sign": np.sign, "floor": np.floor, "ceil": np.ceil, "rint": np.rint,
    "trunc": np.trunc,
}  # fmt: skip
OF_POSITIVE = {"log2": np.log2, "log1p": np.log1p, "rsqrt": lambda x: 1 / np.sqrt(x)}
REDUCED = {"prod": np.prod, "argmax": np.argmax, "argmin": np.argmin}
SCANS = {"cumsum": np.cumsum, "cumprod": np.cumprod, "cummax": np.maximum.accumulate, "cummin": np.minimum.accumulate}


@pytest.fixture
def computed(chip):
    """What *function(tl, *values)* gives in pass 2 for loaded *arrays*. The result has *shape*, *dtype*."""

    def run(function, *arrays, dtype="f32", shape=None):
        def kernel(tl, *tensors):
            *given, out = tensors
            tl.store(out, function(tl, *(tl.load(each) for each in given)))

        engine = Engine(chip(), MemoryLogWriter())
        host = Host(engine)
        given = [host.tensor(f"t{at}", each, DTYPE_OF[each.dtype]) for at, each in enumerate(arrays)]
        out = host.empty("out", shape or arrays[0].shape, dtype)
        host.launch(kernel, *given, out, pes=(0,))
        after = Executor(engine.close_log(), engine.initial_memory).run()
        return np.array(read_tensor(after, out))

    return run


@pytest.mark.parametrize("op", [*UNARY, *OF_POSITIVE])
def test_a_function_of_each_element(computed, op):
    x = POSITIVE if op in OF_POSITIVE else FLOATS
    expected = (UNARY | OF_POSITIVE)[op](x.astype(np.float64))
    np.testing.assert_allclose(computed(lambda tl, x: getattr(tl, op)(x), x), expected, rtol=4e-6, atol=1e-6)


def test_functions_of_two(computed):
    wide = POSITIVE.astype(np.float64)
    assert computed(lambda tl, x: tl.pow(x, 2.5), POSITIVE) == pytest.approx(wide**2.5, rel=4e-6)
    signed = np.copysign(wide, FLOATS)
    assert (computed(lambda tl, x, y: tl.copysign(x, y), POSITIVE, FLOATS) == signed).all()


@pytest.mark.parametrize("op", REDUCED)
@pytest.mark.parametrize("axis", [0, 1])
def test_reductions(computed, op, axis):
    expected = REDUCED[op](FLOATS.astype(np.float64), axis=axis, keepdims=True)
    dtype = "i32" if op.startswith("arg") else "f32"
    found = computed(lambda tl, x: getattr(tl, op)(x, axis), FLOATS, dtype=dtype, shape=expected.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=0)


@pytest.mark.parametrize("op", SCANS)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans(computed, op, axis, reverse):
    turned = (axis,) if reverse else ()
    expected = np.flip(SCANS[op](np.flip(FLOATS.astype(np.float64), turned), axis=axis), turned)
    found = computed(lambda tl, x: getattr(tl, op)(x, axis, reverse), FLOATS)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_functions_of_integers_are_known_at_once(computed):
    seen = {}

    def look(tl, x):
        for op in ("popcount", "clz"):
            seen[op] = np.array(getattr(tl, op)(x))
        seen["tdiv"], seen["trem"] = (np.array(getattr(tl, op)(x, -7)) for op in ("tdiv", "trem"))
        seen["umulhi"] = np.array(tl.umulhi(x, x))
        seen["xor_sum"] = np.array(tl.xor_sum(x, 1))
        return x

    computed(look, INTEGERS, dtype="i32")
    unsigned = INTEGERS.view(np.uint32)
    assert (seen["popcount"] == np.bitwise_count(unsigned)).all()
    assert (seen["clz"] == [[32 - int(each).bit_length() for each in row] for row in unsigned]).all()
    assert (seen["tdiv"] * -7 + seen["trem"] == INTEGERS).all()
    assert ((seen["trem"] == 0) | (np.sign(seen["trem"]) == np.sign(INTEGERS))).all()
    assert (seen["umulhi"].view(np.uint32) == (unsigned.astype(np.uint64) ** 2) >> np.uint64(32)).all()
    assert (seen["xor_sum"] == np.bitwise_xor.reduce(INTEGERS, axis=1, keepdims=True)).all()


def test_an_infinite_scalar_is_in_the_log(computed):
    assert (computed(lambda tl, x: tl.maximum(x, -math.inf), FLOATS) == FLOATS).all()
    assert np.isnan(computed(lambda tl, x: x * math.nan, FLOATS)).all()
    assert (computed(lambda tl, x: tl.minimum(x, math.inf) * 0 + -math.inf, FLOATS) == -np.inf).all()


def test_functions_of_floats_convert_integers_beside_floats(computed):
    x, n = POSITIVE, (INTEGERS % 7).astype(np.int32)
    wide = x.astype(np.float64)
    assert computed(lambda tl, x, n: tl.ldexp(x, n), x, n) == pytest.approx(wide * 2.0**n, rel=1e-6)
    assert computed(lambda tl, x, n: n / x, x, n) == pytest.approx(n / wide, rel=1e-6)
    assert computed(lambda tl, x, n: tl.pow(x, n), x, n) == pytest.approx(wide**n, rel=4e-6)
    assert computed(lambda tl, x: tl.atan2(x, -1), x) == pytest.approx(np.arctan2(wide, -1), rel=4e-6)


def test_clamp_keeps_nan_and_what_lies_between(computed):
    x = np.float32([[-5, -1, 0, 2, 7, np.nan, np.inf, -np.inf]])
    found = computed(lambda tl, x: tl.clamp(x, -1.0, 2.0), x)
    assert found[0, :5].tolist() == [-1, -1, 0, 2, 2]
    assert np.isnan(found[0, 5])
    assert found[0, 6:].tolist() == [2, -1]


def words(*shape, dtype, seed=3):
    """Integers of all sizes: those of every bit length are as likely."""
    rng, bits = np.random.default_rng(seed), 8 * np.dtype(dtype).itemsize
    numbers = rng.integers(0, 2**64, shape, np.uint64) >> rng.integers(64 - bits, 64, shape).astype(np.uint64)
    return numbers.astype(dtype) * rng.choice([1, -1], shape).astype(dtype)


INTEGER_TYPES = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"]
WRAPPING = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "and": lambda a, b: a & b,
    "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "lt": lambda a, b: a < b, "ge": lambda a, b: a >= b,
    "maximum": max, "minimum": min, "floordiv": lambda a, b: a // (b or 1), "mod": lambda a, b: a % (b or 1),
}  # fmt: skip


@pytest.mark.parametrize("dtype", INTEGER_TYPES)
@pytest.mark.parametrize("op", WRAPPING)
def test_integers_of_every_type_compute_as_pythons_do_modulo_their_size(computed, op, dtype):
    kind = numpy_dtype(DType(dtype))
    x, y = words(3, 20, dtype=kind), words(3, 20, dtype=kind, seed=4)
    if op in ("floordiv", "mod"):
        y[y == 0] = 1
    signs = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^", "lt": "<", "ge": ">="}
    signs |= {"floordiv": "//", "mod": "%"}

    def function(tl, a, b):
        return getattr(tl, op)(a, b) if op not in signs else eval(f"a {signs[op]} b", {"a": a, "b": b})

    found = computed(function, x, y, dtype="bool" if op in ("lt", "ge") else dtype)
    wanted = [WRAPPING[op](int(a), int(b)) for a, b in zip(x.flat, y.flat, strict=True)]
    assert found.ravel().tolist() == np.array([w % 2**64 for w in wanted], np.uint64).astype(found.dtype).tolist()


@pytest.mark.parametrize("dtype", INTEGER_TYPES)
@pytest.mark.parametrize("amount", [1, 7])
def test_a_right_shift_of_unsigned_integers_brings_zeros(computed, amount, dtype):
    x = words(3, 20, dtype=numpy_dtype(DType(dtype)))
    assert (computed(lambda tl, x: x >> amount, x, dtype=dtype) == x >> amount).all()
    assert (computed(lambda tl, x: x << amount, x, dtype=dtype) == x << amount).all()


@pytest.mark.parametrize("dtype", INTEGER_TYPES)
def test_functions_of_bits_take_every_integer_type(computed, dtype):
    bits = 8 * DType(dtype).nbytes
    x = words(2, 30, dtype=numpy_dtype(DType(dtype)))
    unsigned = [int(each) % 2**bits for each in x.flat]
    wanted = {
        "popcount": [each.bit_count() for each in unsigned],
        "clz": [bits - each.bit_length() for each in unsigned],
        "ffs": [(each & -each).bit_length() for each in unsigned],
        "brev": [int(f"{each:0{bits}b}"[::-1], 2) for each in unsigned],
    }
    for op, expected in wanted.items():
        found = computed(lambda tl, x, op=op: getattr(tl, op)(x), x, dtype=dtype)
        assert [int(each) % 2**bits for each in found.flat] == expected, op
    found = computed(lambda tl, x: tl.umulhi(x, x), x, dtype=dtype)
    assert [int(each) % 2**bits for each in found.flat] == [each * each >> bits for each in unsigned]


def test_numbers_of_64_bits_keep_all_their_bits(computed):
    x = words(2, 9, dtype=np.int64)
    for number in (2**53 + 1, 2**63 - 1, -(2**62) - 1, 0x123456789ABCDEF1):
        assert (computed(lambda tl, x, n=number: x ^ n, x, dtype="i64") == x ^ number).all()
        assert (computed(lambda tl, x, n=number: tl.full((2, 9), n, "i64"), x, dtype="i64") == number).all()
    wide = x.view(np.uint64)
    most = 2**64 - 1
    assert (computed(lambda tl, x: x & most, wide, dtype="u64") == wide).all()
    assert (computed(lambda tl, x: x >= 2**63, wide, dtype="bool") == (wide >= np.uint64(2**63))).all()
    assert (computed(lambda tl, x: tl.full((2, 9), most, "u64"), wide, dtype="u64") == np.uint64(most)).all()
    with pytest.raises(KernelError, match="the number 18446744073709551616, needs one of 64 bits"):
        computed(lambda tl, x: x + 2**64, x, dtype="i64")


def test_reductions_of_u64_see_no_sign(computed):
    x = words(4, 30, dtype=np.uint64)
    for op in ("max", "min", "argmax", "argmin", "sum", "prod"):
        expected = getattr(np, op)(x, axis=1, keepdims=True)
        dtype = "i32" if op.startswith("arg") else "u64"
        found = computed(lambda tl, x, op=op: getattr(tl, op)(x, 1), x, dtype=dtype, shape=(4, 1))
        assert found.tolist() == expected.tolist(), op
    assert (computed(lambda tl, x: tl.cummax(x, 1), x, dtype="u64") == np.maximum.accumulate(x, 1)).all()
    found = computed(lambda tl, x: x.to("f32"), x)
    assert (found == x.astype(np.float64).astype(np.float32)).all()


@pytest.mark.parametrize("dtype", INTEGER_TYPES)
def test_a_float_loses_its_fraction_as_an_integer(computed, dtype):
    x = np.float32([[0.5, 1.5, 2.5, 2.99, 100.7, 0.99, 0.0, 127.5]]) * (1 if dtype[0] == "u" else -1)
    assert (computed(lambda tl, x: (x * 1.0).to(dtype), x, dtype=dtype) == np.trunc(x).astype(int)).all()
    whole = np.rint(x).astype(np.int64).astype(numpy_dtype(DType(dtype)))
    assert (computed(lambda tl, x: tl.rint(x).to(dtype), x, dtype=dtype) == whole).all()
