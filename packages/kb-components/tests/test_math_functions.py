"""Every function of `tl`, through a chip and pass 2, against numpy in float64."""

import math

import numpy as np
import pytest

from kb_dataexec import Executor, MemoryLogWriter
from kb_engine import Engine, Host, read_tensor

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
        names = {np.dtype(np.float32): "f32", np.dtype(np.int32): "i32", np.dtype(np.float16): "f16"}
        given = [host.tensor(f"t{at}", each, names[each.dtype]) for at, each in enumerate(arrays)]
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
