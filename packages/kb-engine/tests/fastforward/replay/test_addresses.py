"""Kernels in which the address of an object may decide something are not repeated."""

import os
import random
import time
from importlib import import_module

import pytest

from kb_engine.fastforward.replay.purity import impurity_of

SETS = "the kernel builds a set, whose order may follow from the addresses of its items"
TEXTS = "the kernel makes a text of a value, which may show the address of the value"
PRICES = {"a": 1}


def literal(tl, a):
    for each in {a, tl.load(a)}:
        tl.store(a, each)


def by_name(tl, a, b):
    for each in set([a, b]):  # noqa: C405 (that is the case)
        tl.load(each)


def frozen(tl, a, b):
    return [tl.load(each) for each in frozenset((a, b))]


def comprehension(tl, a):
    return [tl.load(each) for each in {part for part in (a, a[0:1])}]  # noqa: C416 (that is the case)


def inner(tl, a):
    def parts():
        return {a, a[0:1]}

    return parts()


def views(tl, a, prices):
    return prices.keys() & {}.keys()


def added_views(tl, a, prices):
    both = prices.items()
    both |= {}.items()
    return both


@pytest.mark.parametrize("kernel", [literal, by_name, frozen, comprehension, inner, views, added_views])
def test_the_order_of_a_set_may_follow_from_addresses(kernel):
    found = impurity_of(kernel, [None, PRICES])
    assert found is not None
    assert found.cause == SETS
    assert found.lineno > kernel.__code__.co_firstlineno


def text(tl, a):
    return int(str(tl)[-5:-1], 16) % 2


def formatted(tl, a):
    return tl.load(a[len(f"{tl}") : 99])


def shown(tl, a):
    return f"{a!r}"


def by_percent(tl, a):
    return "%s" % tl  # noqa: UP031 (that is the case)


def by_percent_of_an_argument(tl, a, how):
    return how % tl


def as_a_key(tl, a):
    return sorted([a, tl], key=str)


def mapped(tl, a):
    return [*map(str, [a])]


def raised_later(tl, a):
    said = f"{a}"
    if len(said) > 40:
        tl.load(a)
    raise ValueError(said)


@pytest.mark.parametrize(
    "kernel", [text, formatted, shown, by_percent, by_percent_of_an_argument, as_a_key, mapped, raised_later]
)
def test_a_text_of_an_object_may_show_its_address(kernel):
    found = impurity_of(kernel, [None, "%r"])
    assert found is not None
    assert found.cause == TEXTS


def raises(tl, a, n):
    if n % 7 == 0:
        raise ValueError(f"{n} is a week")
    if n > 3:
        raise ValueError(f"{n} of {tl}: " + str(a))
    if n < 0:
        raise ValueError("%r" % n)  # noqa: UP031 (that is the case)
    tl.load(a)


def asserted_by_the_front_end(tl, a, n):
    tl.static_assert(n > 3, f"{n!r} of {a}")


def looks_up(tl, a, n):
    """A text of which 50 % is a number."""
    return n in {1, 2, 3}, n % 2, PLACES[n % 3], isinstance(n, str), isinstance(n, (int, str))


PLACES = (1, "two", 3.0)


@pytest.mark.parametrize("kernel", [raises, asserted_by_the_front_end, looks_up])
def test_a_text_of_an_error_and_a_remainder_of_numbers_decide_nothing(kernel):
    assert impurity_of(kernel, [None, 2]) is None


def identity(tl, a):
    return id(a) % 3


def hashed(tl, a):
    return hash(a) % 3


def hashed_text(tl, a):
    return hash("a") % 3


def representation(tl, a):
    return repr(tl)


def clock(tl, a):
    return time.time()


def chance(tl, a):
    return random.random()


def surroundings(tl, a):
    return os.environ["HOME"]


def from_a_module(tl, a):
    return import_module("time")


def global_dict(tl, a):
    return PRICES["a"]


def closed_over(prices):
    def kernel(tl, a):
        return prices["a"]

    return kernel


@pytest.mark.parametrize(
    "kernel",
    [
        identity,
        hashed,
        hashed_text,
        representation,
        clock,
        chance,
        surroundings,
        from_a_module,
        global_dict,
        closed_over({"a": 1}),
        closed_over([1]),
    ],
)
def test_what_lies_outside_of_a_kernel_may_change(kernel):
    assert impurity_of(kernel, [None]) is not None
