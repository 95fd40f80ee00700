"""Which values may be arguments of kernels that are repeated, and which classes: those that only compute."""

import random
from enum import Enum, EnumMeta, IntEnum
from typing import NamedTuple

import numpy as np
import pytest
from msgspec import Struct

from kb_engine.fastforward.replay.purity import impurity_of, only_computes

CALLS = []
RNG = random.Random(0)


def is_repeatable(*of):
    """Whether `impurity_of` finds nothing."""
    return impurity_of(*of) is None


def plain(tl, x, n):
    return tl.load(x[0:n])


@pytest.mark.parametrize("argument", [{1, 2}, object(), iter([1]), [[object()]], CALLS.append, np.zeros(2)])
def test_arguments_that_may_change_are_not_repeated(argument):
    assert not is_repeatable(plain, [argument])


class Sizes(NamedTuple):
    rows: int
    cols: int = 4

    @property
    def both(self):
        return self.rows * self.cols


class Drawing(Sizes):
    @property
    def drawn(self):
        return RNG.random()


class Listed(list):
    def __getitem__(self, at):
        return RNG.random()


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Numbers(Enum):
    SOME = 1, 2


class Lists(Enum):
    SOME = [1]  # noqa: RUF012 (that is the case)


class Table(Sizes):
    calls = CALLS


class Field(Sizes):
    _fields = ("drawn",)

    @property
    def drawn(self):
        return RNG.random()


class OwnProperty(property):
    def __get__(self, instance, owner=None):
        return RNG.random()


class OfOwnProperty(Sizes):
    drawn = OwnProperty(lambda self: 1)


class Holder:
    def size(self):
        return RNG.random()


class OfHolder(Sizes):
    size = Holder().size


class Taking(NamedTuple):
    rows: list

    def take(self):
        return self.rows.pop()


class Bound(tuple):
    __getitem__ = RNG.getrandbits


class Named(EnumMeta):
    @property
    def drawn(cls):
        return RNG.random()


class OfNamed(Enum, metaclass=Named):
    SOME = 1


class Frozen(Struct, frozen=True):
    parts: object

    def first(self):
        return self.parts[0]


class Calling(Struct, frozen=True):
    def value(self):
        return RNG.random()


def is_plain(kind):
    return only_computes(plain, [], [kind], lambda _: None, [])


def made_from_text(text):
    """An object of class `Made`, as *text* defines it among names without `__name__`."""
    names = {"RNG": RNG}
    exec(text, names)  # that is the case
    return names["Made"]((1, 2))


FIRST_DRAWN = "class Made(tuple):\n    def __getitem__(self, at):\n        return RNG.random()"
FIRST_OF_TWO = "class Made(tuple):\n    def first(self):\n        return self[0]"


@pytest.mark.parametrize(
    "value",
    [made_from_text(FIRST_OF_TWO), Sizes(1), Level.LOW, Numbers.SOME, Frozen((1, 2)), slice(1, 2), np.float32(1)],
    ids=repr,
)
def test_values_that_only_compute_are_repeated(value):
    assert is_repeatable(plain, [value])
    assert is_repeatable(lambda tl: value, [])
    assert is_plain(type(value))


@pytest.mark.parametrize(
    "value",
    [
        made_from_text(FIRST_DRAWN),
        Drawing(1),
        Listed([1]),
        Table(1),
        Field(1),
        Bound((1,)),
        OfOwnProperty(1),
        OfHolder(1),
        Taking([1]),
        OfNamed.SOME,
        Calling(),
        np.zeros(1, "i4,i4")[0],
        (Drawing(1),),
        Frozen(Calling()),
        Lists.SOME,
    ],
    ids=repr,
)
def test_values_with_code_that_does_more_are_not(value):
    assert not is_repeatable(plain, [value])
    assert not is_repeatable(lambda tl: value, [])


def test_classes_with_code_that_does_more_are_not():
    assert [each for each in (Drawing, Listed, Table, Calling) if is_plain(each)] == []
    assert is_repeatable(lambda tl: Frozen(1), [])
    assert not is_repeatable(lambda tl: Calling(), [])


def sets_an_item(tl, values):
    values[0] = 1


def deletes_an_item(tl, values):
    del values[0]


def appends(tl, values):
    values.append(1)


def adds_in_place(tl, values):
    values += (1,)


def sums(tl, values):
    return values[0] + sum(values)


@pytest.mark.parametrize("kernel", [sets_an_item, deletes_an_item, appends, adds_in_place])
@pytest.mark.parametrize("argument", [[1], {"a": 1}, (1, [2]), Frozen([1]), slice(1, [2])], ids=repr)
def test_a_kernel_that_could_change_its_arguments_is_not_repeated(kernel, argument):
    assert is_repeatable(sums, [argument])
    assert is_repeatable(kernel, [(1, 2)])
    assert not is_repeatable(kernel, [argument])


@pytest.mark.parametrize("value", [Frozen([1]), slice(1, [2]), ([1],)], ids=repr)
def test_constants_with_lists_in_them_are_none(value):
    assert not is_repeatable(lambda tl: value, [])
