"""Random numbers

The same numbers as in Triton: Philox4x32, whose counter is an offset and whose key is a seed.
"""

import numpy as np
from tl_given import gives

COMMON = "RandomNumbers"
_FOUR = "four ops of a vector program, philox"


def _words(seed, offset):
    """Four words for each offset."""
    words, keys = [np.uint64(offset), *(np.zeros(offset.shape, np.uint64) for _ in range(3))], [seed, 0]
    low, half = np.uint64(2**32 - 1), np.uint64(32)
    for _ in range(10):
        one, two = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        first, second = (two >> half) ^ words[1] ^ np.uint64(keys[0]), (one >> half) ^ words[3] ^ np.uint64(keys[1])
        words, keys = (
            [first, two & low, second, one & low],
            [keys[0] + 0x9E3779B9 & int(low), keys[1] + 0xBB67AE85 & int(low)],
        )
    return [each.astype(np.uint32).view(np.int32) for each in words]


def _uniform(words):
    return np.where(words < 0, ~words, words) * 4.6566127342e-10


def _normal(one, two):
    size = np.sqrt(-2 * np.log(np.maximum(_uniform(one), 1e-7)))
    return size * np.cos(2 * np.pi * _uniform(two)), size * np.sin(2 * np.pi * _uniform(two))


@gives(lambda x: _uniform(_words(7, np.arange(8))[0]), "one op of a vector program, philox, and five elementwise ones")
def tl_rand(tl, x, y):
    tl.store(y, tl.rand(7, tl.arange(8)))


@gives(
    lambda x: _normal(*_words(7, np.arange(8))[:2])[0],
    "two ops of a vector program, philox; ten elementwise and three transcendental ones",
)
def tl_randn(tl, x, y):
    tl.store(y, tl.randn(7, tl.arange(8)))


@gives(lambda x: _words(7, np.arange(8))[0], "one op of a vector program, philox")
def tl_randint(tl, x, y):
    tl.store(y, tl.bitcast(tl.randint(7, tl.arange(8)), "i32"))


@gives(lambda x: np.bitwise_xor.reduce(_words(7, np.arange(8))), _FOUR)
def tl_randint4x(tl, x, y):
    a, b, c, d = tl.randint4x(7, tl.arange(8))
    tl.store(y, tl.bitcast(a ^ b ^ c ^ d, "i32"))


@gives(lambda x: sum(map(_uniform, _words(7, np.arange(8)))), _FOUR + ", and five elementwise ones for each")
def tl_rand4x(tl, x, y):
    a, b, c, d = tl.rand4x(7, tl.arange(8))
    tl.store(y, a + b + c + d)


@gives(lambda x: _normal(*_words(7, np.arange(8))[2:])[1], _FOUR + ", and the ops of two `randn`")
def tl_randn4x(tl, x, y):
    tl.store(y, tl.randn4x(7, tl.arange(8))[3])


@gives(lambda x: _words(7, np.arange(8))[1])
def tl_philox(tl, x, y):
    words = tl.philox(7, tl.arange(8), 0, 0, 0)
    tl.store(y, tl.bitcast(words[1], "i32"))


@gives(lambda i: np.where(i < 0, ~i, i) * 4.6566127342e-10, "five ops of a vector program, elementwise")
def tl_uint_to_uniform_float(tl, i, y):
    tl.store(y, tl.uint_to_uniform_float(tl.load(i)))


@gives(
    lambda x: np.sqrt(-2 * np.log(x / 2)) * np.sin(np.pi * x),
    "four elementwise and two transcendental ops of a vector program, and two for each result",
)
def tl_pair_uniform_to_normal(tl, x, y):
    half = tl.load(x) * 0.5
    tl.store(y, tl.pair_uniform_to_normal(half, half)[1])
