"""Tensors without a place: where they lie, and which PEs a launch on them has."""

import numpy as np
import pytest

from kb_messages import CubeTarget, owner_of, split_address
from kb_messages import MemorySpace as Space

FOUR = (
    ("name: toy\n", "name: toy\nsips: 2\ncubes_per_sip: 2\n"),
    ("pe_layout: {count: 1}", "pe_layout: {count: 2}"),
    ("impl: toy.hbm, count: 1", "impl: toy.hbm, count: 2"),
)
"""Two SIPs of two cubes, each of two PEs and two slices of HBM."""


def cubes(host, *arguments):
    return [(each.sip, each.cube) for each in host.default_targets(arguments)]


def homes(tensors):
    return [split_address(each.addresses[0][0])[0] for each in tensors]


INTERLEAVED = ("name: toy\n", "name: toy\nhbm_interleave_nbytes: 256\n")


@pytest.fixture
def host(toy_host):
    return toy_host(*FOUR)


def test_without_interleaving_the_cubes_of_the_first_sip_take_tensors_in_turn(host):
    """Cube 0, cube 1, then the second slice of each, then the first ones again."""
    found = homes([host.empty(name, (4, 4), "f16") for name in "abcde"])
    slices = [owner_of(0, cube, Space.HBM, unit) for unit in range(2) for cube in range(2)]
    assert found == [*slices, slices[0]]


def test_tensors_with_a_place_take_no_turn(host):
    host.empty("a", (4, 4), "f16", slices=[7])
    host.empty("b", (4, 4), "f16", memory="tcm")
    (first,) = homes([host.empty("c", (4, 4), "f16")])
    assert first == owner_of(0, 0, Space.HBM, 0)


def test_a_launch_on_a_tensor_without_a_place_has_all_pes_of_its_sip(host):
    a = host.empty("a", (4, 4), "f16")
    assert cubes(host, a) == cubes(host, a.ref, 3) == cubes(host, [(a,)]) == [(0, 0), (0, 1)]


def test_a_launch_on_a_tensor_with_a_place_has_the_pes_of_its_cubes(host):
    far = host.empty("far", (4, 4), "f16", slices=[7])
    near = host.empty("near", (4, 4), "f16")
    assert cubes(host, far) == [(1, 1)]
    assert cubes(host, near, far) == [(0, 0), (0, 1), (1, 1)]


def test_a_launch_without_tensors_has_all_pes(host):
    assert cubes(host, 1, "x") == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_tensor_at_the_place_of_a_freed_one_is_what_it_was_allocated_as(host):
    """The slice of the freed tensor is named, so the new tensor has a place."""
    old = host.empty("old", (4, 4), "f16")
    host.free(old)
    new = host.empty("new", (4, 4), "f16", slices=[0])
    assert new.addresses == old.addresses
    assert cubes(host, new) == [(0, 0)]


@pytest.mark.parametrize(
    ("place", "expected"), [({}, [(0, 0), (0, 1)]), ({"cube": 3}, [(1, 1)]), ({"memory": "sip1.hbm"}, [(1, 0), (1, 1)])]
)
def test_on_a_chip_that_interleaves_a_tensor_lies_over_the_first_sip(toy_host, place, expected):
    host = toy_host(INTERLEAVED, *FOUR)
    data = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    tensor = host.tensor("a", data, "f32", **place)
    assert cubes(host, tensor) == expected
    assert np.array_equal(host.read(tensor), data)


def test_the_pages_of_a_tensor_lie_in_all_slices_of_the_sip(toy_host):
    """Sixteen KiB are a page of 4 KiB in each of four slices, in the order of the cubes."""
    host = toy_host(INTERLEAVED, *FOUR)
    tensor = host.tensor("a", np.zeros((64, 64), np.float32), "f32")
    owner, offset = split_address(tensor.addresses[0][0])
    region = host.engine.topology.address_map.interleaved[owner]
    parts = region.interleaving.parts(offset, 1, 64 * 64 * 4, 64 * 64 * 4)
    assert [(each.number, each.row_nbytes) for each in parts] == [(number, 4096) for number in range(4)]
    names = [host.engine.topology.address_map.label(base >> 38) for base in region.slices]
    assert names == [f"sip0.cube{cube}.hbm{number}" for cube in range(2) for number in range(2)]


def test_default_targets_are_those_of_a_launch(host):
    seen = []
    host.launch(lambda tl, x: seen.append(tl.program_id()), host.empty("a", (4, 4), "f16", slices=[7]))
    assert len(seen) == 2
    assert host.default_targets([host.empty("a", (4, 4), "f16", slices=[7])]) == [CubeTarget(sip=1, cube=1)]
