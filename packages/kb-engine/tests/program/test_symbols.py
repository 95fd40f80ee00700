"""Symbols: their values for every program at once, and the programs that stay peers."""

import operator
import random
from typing import Any, NamedTuple

import numpy as np
import pytest

from kb_engine.program.values.symbols import Peers, Symbol, plain, whole

COUNT, NUMBER = 12, 5


class Pair(NamedTuple):
    one: Any
    two: Any


def peers_and_number():
    peers = Peers(NUMBER, COUNT)
    return peers, peers.own_number


def agreeing(peers):
    return np.flatnonzero(peers.agree).tolist()


def test_expressions_have_the_value_that_each_program_would_compute():
    rng = random.Random(3)
    operators = [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.and_, operator.or_,
                 operator.xor, operator.rshift, operator.lshift]  # fmt: skip
    for _ in range(400):
        peers, symbol = peers_and_number()
        sides = [(symbol, list(range(COUNT)))]
        for _ in range(rng.randint(1, 5)):
            function, constant = rng.choice(operators), rng.choice((1, 2, 3, 7, -4, 1 << 40))
            shifts = function in (operator.rshift, operator.lshift)
            if shifts:
                constant = rng.randint(0, 8)
            one, values = rng.choice(sides)
            swapped = rng.random() < 0.3 and not shifts
            if swapped and function in (operator.floordiv, operator.mod) and 0 in values:
                continue
            found = function(constant, one) if swapped else function(one, constant)
            wanted = [function(constant, each) if swapped else function(each, constant) for each in values]
            sides.append((found, wanted))
        for found, wanted in sides:
            assert int(found) == wanted[NUMBER]
            if type(found) is Symbol:
                assert all(found.values[each] == wanted[each] for each in agreeing(peers))
            else:
                assert all(wanted[each] == found for each in agreeing(peers))


def test_a_value_that_all_programs_share_is_a_number():
    peers, symbol = peers_and_number()
    assert [type(each) for each in (symbol * 0, symbol - symbol, symbol + 3 - symbol)] == [int] * 3
    assert (symbol * 0, symbol - symbol, symbol + 3 - symbol) == (0, 0, 3)
    assert type(symbol % 11) is Symbol  # the first and the last one are equal, and others are not
    assert agreeing(peers) == [*range(COUNT)]


@pytest.mark.parametrize(
    ("ask", "same"),
    [
        pytest.param(lambda n: n < 7, range(7), id="less than"),
        pytest.param(lambda n: n >= 4, range(4, COUNT), id="at least"),
        pytest.param(lambda n: n * 2 == 10, [5], id="equal"),
        pytest.param(lambda n: n != 5, [5], id="not equal"),
        pytest.param(lambda n: n < 1 << 70, range(COUNT), id="less than 71 bits"),
        pytest.param(lambda n: bool(n % 2), range(1, COUNT, 2), id="odd"),
        pytest.param(lambda n: not n // 4, range(4, COUNT), id="not of a quotient"),
        pytest.param(lambda n: min(n, 3), range(4, COUNT), id="min"),
        pytest.param(lambda n: max(n, 5), range(5, COUNT), id="max"),
        pytest.param(lambda n: n == "5", range(COUNT), id="equal to a text"),
        pytest.param(lambda n: [0] * 9 + [1] * (n // 8), range(8), id="length of a list"),
        pytest.param(lambda n: range(n // 3), [3, 4, 5], id="range"),
        pytest.param(lambda n: {n % 3: 1}, [2, 5, 8, 11], id="key of a dict"),
        pytest.param(lambda n: f"{n // 5}", range(5, 10), id="text"),
        pytest.param(lambda n: np.arange(3) + n // 6, range(6), id="array of numpy"),
        pytest.param(lambda n: n / 2, [5], id="true division"),
        pytest.param(lambda n: (n // 4) * 0.5, range(4, 8), id="product with a float"),
        pytest.param(lambda n: n % 4 < 1.5, range(1, COUNT, 4), id="less than a float"),
        pytest.param(lambda n: (n // 4) << 2, range(COUNT), id="shift left"),
        pytest.param(lambda n: 1 << (n // 4), range(4, 8), id="shift of 1"),
        pytest.param(lambda n: (n // 4).bit_length(), range(4, 8), id="bit_length"),
        pytest.param(lambda n: abs(-n) + 3, range(COUNT), id="abs"),
        pytest.param(lambda n: n - n, range(COUNT), id="difference"),
        pytest.param(lambda n: divmod(n, 5)[1] == 0, [0, 5, 10], id="divmod"),
    ],
)  # fmt: skip
def test_an_operation_that_needs_the_number_narrows_down_the_peers(ask, same):
    peers, symbol = peers_and_number()
    found, wanted = ask(symbol), ask(NUMBER)
    assert agreeing(peers) == list(same)
    if type(found) is not Symbol:
        assert np.array_equal(found, wanted)


def test_a_difference_that_all_programs_share_is_a_number():
    _, symbol = peers_and_number()
    found = (symbol * 64 + 32) - symbol * 64
    assert type(found) is int
    assert found == 32


def test_numbers_beyond_64_bits_are_numbers_of_python():
    peers, symbol = peers_and_number()
    assert (symbol * (1 << 40)) * (1 << 30) == 5 << 70
    assert agreeing(peers) == [NUMBER]


def test_a_symbol_passes_for_an_integer_and_is_none():
    _, symbol = peers_and_number()
    assert isinstance(symbol, int)
    assert whole(symbol) is symbol
    with pytest.raises(AttributeError, match="'int' object has no attribute 'shape'"):
        _ = symbol.shape
    with pytest.raises(TypeError):
        symbol + "a"


def test_after_the_trace_a_symbol_is_the_number_that_all_agreed_on_or_an_error():
    peers, symbol = peers_and_number()
    assert plain(symbol // 4) == 1
    pinned = symbol // 2
    assert plain(pinned) == 2
    peers.close()
    assert (pinned + 1, pinned == 2, hash(pinned)) == (3, True, hash(2))
    with pytest.raises(RuntimeError, match="a symbol that outlives its trace"):
        symbol + 1


def test_a_division_by_zero_is_that_of_the_traced_program():
    peers, symbol = peers_and_number()
    with pytest.raises(ZeroDivisionError):
        10 // (symbol - NUMBER)
    peers, symbol = peers_and_number()
    assert 10 // symbol == 2
    assert agreeing(peers) == [NUMBER]


@pytest.mark.parametrize(
    "compute",
    [
        pytest.param(lambda n: n * np.float32(0.1), id="times float32"),
        pytest.param(lambda n: np.float32(0.1) * n, id="float32 times"),
        pytest.param(lambda n: n / np.float32(3), id="over float32"),
        pytest.param(lambda n: np.uint8(3) + n, id="uint8 plus"),
        pytest.param(lambda n: np.minimum(n, np.int8(3)), id="minimum"),
        pytest.param(lambda n: np.arange(4, dtype=np.int8) + n, id="array plus"),
        pytest.param(lambda n: np.where([True, False], n, np.int8(1)), id="where"),
        pytest.param(lambda n: np.clip(7, 0, a_max=n), id="clip"),
        pytest.param(lambda n: np.stack(Pair(n, n)), id="stack"),
        pytest.param(lambda n: n < np.int64(7), id="less than int64"),
        pytest.param(lambda n: n == np.uint8(5), id="equal to uint8"),
        pytest.param(lambda n: ~(n < np.int64(3)), id="not of a comparison"),
        pytest.param(lambda n: (n > np.int64(3)) + np.int8(1), id="comparison plus int8"),
    ],
)
def test_arithmetic_with_numbers_of_numpy_gives_the_results_of_numpy(compute):
    _, symbol = peers_and_number()
    found, wanted = compute(symbol), compute(NUMBER)
    assert (type(found), np.asarray(found).dtype) == (type(wanted), np.asarray(wanted).dtype)
    assert np.array_equal(found, wanted)


def test_a_number_of_numpy_overflows_in_its_own_type():
    _, symbol = peers_and_number()
    with np.errstate(over="ignore"):
        assert np.uint8(3) - symbol == np.uint8(254)
        assert symbol + np.int8(125) == np.int8(-126)


def test_programs_on_one_side_of_a_number_of_numpy_stay_peers():
    peers, symbol = peers_and_number()
    assert symbol < np.int64(7)
    assert agreeing(peers) == [*range(7)]
