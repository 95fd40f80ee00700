"""Which values of dataclasses may be arguments and constants of kernels that are repeated: those that only compute."""

import collections
import dataclasses
import functools
import random
import reprlib
from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from kb_engine.fastforward.replay.purity import impurity_of

CALLS = []
RNG = random.Random(0)


def is_repeatable(*of):
    """Whether `impurity_of` finds nothing."""
    return impurity_of(*of) is None


def plain(tl, x):
    return tl.load(x)


@dataclass(frozen=True, order=True)
class Tile:
    rows: int
    cols: object = 4
    least: ClassVar[int] = 2

    def __post_init__(self):
        if self.rows < self.least:
            raise ValueError

    @property
    def both(self):
        return self.rows * self.cols


@dataclass(frozen=True)
class DeepTile(Tile):
    depth: int = 8


@dataclass(frozen=True, slots=True)
class SlottedTile:
    rows: int = 4


def nested(depth):
    """A value around *depth* others, of which each is there twice."""
    made = Tile(2)
    for _ in range(depth):
        made = Tile(2, (made, made))
    return made


@pytest.mark.parametrize(
    "value", [Tile(2), DeepTile(2, Tile(3)), SlottedTile(), nested(15)], ids=lambda value: type(value).__name__
)
def test_values_that_only_compute_are_repeated(value):
    assert is_repeatable(plain, [value])
    assert is_repeatable(lambda tl: value, [])


@dataclass
class Settable:
    rows: object = 4
    more: dict = field(default_factory=dict)


@dataclass(frozen=True)
class DrawingTile(Tile):
    @property
    def drawn(self):
        return RNG.random()


@dataclass(frozen=True)
class Comparing(Tile):
    def __eq__(self, other):
        return RNG.random() > 0.5


@dataclass(frozen=True)
class Making(Tile):
    @classmethod
    def one(cls):
        return cls(2)


@dataclass
class ListedTile(list):
    rows: int = 4


@dataclass(frozen=True, slots=True)
class HalfSlottedTile(Tile):
    depth: int = 8


@dataclass(eq=False)
class ByIdentity:
    rows: int = 4


@dataclass(repr=False)
class ShownByAddress:
    rows: int = 4


@dataclass(unsafe_hash=True)
class HashedByFields:
    rows: int = 4


@dataclass
class Indexed:
    rows: int = 4
    __getitem__ = CALLS.__getitem__


@dataclass
class Measured:
    rows: int = 4
    __len__ = CALLS.__len__


class Holder:
    def size(self):
        return 1


@dataclass
class OfHolder:
    rows: int = 4
    size = Holder().size


class OwnProperty(property):
    def __get__(self, instance, owner=None):
        return RNG.random()


@dataclass
class OfOwnProperty:
    rows: int = 4
    drawn = OwnProperty(lambda self: 1)


@dataclass
class MulticastFork:
    rows: int = 4
    replaced = dataclasses.replace


@dataclass
class Resetting:
    rows: int = 4


Resetting.reset = Resetting.__init__


@dataclass
class Shown:
    rows: int = 4

    @reprlib.recursive_repr()
    def __repr__(self):
        return str(RNG.random())


@dataclass
class Wrapped:
    rows: int = 4

    @functools.wraps(dataclasses.replace)
    def replaced(self):
        return RNG.random()


@dataclass
class WrappedOther:
    rows: int = 4

    @functools.wraps(collections.namedtuple)
    def made(self):
        return RNG.random()


@dataclass(slots=True)
class Answering:
    rows: int = 4

    def __getattr__(self, name):
        return 0


@dataclass
class Hiding:
    rows: int = 4
    __dict__ = property(lambda self: {})


class Meta(type):
    pass


@dataclass
class OfMeta(metaclass=Meta):
    rows: int = 4


def itself():
    made = Settable()
    made.rows = made
    return made


def compared_from_text():
    """A value whose class compares by code that no file has, as the code has that Python makes for a dataclass."""
    names = {"RNG": RNG, "dataclass": dataclass, "__name__": "made"}
    text = "@dataclass\nclass Made:\n    rows: int\n    def __eq__(self, other):\n        return RNG.random() > 0.5"
    exec(text, names)  # that is the case
    return names["Made"](2)


@pytest.mark.parametrize(
    "value",
    [
        DrawingTile(2),
        Comparing(2),
        Making(2),
        ListedTile(),
        Tile(2, object()),
        Settable(iter([1])),
        itself(),
        compared_from_text(),
        HalfSlottedTile(2),
        ByIdentity(),
        ShownByAddress(),
        HashedByFields(),
        Indexed(),
        Measured(),
        OfHolder(),
        OfOwnProperty(),
        MulticastFork(),
        Resetting(),
        Shown(),
        Wrapped(),
        WrappedOther(),
        Answering(),
        Hiding(),
        OfMeta(),
        nested(17),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_with_code_that_does_more_are_not(value):
    assert not is_repeatable(plain, [value])
    assert not is_repeatable(lambda tl: value, [])


def test_a_value_that_can_be_set_is_an_argument_and_no_constant():
    value = Settable([1])
    assert is_repeatable(plain, [value])
    assert not is_repeatable(lambda tl: value, [])
    assert is_repeatable(plain, [Tile(2, [1])])
    assert not is_repeatable(lambda tl: Tile(2, [1]).rows, [])


def sets_a_field(tl, value):
    value.rows = 1


def appends_to_a_field(tl, value):
    value.rows.append(1)


@pytest.mark.parametrize("kernel", [sets_a_field, appends_to_a_field])
def test_a_kernel_that_changes_its_arguments_is_not_repeated(kernel):
    assert not is_repeatable(kernel, [Settable([1])])


@dataclass
class Taking:
    rows: object

    def take(self):
        return self.rows.pop()


@pytest.mark.parametrize("arguments", [(Taking([1, 2]),), (Taking((1,)), [1]), (Taking((1,)), {"a": 1})])
def test_a_method_that_changes_a_list_is_not_repeated(arguments):
    """The method is checked before the list that it changes, whether that is a field or another argument."""
    assert not is_repeatable(lambda tl, *given: given[0].take(), arguments)
