"""Philox4x32 against the known answers that its authors publish."""

import numpy as np
import pytest

from kb_dataexec.arrays.philox import philox

ONES = 2**32 - 1


def words(counter, key, rounds=10, dtype=np.int64):
    given = [np.full((1, 1), each, np.uint64).astype(dtype) for each in (*counter, *key, rounds)]
    return [int(philox(*given, np.full((1, 1), word, dtype))[0, 0]) for word in range(4)]


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), (0, 0), [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ((ONES,) * 4, (ONES,) * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_the_known_answers_of_random123(counter, key, expected, dtype):
    assert words(counter, key, dtype=dtype) == expected


def test_the_rounds_are_those_of_numpys_generator_of_64_bits():
    """numpy has Philox4x64. With its multipliers and 64-bit words, the same steps give its numbers."""
    counter, key = [1, 2, 3, 4], [5, 6]
    state = np.random.Philox(counter=[0, 2, 3, 4], key=key)  # it counts up before it draws
    mask = 2**64 - 1
    for _ in range(10):
        one, two = 0xD2E7470EE14C6C93 * counter[0], 0xCA5A826395121157 * counter[2]
        counter = [(two >> 64) ^ counter[1] ^ key[0], two & mask, (one >> 64) ^ counter[3] ^ key[1], one & mask]
        key = [key[0] + 0x9E3779B97F4A7C15 & mask, key[1] + 0xBB67AE8584CAA73B & mask]
    assert state.random_raw(4).tolist() == counter


def test_counters_of_any_shape_and_their_lowest_bits():
    counter = np.arange(12, dtype=np.int64).reshape(3, 4) + 2**40
    zero = np.zeros((1, 1), np.int64)
    found = philox(counter, zero, zero, zero, zero + 2**33 + 7, zero, zero + 10, zero + 2)
    assert found.tolist() == [[words((at, 0, 0, 0), (7, 0))[2] for at in row] for row in np.arange(12).reshape(3, 4)]


def test_rounds_and_words_of_elements_are_their_own():
    counter = np.arange(4, dtype=np.uint32).reshape(1, 4)
    zero = np.zeros((1, 1), np.uint32)
    rounds, word = np.array([[10, 7, 0, 10]], np.uint32), np.array([[0, 1, 2, 3]], np.uint32)
    found = philox(counter, zero + 5, zero, zero, zero + 11, zero + 12, rounds, word)
    one_by_one = [
        philox(counter[:, at : at + 1], zero + 5, zero, zero, zero + 11, zero + 12, rounds[:, [at]], word[:, [at]])
        for at in range(4)
    ]
    np.testing.assert_array_equal(found, np.concatenate(one_by_one, axis=1))
    assert len({*found[0].tolist()}) == 4
