"""Containers among the arguments of a launch keep their type, and tensors in them become references."""

import os
from collections import namedtuple
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from kb_engine.host.host import rebuilt
from kb_engine.program.values.tensors import Tensor, TensorRef
from kb_messages import KernelError

Pair = namedtuple("Pair", "left right")


class Operands(NamedTuple):
    a: object
    b: object = None
    scale: float = 1.0


class OneArgument(tuple):
    def __new__(cls, only):
        return super().__new__(cls, (only,))


class Labelled(list):
    def __init__(self, label, *items):
        super().__init__(items)
        self.label = label


class Closed(list):
    def __copy__(self):
        raise TypeError("closed")


@dataclass
class Config:
    tensor: object
    sizes: dict


def seen_by_a_kernel(host, *arguments):
    seen = []
    host.launch(lambda tl, *given: seen.extend(given), *arguments, pes=[0])
    return seen


@pytest.mark.parametrize("make", [Pair, Operands, lambda a, b: (a, [b], ()), lambda a, b: [a, Pair(b, (a,))]])
def test_tensors_in_containers_become_references(toy_host, make):
    host = toy_host()
    a, b = (host.empty(name, (4, 4), "f16") for name in "ab")
    given = make(a, b)
    (seen,) = seen_by_a_kernel(host, given)

    def same(one, other):
        if isinstance(one, Tensor):
            assert isinstance(other, TensorRef)
            assert other.tensor is one
        elif isinstance(one, (list, tuple)):
            assert type(one) is type(other)
            for each in zip(one, other, strict=True):
                same(*each)
        else:
            assert one is other

    same(given, seen)


def test_subclasses_keep_their_type_and_attributes(toy_host):
    host = toy_host()
    a = host.empty("a", (4, 4), "f16")
    one, labelled = seen_by_a_kernel(host, OneArgument(a), Labelled("x", a, 5))
    assert type(one) is OneArgument
    assert (type(labelled), labelled.label, labelled[1]) == (Labelled, "x", 5)
    assert isinstance(one[0], TensorRef)
    assert isinstance(labelled[0], TensorRef)


def test_all_else_reaches_the_kernel_unchanged(toy_host):
    host = toy_host()
    a = host.empty("a", (4, 4), "f16")
    given = [Config(a, {"x": 1}), {"a": a.ref}, {1, 2}, os.times(), Pair(1, 2), Closed([1]), None]
    assert all(new is old for new, old in zip(seen_by_a_kernel(host, *given), given, strict=True))


def test_containers_that_cannot_be_rebuilt_are_refused(toy_host):
    host = toy_host()
    a = host.empty("a", (4, 4), "f16")
    with pytest.raises(KernelError, match=r"^launch: got tensors in a Closed, needs them in a list or a tuple$"):
        host.launch(lambda tl, x: None, Closed([a]))
    with pytest.raises(KernelError, match="tensors in a times_result"):
        rebuilt(os.times(), [a])


def test_a_list_that_holds_itself_is_refused(toy_host):
    endless: list = []
    endless.append(endless)
    with pytest.raises(KernelError, match="nested too deep, or that hold themselves, needs arguments that end"):
        toy_host().launch(lambda tl, x: None, endless)
