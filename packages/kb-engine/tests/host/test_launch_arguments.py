"""Arguments of a launch: containers keep their type, tensors become references, and tensors choose the PEs."""

import os
from collections import namedtuple
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from kb_engine.host.host import owning_cubes, rebuilt
from kb_engine.program.values.tensors import Tensor, TensorRef
from kb_messages import CubeTarget, KernelError

Pair = namedtuple("Pair", "left right")
TWO = (("toy\n", "toy\nsips: 2\ncubes_per_sip: 2\n"), ("pe_layout: {count: 1}", "pe_layout: {count: 2}"))
"""Two SIPs of two cubes of two PEs."""


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


@pytest.mark.parametrize(
    "make",
    [Pair, Operands, lambda a, b: (a, [b], ()), lambda a, b: [a, Pair(b, (a,))]],
    ids=["namedtuple", "NamedTuple", "nested tuple", "nested list"],
)
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


def targets(*wanted):
    return [CubeTarget(sip=sip, cube=cube) for sip, cube in wanted]


def test_a_cube_owns_a_tensor_when_a_part_of_it_is_in_its_memories(toy_host):
    host = toy_host(*TWO)
    a, b = (host.empty(name, (4, 4), "f16", slices=[number]) for name, number in (("a", 3), ("b", 1)))
    topology = host.engine.topology
    assert owning_cubes(topology, [a.ref]) == targets((1, 1))
    assert owning_cubes(topology, [7, [a.ref, (b.ref[0:2],)]]) == targets((0, 1), (1, 1))
    assert owning_cubes(topology, ["a"]) == []


def test_pes_and_targets_are_one_of_the_two(toy_host):
    with pytest.raises(KernelError) as caught:
        toy_host().launch(lambda tl: None, pes=[0], targets=targets((0, 0)))
    assert str(caught.value) == "launch: got pes and targets, needs one of the two"


def test_all_is_every_pe_for_any_arguments(toy_host):
    host = toy_host(*TWO)
    a = host.empty("a", (4, 4), "f16", slices=[0])
    assert len(host.launch(lambda tl, a: None, a).pe_start_ps) == 2
    assert len(host.launch(lambda tl, a: None, a, pes="all").pe_start_ps) == 8
