"""Functions that order, choose, count and retype elements, and random numbers, through a chip and pass 2."""

import json

import numpy as np
import pytest

from kb_dataexec import Executor, MemoryLogWriter, numpy_dtype
from kb_engine import Engine, Host, read_tensor
from kb_messages import DType, KernelError, OpKind

DTYPE_OF = {numpy_dtype(each): each for each in DType}
RNG = np.random.default_rng(5)
FLOATS = RNG.standard_normal((6, 20)).astype(np.float32)
CUBE = RNG.standard_normal((3, 4, 5)).astype(np.float32)
NUMBERS = RNG.integers(-9, 9, (6, 20)).astype(np.int32)


@pytest.fixture
def computed(chip):
    """What *function(tl, *values)* gives for loaded *arrays* in both modes of pass 2, which have to agree."""

    def run(function, *arrays, shape, dtype="f32", ops=None):
        def kernel(tl, *tensors):
            *given, out = tensors
            tl.store(out, function(tl, *(tl.load(each) for each in given)))

        engine = Engine(chip(), MemoryLogWriter())
        host = Host(engine)
        given = [host.tensor(f"t{at}", each, DTYPE_OF[each.dtype]) for at, each in enumerate(arrays)]
        out = host.empty("out", shape, dtype)
        host.launch(kernel, *given, out, pes=(0,))
        log = engine.close_log()
        found = [
            np.array(read_tensor(Executor(log, engine.initial_memory, mode, fuse_from=2).run(), out))
            for mode in ("tile", "fused")
        ]
        assert found[0].tobytes() == found[1].tobytes()
        if ops is not None:
            assert [json.loads(each.params)["op"] for each in log.records() if each.kind is OpKind.MATH] == ops
        return found[0]

    return run


def same(found, expected):
    assert found.dtype == expected.dtype
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize(("first", "then"), [(1, True), (True, np.int64(1)), (0, False), (False, 0)])
def test_an_order_is_true_or_false_whatever_number_an_earlier_call_was_given(computed, first, then):
    x = np.arange(35, dtype=np.float32).reshape(5, 7)
    for descending in (first, then):
        found = computed(lambda tl, x, reverse=descending: tl.sort(x, 1, reverse), x, shape=x.shape)
        same(found, np.flip(x, 1) if descending else x)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.uint64])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("descending", [False, True])
def test_sort(computed, dtype, axis, descending):
    x = (FLOATS * 40).astype(np.int64).astype(dtype)
    expected = np.sort(x, axis=axis)
    expected = np.flip(expected, axis) if descending else expected
    same(computed(lambda tl, x: tl.sort(x, axis, descending), x, shape=x.shape, dtype=DTYPE_OF[x.dtype]), expected)


def test_sort_of_special_values_is_stable_with_nan_as_the_largest(computed):
    x = np.float32([[0.0, np.nan, -0.0, -np.inf, 3, np.inf]])
    found = computed(lambda tl, x: tl.sort(x), x, shape=x.shape)
    assert found.view(np.uint32).tolist() == np.float32([[-np.inf, 0.0, -0.0, 3, np.inf, np.nan]]).view("u4").tolist()
    found = computed(lambda tl, x: tl.sort(x, descending=True), x, shape=x.shape)
    assert np.isnan(found[0, 0])
    assert found[0, 1:].tolist() == [np.inf, 3, 0, 0, -np.inf]


def test_sort_of_three_dimensions_goes_along_the_last_axis(computed):
    same(computed(lambda tl, x: tl.sort(x), CUBE, shape=CUBE.shape), np.sort(CUBE))


@pytest.mark.parametrize("k", [1, 3, 20])
def test_topk(computed, k):
    expected = np.flip(np.sort(FLOATS), 1)[:, :k]
    same(computed(lambda tl, x: tl.topk(x, k), FLOATS, shape=(6, k), ops=["sort", "rearrange"]), expected)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_flip(computed, axis):
    same(computed(lambda tl, x: tl.flip(x, axis), CUBE, shape=CUBE.shape), np.flip(CUBE, axis))
    same(
        computed(lambda tl, x: tl.flip(x * 2, axis), CUBE, shape=CUBE.shape, ops=["mul", "rearrange"]),
        np.flip(CUBE * 2, axis),
    )


@pytest.mark.parametrize(
    ("shape", "sizes"), [((1, 20), (6, 20)), ((6, 1), (6, 20)), ((20,), (3, 4, 20)), ((3, 1, 5), (3, 4, 5))]
)
def test_broadcast_to(computed, shape, sizes):
    x = RNG.standard_normal(shape).astype(np.float32)
    same(computed(lambda tl, x: tl.broadcast_to(x, sizes) + 0.0, x, shape=sizes), np.broadcast_to(x, sizes) + 0)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int16])
def test_gather(computed, axis, dtype):
    x = (FLOATS * 40).astype(dtype)
    index = RNG.integers(0, x.shape[axis], (4, 20) if axis == 0 else (6, 33)).astype(np.int32)
    found = computed(lambda tl, x, i: tl.gather(x, i, axis), x, index, shape=index.shape, dtype=DTYPE_OF[x.dtype])
    same(found, np.take_along_axis(x, index, axis))


def test_gather_along_the_last_axis_of_three(computed):
    index = RNG.integers(0, 5, (3, 4, 7)).astype(np.int64)
    same(
        computed(lambda tl, x, i: tl.gather(x, i, -1), CUBE, index, shape=index.shape),
        np.take_along_axis(CUBE, index, 2),
    )


def test_an_index_that_is_computed_and_beyond_the_axis_gives_nothing(computed):
    x, at = np.float32([[1, 2, 3, 4]]), np.float32([[-1, 0, 3, 4]])
    found = computed(lambda tl, x, at: tl.gather(x, at.to("i32"), 1), x, at, shape=(1, 4))
    assert np.isnan(found).tolist() == [[True, False, False, True]]
    assert found[0, 1:3].tolist() == [1, 4]
    found = computed(lambda tl, x, at: tl.gather((x * 1).to("i32"), at.to("i32"), 1), x, at, shape=(1, 4), dtype="i32")
    assert found.tolist() == [[0, 1, 4, 0]]


def test_histogram(computed):
    counts = np.int32([(at == NUMBERS).sum() for at in range(7)])
    same(computed(lambda tl, x: tl.histogram(x, 7), NUMBERS, shape=(7,), dtype="i32"), counts)
    masked = np.int32([((at == NUMBERS) & (FLOATS > 0)).sum() for at in range(7)])
    found = computed(lambda tl, x, f: tl.histogram(x, 7, f > 0), NUMBERS, FLOATS, shape=(7,), dtype="i32")
    same(found, masked)


PAIRS = {
    "join": lambda a, b: np.stack([a, b], -1),
    "interleave": lambda a, b: np.stack([a, b], -1).reshape(*a.shape[:-1], -1),
    "cat": lambda a, b: np.concatenate([a, b]),
}


@pytest.mark.parametrize("op", PAIRS)
@pytest.mark.parametrize("shape", [(20,), (6, 20), (3, 4, 5), (1, 1)])
def test_two_values_become_one(computed, op, shape):
    a, b = (RNG.standard_normal(shape).astype(np.float32) for _ in range(2))
    expected = PAIRS[op](a, b)
    same(computed(lambda tl, a, b: getattr(tl, op)(a, b), a, b, shape=expected.shape, ops=["combine"]), expected)
    found = computed(lambda tl, a, b: getattr(tl, op)(a * 2, b + 1), a, b, shape=expected.shape)
    same(found, PAIRS[op](a * 2, b + 1))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_cat_along_any_axis(computed, axis):
    expected = np.concatenate([CUBE, -CUBE], axis)
    same(computed(lambda tl, x: tl.cat(x, -x, axis), CUBE, shape=expected.shape), expected)


def test_cat_of_other_lengths_and_types_along_axis_0(computed):
    a, b = FLOATS[:2].astype(np.float16), FLOATS[2:]
    same(computed(lambda tl, a, b: tl.cat(a, b), a, b, shape=(6, 20)), np.concatenate([a.astype(np.float32), b]))


def test_join_broadcasts(computed):
    row = FLOATS[:1]
    expected = np.stack([FLOATS, np.broadcast_to(row, FLOATS.shape)], -1)
    same(computed(lambda tl, x, row: tl.join(x, row), FLOATS, row, shape=(6, 20, 2)), expected)


def test_split_undoes_join(computed):
    pairs = FLOATS.reshape(6, 10, 2)

    def function(tl, x):
        first, second = tl.split(tl.join(*tl.split(x)))
        return first - second * 2

    same(computed(function, pairs, shape=(6, 10)), pairs[..., 0] - pairs[..., 1] * 2)


def test_a_rotation_of_pairs_stays_in_one_command(computed):
    x, angle = FLOATS.reshape(6, 10, 2), RNG.standard_normal((6, 10)).astype(np.float32)

    def function(tl, x, angle):
        even, odd = tl.split(x)
        cosine, sine = tl.cos(angle), tl.sin(angle)
        return tl.join(even * cosine - odd * sine, odd * cosine + even * sine)

    wide = x.astype(np.float64)
    c, s = np.cos(angle.astype(np.float64)), np.sin(angle.astype(np.float64))
    expected = np.stack([wide[..., 0] * c - wide[..., 1] * s, wide[..., 1] * c + wide[..., 0] * s], -1)
    ops = ["rearrange", "rearrange", "cos", "sin", "mul", "mul", "sub", "mul", "mul", "add", "combine"]
    found = computed(function, x, angle, shape=x.shape, ops=ops)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("order", [(0, 2, 1), (2, 1, 0), (1, 2, 0), (1, 0, 2)])
def test_permuted_values_are_operands(computed, order):
    expected = CUBE.transpose(order)
    same(computed(lambda tl, x: tl.permute(x, order) + 1.0, CUBE, shape=expected.shape), expected + np.float32(1))
    same(computed(lambda tl, x: 2.0 - tl.permute(x * 2, order), CUBE, shape=expected.shape), 2 - expected * 2)
    found = computed(lambda tl, x: tl.permute(x * 2, order), CUBE, shape=expected.shape, ops=["mul", "rearrange"])
    same(found, expected * 2)


def test_transposed_values_are_operands(computed):
    y = FLOATS.T.copy()
    same(computed(lambda tl, x, y: x.T + y, FLOATS, y, shape=y.shape), y + y)
    same(computed(lambda tl, x, y: y * x.T, FLOATS, y, shape=y.shape), y * y)
    same(computed(lambda tl, x: tl.maximum(x.T, 0.0), FLOATS, shape=y.shape), np.maximum(y, 0))
    same(computed(lambda tl, x: x.T.to("f16"), FLOATS, shape=y.shape, dtype="f16"), y.astype(np.float16))
    same(computed(lambda tl, x: tl.reshape(x.T, 6, 20), FLOATS, shape=(6, 20)), y.reshape(6, 20))
    same(computed(lambda tl, x: (x > 0).T, FLOATS, shape=y.shape, dtype="bool"), y > 0)


def test_bitcasts_of_loaded_and_of_computed_values(computed):
    bits = FLOATS.view(np.int32)
    same(computed(lambda tl, x: tl.bitcast(x, "i32"), FLOATS, shape=bits.shape, dtype="i32", ops=[]), bits)
    doubled = (FLOATS * 2).view(np.uint32)
    found = computed(
        lambda tl, x: tl.bitcast(x * 2, "u32"), FLOATS, shape=bits.shape, dtype="u32", ops=["mul", "bitcast"]
    )
    same(found, doubled)
    back = computed(lambda tl, x: tl.bitcast(tl.bitcast(x * 2, "u32") & 0x7FFFFFFF, "f32"), FLOATS, shape=bits.shape)
    same(back, np.abs(FLOATS * 2))
    half = FLOATS.astype(np.float16)
    same(computed(lambda tl, x: tl.bitcast(x, "u16") >> 15, half, shape=half.shape, dtype="u16"), half.view("u2") >> 15)


def test_the_bits_of_a_loaded_value_are_known(computed):
    seen = []

    def function(tl, x):
        seen.append(np.array(tl.bitcast(x, "i32")))
        seen.append(tl.bitcast(x, "i32")[0, 0])
        return x

    computed(function, FLOATS, shape=FLOATS.shape)
    assert (seen[0] == FLOATS.view(np.int32)).all()
    assert seen[1] == int(FLOATS.view(np.int32)[0, 0])


def philox(counter, key, rounds=10):
    """Four words, by Python's integers."""
    words, keys = list(counter), list(key)
    for _ in range(rounds):
        one, two = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        words = [
            (two >> 32) ^ words[1] ^ keys[0], two % 2**32, (one >> 32) ^ words[3] ^ keys[1], one % 2**32
        ]  # fmt: skip
        keys = [(keys[0] + 0x9E3779B9) % 2**32, (keys[1] + 0xBB67AE85) % 2**32]
    return words


def uniform(word):
    signed = word - 2**32 if word >= 2**31 else word
    return np.float32(np.float32(-signed - 1 if signed < 0 else signed) * np.float32(4.6566127342e-10))


@pytest.mark.parametrize("seed", [0, 42, 2**40 + 7, -3])
@pytest.mark.parametrize("rounds", [10, 7])
def test_random_integers_are_those_of_philox(computed, seed, rounds):
    key = seed % 2**32, seed >> 32 & 0xFFFFFFFF
    expected = np.uint32([[philox((at, 0, 0, 0), key, rounds)[word] for at in range(9)] for word in range(4)])

    def function(tl, x):
        words = tl.randint4x(seed, tl.arange(9) + (x * 0).to("i32"), rounds)
        return tl.cat(tl.cat(words[0], words[1]), tl.cat(words[2], words[3]))

    found = computed(function, np.zeros((1, 9), np.float32), shape=(4, 9), dtype="u32")
    same(found, expected)
    first = computed(lambda tl, x: tl.randint(seed, tl.arange(9), rounds), FLOATS, shape=(9,), dtype="u32")
    same(first, expected[0])


def test_the_words_that_triton_prints_for_seed_42(computed):
    found = computed(lambda tl, x: tl.randint(42, tl.arange(2)), FLOATS, shape=(2,), dtype="u32")
    assert found.tolist() == [2632642643, 4242219303]


def test_offsets_of_64_bits_count_whole(computed):
    offset = np.int64([[5, 2**32 + 5, -1, 2**62]])
    expected = [philox((at % 2**32, at >> 32 & 0xFFFFFFFF, 0, 0), (1, 0))[0] for at in offset[0].tolist()]
    found = computed(lambda tl, o: tl.randint(1, o), offset, shape=(1, 4), dtype="u32")
    assert found.tolist() == [expected]
    found = computed(lambda tl, o: tl.randint(1, tl.bitcast(o, "u64")), offset, shape=(1, 4), dtype="u32")
    assert found.tolist() == [expected]


def test_a_seed_may_be_loaded(computed):
    seed = np.int64([2**35 + 9])
    found = computed(lambda tl, s: tl.randint(s, tl.arange(5)), seed, shape=(5,), dtype="u32")
    assert found.tolist() == [philox((at, 0, 0, 0), (9, 8))[0] for at in range(5)]


def test_random_floats(computed):
    words = [philox((at, 0, 0, 0), (7, 0)) for at in range(500)]
    expected = np.float32([uniform(each[0]) for each in words])
    found = computed(lambda tl, x: tl.rand(7, tl.arange(500)), FLOATS, shape=(500,))
    same(found, expected)
    assert 0 <= found.min() < 0.01
    assert 0.99 < found.max() < 1
    u1, u2 = (np.float64([uniform(each[at]) for each in words]) for at in (0, 1))
    normal = np.sqrt(-2 * np.log(np.maximum(u1, 1e-7))) * np.cos(2 * np.pi * u2)
    found = computed(lambda tl, x: tl.randn(7, tl.arange(500)), FLOATS, shape=(500,))
    np.testing.assert_allclose(found, normal, rtol=1e-5, atol=2e-6)
    four = computed(lambda tl, x: tl.rand4x(7, tl.arange(500))[3], FLOATS, shape=(500,))
    same(four, np.float32([uniform(each[3]) for each in words]))
    four = computed(lambda tl, x: tl.randn4x(7, tl.arange(500))[0], FLOATS, shape=(500,))
    np.testing.assert_allclose(four, normal, rtol=1e-5, atol=2e-6)


def test_large_blocks_of_random_numbers_are_worked_on_in_strips(computed):
    offset = np.arange(128 * 512, dtype=np.int32).reshape(128, 512)
    found = computed(lambda tl, offset: tl.rand(1, offset), offset, shape=(128, 512))
    assert np.unique(found).size > 65000
    assert abs(found.mean() - 0.5) < 0.005


REFUSED = {
    "topk of 21": (lambda tl, x, n: tl.topk(x, 21), "tl.topk of 21, needs a number from 1 to 20"),
    "flip axis 2": (lambda tl, x, n: tl.flip(x, 2), "tl.flip along axis 2, needs an axis from 0 to 1"),
    "sort axis 0.0": (lambda tl, x, n: tl.sort(x, 0.0), "tl.sort over axis 0.0, needs an axis from 0 to 1"),
    "sort axis 2": (lambda tl, x, n: tl.sort(x, 2), "tl.sort over axis 2, needs an axis from 0 to 1"),
    "gather floats": (
        lambda tl, x, n: tl.gather(x, x, 1),
        "tl.gather at 6 x 20 of f32, needs integers of the shape of x but",
    ),
    "gather beyond": (lambda tl, x, n: tl.gather(x, n, 1), r"tl.gather at -9 to 8, needs indices from 0 to 19"),
    "gather shape": (
        lambda tl, x, n: tl.gather(x, tl.arange(4), 1),
        "tl.gather at 4 of i32, needs integers of the shape",
    ),
    "histogram": (lambda tl, x, n: tl.histogram(x, 4), "tl.histogram of f32 in 4 bins, needs integers, and a positive"),
    "no bins": (lambda tl, x, n: tl.histogram(n, 0), "tl.histogram of i32 in 0 bins, needs integers, and a positive"),
    "split": (lambda tl, x, n: tl.split(x)[0], "tl.split of 6 x 20, needs a last axis of length 2"),
    "cat": (
        lambda tl, x, n: tl.cat(x, tl.sum(x, 1), 1),
        "tl.cat of 6 x 20 and 6 x 1 along axis 1, needs equal shapes but",
    ),
    "bitcast": (lambda tl, x, n: tl.bitcast(x, "f16"), "tl.bitcast of f32 to f16, needs a dtype as wide, and not bool"),
    "bitcast bool": (
        lambda tl, x, n: tl.bitcast(x > 0, "i8"),
        "tl.bitcast of bool to i8, needs a dtype as wide, and not",
    ),
    "broadcast": (
        lambda tl, x, n: tl.broadcast_to(x, (6, 1)),
        "tl.broadcast_to of 6 x 20 over 6 x 1, needs a shape that",
    ),
    "float offset": (lambda tl, x, n: tl.rand(1, x), "tl.randint of values of f32, needs integers of 64 bits at most"),
    "float seed": (lambda tl, x, n: tl.rand(1.5, n), "tl.philox of 1.5, needs integers of 64 bits at most"),
    "rounds": (lambda tl, x, n: tl.rand(1, n, 0), "n_rounds=0, needs a number from 1 to 100"),
    "uniform": (lambda tl, x, n: tl.uint_to_uniform_float(x), "tl.uint_to_uniform_float of f32, needs u32 or i32"),
    "text": (lambda tl, x, n: tl.flip("x"), "tl.flip of a str, needs a loaded or computed value"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_at_the_kernels_line(computed, name):
    function, message = REFUSED[name]
    with pytest.raises(KernelError, match=rf"test_layout_functions.py:\d+: got {message}"):
        computed(function, FLOATS, NUMBERS, shape=(6, 20))
