"""Which kernels can be repeated: those whose code touches nothing but its own values."""

import math
import random

import numpy as np
import pytest

from kb_engine.program.tensors import Tensor
from kb_engine.template.purity import is_repeatable, mutable_parts
from kb_messages import DType, TileShape

SIZE = 8
TABLE = {1: 2}
CALLS = []
RNG = random.Random(0)


def helper(x):
    return x * SIZE


def counts(x):
    CALLS.append(x)
    return x


def plain(tl, x, n):
    parts = [tl.load(x[k : k + n]) for k in range(0, helper(n), n)]
    total = sum(len(part.shape) for part in parts) + math.ceil(n / 3)
    mask = tl.arange(n) < min(n, total)
    tl.store(x[0:n], tl.exp(parts[0]).to(DType.F16), mask=mask)
    return TileShape(1, 2, 3)


def closed_over_numbers():
    size, tile = 4, (1, 2)

    def kernel(tl, x):
        def inner(start):
            nonlocal count
            count += 1
            return x[start : start + size + tile[0]]

        count = 0
        tl.load(inner(0))

    return kernel


@pytest.mark.parametrize("kernel", [plain, closed_over_numbers()])
def test_kernels_of_calls_and_numbers_are_repeated(kernel):
    assert is_repeatable(kernel, [1, None, (2.5, "f16"), [3], {"a": DType.F32}, TileShape(1, 2, 3)])


def closed_over_a_list():
    seen = []
    return lambda tl: seen.append(1)


def with_state(tl, seen=[]):  # noqa: B006 (that is the case)
    seen.append(1)


def reads_a_table(tl):
    return TABLE[1]


def calls_what_counts(tl):
    counts(1)


def draws(tl):
    return RNG.random()


def draws_by_numpy(tl):
    return np.random.rand()


def counts_globally(tl):
    global SIZE
    SIZE += 1


def counts_on_itself(tl):
    counts_on_itself.calls = 1


def imports(tl):
    import time

    return time.time()


def catches(tl, x):
    try:
        tl.load(x)
    except ValueError:
        return 1


def prints(tl):
    print(1)


def shows(tl, x):
    tl.print("x", x)


def asks_for_its_state(tl, x):
    return tl.load(x).is_pending


def asks_for_private_parts(tl):
    return tl._port


def identifies(tl, x):
    return id(x)


def asks_for_the_type(tl):
    return type(tl.program_id()) is int


class Callable:
    def __call__(self, tl):
        pass


def makes_a_class(tl):
    class Inner:
        pass

    return Inner()


@pytest.mark.parametrize(
    "kernel",
    [
        closed_over_a_list(), with_state, reads_a_table, calls_what_counts, draws, draws_by_numpy, counts_globally,
        counts_on_itself, imports, catches, prints, shows, asks_for_its_state, asks_for_private_parts, identifies,
        asks_for_the_type, Callable(), makes_a_class, len,
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)  # fmt: skip
def test_kernels_that_may_do_more_are_not(kernel):
    assert not is_repeatable(kernel, [])


@pytest.mark.parametrize("argument", [{1, 2}, object(), iter([1]), [[object()]], CALLS.append, np.zeros(2)])
def test_arguments_that_may_change_are_not_repeated(argument):
    assert not is_repeatable(plain, [argument])


def test_lists_and_dicts_are_compared_by_what_they_hold():
    tensor = Tensor(name="x", shape=(4,), dtype=DType.F32, row_bounds=(0, 1), col_bounds=(0, 4), addresses=((0,),))
    given = [[1, [2]], {"a": (tensor.ref, [3])}]
    before = mutable_parts(given)
    assert mutable_parts(given) == before
    given[1]["a"][1].append(4)
    assert mutable_parts(given) != before
