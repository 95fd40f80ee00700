"""Which kernels can be repeated: those whose code touches nothing but its own values."""

import math
import random
from enum import Enum
from functools import partial

import numpy as np
import pytest
from msgspec import Struct

from kb_engine import Language, TensorRef
from kb_engine.fastforward.replay.purity import impurity_of
from kb_messages import DType, TileShape

SIZE = 8
TABLE = {1: 2}
CALLS = []
RNG = random.Random(0)
TILE = TileShape(1, 2, 3)


def is_repeatable(*of):
    """Whether `impurity_of` finds nothing."""
    return impurity_of(*of) is None


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
    assert is_repeatable(kernel, [1, None, (2.5, "f16"), TileShape(1, 2, 3)])


def test_a_kernel_may_have_lists_and_dicts_that_it_does_not_change():
    assert is_repeatable(plain, [[3], {"a": DType.F32}])


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


def sets_numpy(tl):
    return np.seterr(over="raise")["over"]


def looks_at_settings_of_numpy(tl):
    return np.geterr()["over"]


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


def formats(tl):
    return f"{helper.__globals__['SIZE']}"


def looks_at_a_frame(tl):
    return (each for each in ()).gi_frame.f_globals["CALLS"]


def matches_private_parts(tl):
    match helper:
        case int(__globals__=names):
            return names["CALLS"]


def asks_for_the_time(tl):
    return np.datetime64("now")


def maps_a_file(tl):
    counts = np.memmap("counts", np.int64, "r+")
    counts[0] += 1


def loads_a_file(tl):
    return np.load("counts.npy")


def reads_a_file(tl):
    return np.lib.format.open_memmap("counts.npy")


def writes_a_file(tl):
    np.arange(4).tofile("counts")


def tells_of_numpy(tl):
    np.show_config()


def loads_by_another_name(tl):
    other = np
    return other.load("counts.npy")


def loads_by_a_default(tl, other=np):
    return other.load("counts.npy")


def loads_by_an_inner_name(tl):
    def inner(other=np):
        return other.load("counts.npy")

    return inner()


def closed_over_numpy(name):
    numpy = np

    def loads(tl):
        return (lambda: numpy.load("counts.npy"))()

    def computes(tl, x):
        return tl.load(x[: (lambda: int(numpy.prod((2, 3))))()])

    return {"loads": loads, "computes": computes}[name]


def loads_beside_numpy(tl, x):
    return tl.load(x[: int(np.linalg.norm(np.array([3.0, 4.0])))])


@pytest.mark.parametrize("kernel", [loads_beside_numpy, closed_over_numpy("computes")])
def test_kernels_that_compute_by_numpy_are_repeated(kernel):
    assert is_repeatable(kernel, [])


class Counted(dict):
    def __getitem__(self, name):
        CALLS.append(name)
        return super().__getitem__(name)


COUNTED = Counted(SIZE=1)
exec("def finds_its_names_otherwise(tl):\n    return SIZE", COUNTED)


def makes_a_class(tl):
    class Inner:
        pass

    return Inner()


@pytest.mark.parametrize(
    "kernel",
    [
        closed_over_a_list(), with_state, reads_a_table, calls_what_counts, draws, draws_by_numpy, sets_numpy,
        looks_at_settings_of_numpy, counts_globally, counts_on_itself, imports, catches, prints, shows,
        asks_for_its_state, asks_for_private_parts, identifies,
        asks_for_the_type, formats, looks_at_a_frame, matches_private_parts, asks_for_the_time,
        maps_a_file, loads_a_file, reads_a_file, writes_a_file, tells_of_numpy, loads_by_another_name,
        loads_by_a_default, loads_by_an_inner_name, closed_over_numpy("loads"),
        dict.__getitem__(COUNTED, "finds_its_names_otherwise"), Callable(), makes_a_class, len,
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)  # fmt: skip
def test_kernels_that_may_do_more_are_not(kernel):
    assert not is_repeatable(kernel, [])


def wrapped(function):
    def wrapper():
        return function()

    return wrapper


def nothing():
    return 0


def draws_a_number():
    return RNG.random()


def nothing_with(tl):
    return abs(tl.program_id() - 1)


def test_what_is_in_place_of_a_builtin_is_checked(monkeypatch):
    assert is_repeatable(nothing_with, [])
    for found, wanted in ((helper, True), (draws_a_number, False), (id, False), (Callable(), False), (len, True)):
        monkeypatch.setattr("builtins.abs", found)
        assert is_repeatable(nothing_with, []) == wanted


def calls_what_was_added(tl):
    return tl.added()


def calls_by_what_was_added(tl):
    return tl.other()


class Doubled:
    @property
    def counted(self):
        return counts(1)

    @staticmethod
    def static():
        return counts(1)

    @property
    def helped(self):
        return helper(1)


ADDED = vars(Doubled)


@pytest.mark.parametrize(
    ("added", "wanted"),
    [
        (helper, True), (plain, True), (np.prod, True), (np.arange, True), (np.full, True), (ADDED["helped"], True),
        (counts, False), (draws_a_number, False), (CALLS.append, False), (CALLS, False), (RNG.random, False),
        (print, False), (partial(helper, 1), False), (np.vectorize(counts), False),
        (np.frompyfunc(counts, 1, 1), False), (ADDED["counted"], False), (ADDED["static"], False),
        (calls_by_what_was_added, False),
    ],
)  # fmt: skip
def test_what_a_program_added_to_a_front_end_is_checked(added, wanted, monkeypatch):
    monkeypatch.setattr(Language, "other", counts, raising=False)
    monkeypatch.setattr(Language, "added", added, raising=False)
    assert is_repeatable(calls_what_was_added, [], Language) == wanted
    assert is_repeatable(nothing_with, [], Language)


def rounds(tl, x):
    return tl.load(x[: int(np.round(2.5))])


@pytest.mark.parametrize(
    ("found", "wanted"), [(helper, True), (np.prod, True), (draws_a_number, False), (CALLS, False)]
)
def test_what_a_program_put_into_numpy_is_checked(found, wanted, monkeypatch):
    monkeypatch.setattr(np, "round", found)
    assert is_repeatable(rounds, []) == wanted


def test_an_operator_that_a_program_replaced_is_checked(monkeypatch):
    for added, wanted in ((helper, True), (counts, False)):
        monkeypatch.setattr(TensorRef, "__getitem__", added)
        assert is_repeatable(nothing_with, []) == wanted


class Kind(Enum):
    FIRST = 1
    SECOND = 2


class Pair(tuple):
    pass


class Number(np.float64):
    pass


class Sized(Struct, frozen=True, dict=True):
    size: int


def attributed(tl, x):
    return x.size


def kind(tl):
    return Kind.FIRST.size


@pytest.mark.parametrize(
    "value", [Kind.FIRST, Pair((1, 2)), Number(1), Sized(3), DType.F16, [(Kind.FIRST,)]], ids=lambda x: type(x).__name__
)
def test_attributes_of_values_are_constants(value):
    has = vars(value[0][0] if isinstance(value, list) else value)
    assert is_repeatable(attributed, [value])
    for size, wanted in ((1, True), ((Kind.FIRST, "f16"), True), (Kind.SECOND, True), ([], False), (RNG, False)):
        try:
            has["size"] = size
            assert is_repeatable(attributed, [value]) == wanted
            assert is_repeatable(kind, []) == (wanted or has is not vars(Kind.FIRST))
        finally:
            del has["size"]


def asks_a_tile(tl):
    return TILE.added


def asks_its_argument(tl, x):
    return x.added


@pytest.mark.parametrize(
    ("kernel", "arguments", "kind"),
    [
        (asks_a_tile, [], TileShape),
        (asks_its_argument, [TileShape(1, 2, 3)], TileShape),
        (asks_its_argument, [[(TileShape(1, 2, 3),)]], TileShape),
        (asks_its_argument, [DType.F16], DType),
    ],
)
def test_what_a_program_added_to_the_class_of_a_value_is_checked(kernel, arguments, kind, monkeypatch):
    for added, wanted in ((ADDED["helped"], True), (ADDED["counted"], False)):
        monkeypatch.setattr(kind, "added", added, raising=False)
        assert is_repeatable(kernel, arguments) == wanted


def test_functions_of_one_code_are_checked_each():
    a_pure, b_drawing = wrapped(nothing), wrapped(draws_a_number)

    def calls_both(tl):
        return a_pure() + b_drawing()

    assert a_pure.__code__ is b_drawing.__code__
    assert is_repeatable(wrapped(nothing), [])
    assert not is_repeatable(calls_both, [])
