"""Regions whose addresses run on over the HBM slices of a cube."""

import pytest

from kb_messages import Interleaving, MemorySpace, TopologyError, owner_of

NAME = "name: small\n"
GRANULES = f"{NAME}hbm_interleave_nbytes: 256\n"
GIB = 1 << 30


def test_a_cube_of_8_gib_has_two_regions_with_the_highest_units(small):
    addresses = small(NAME, GRANULES).address_map
    first, second = addresses.interleaved.values()
    assert [region.node_id for region in (first, second)] == ["sip0.cube0.hbm[0]", "sip0.cube0.hbm[1]"]
    assert [region.owner for region in (first, second)] == [owner_of(0, 0, MemorySpace.HBM, u) for u in (1022, 1023)]
    assert first.nbytes == second.nbytes == 4 * GIB == 4 * first.slice_nbytes
    slices = [addresses.region_of_node(f"sip0.cube0.hbm{number}").base for number in range(4)]
    assert first.slices == tuple(slices)
    assert second.slices == tuple(base + GIB for base in slices)
    assert first.interleaving == Interleaving(granule_nbytes=256, count=4)
    assert addresses.decode(second.base + 5) == (second, 5)
    assert addresses.label(first.owner) == "sip0.cube0.hbm[0]"
    assert addresses.label(slices[2] >> 38) == "sip0.cube0.hbm2"
    assert addresses.label(7) == ""


def test_every_cube_and_every_sip_has_a_region_and_other_maps_stay(whole):
    plain, spread = whole(), whole("name: whole\n", "name: whole\nhbm_interleave_nbytes: 4096\n")
    assert plain.address_map.interleaved == {}
    assert spread.address_map.regions == plain.address_map.regions
    assert [region.node_id for region in spread.address_map.interleaved.values()] == [
        f"sip{sip}.cube{cube}.hbm" for sip in range(2) for cube in range(6)
    ] + [f"sip{sip}.hbm[{number}]" for sip in range(2) for number in range(2)]


def test_tensors_without_a_place_lie_in_pages_over_the_slices_of_the_first_sip(whole):
    """Six cubes of two slices of 2 GiB: the last region has the highest 4 GiB, in whole rounds of twelve pages."""
    addresses = whole("name: whole\n", "name: whole\nhbm_interleave_nbytes: 256\n").address_map
    assert addresses.default_memory == "sip0.hbm"
    of_sip = [each for each in addresses.interleaved.values() if each.memory == "sip0.hbm"]
    assert {each.interleaving for each in of_sip} == {Interleaving(granule_nbytes=4096, count=12)}
    assert {each.cubes for each in of_sip} == {tuple((0, cube) for cube in range(6))}
    assert sum(each.nbytes for each in of_sip) == 12 * 2 * GIB
    assert of_sip[1].nbytes == 4 * GIB // (12 * 4096) * 12 * 4096
    assert not any(each.is_named or each.is_of_cube for each in of_sip)


def test_pages_of_a_sip_are_no_smaller_than_granules_of_cubes(whole):
    addresses = whole("name: whole\n", "name: whole\nhbm_interleave_nbytes: 65536\n").address_map
    assert {each.interleaving.granule_nbytes for each in addresses.interleaved.values()} == {65536}


def test_a_slice_that_holds_no_whole_pages_has_the_granules_of_a_cube(whole):
    addresses = whole("name: whole\n", "name: whole\nhbm_interleave_nbytes: 64\n", "size: 2 GiB", "size: 64064 B")
    granules = {each.memory: each.interleaving.granule_nbytes for each in addresses.address_map.interleaved.values()}
    assert granules["sip0.hbm"] == 64


def test_a_chip_of_one_cube_has_no_memory_of_a_sip(small):
    addresses = small(NAME, GRANULES).address_map
    assert addresses.default_memory is None
    assert all(each.is_of_cube for each in addresses.interleaved.values())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            ("count: 4, memory", "memory", "hbm[0:2]", "hbm", '"hbm[2:4]"', "hbm"),
            "256, and 1 slices of HBM in sip0.cube0",
        ),
        (("2 GiB}}", "3000 B}}"), "256, needs a granule that divides the 3000 bytes of a slice"),
    ],
)
def test_a_cube_that_cannot_interleave_is_refused(small, changes, said):
    with pytest.raises(TopologyError) as caught:
        small(NAME, GRANULES, *changes)
    assert str(caught.value).startswith(f"small.yaml:2:1: $.hbm_interleave_nbytes: got {said}")


SETS = f"""{NAME}interleaved:
  odd: {{slices: ["sip[0].cube[0].hbm[1:4]"], granule_nbytes: 4096, default: true}}
  two: {{slices: "sip[0].cube[0].hbm[0:2]", granule_nbytes: 64}}
"""


def test_a_set_of_slices_is_one_region(small):
    addresses = small(NAME, SETS).address_map
    odd, two = addresses.interleaved.values()
    assert (odd.node_id, odd.memory, odd.nbytes, odd.cubes, odd.is_named) == ("odd", "odd", 6 * GIB, ((0, 0),), True)
    assert odd.slices == tuple(addresses.region_of_node(f"sip0.cube0.hbm{number}").base for number in (1, 2, 3))
    assert odd.interleaving == Interleaving(granule_nbytes=4096, count=3)
    assert [each.unit for each in (odd, two)] == [1023, 1022]
    assert addresses.default_memory == "odd"


def test_a_set_may_lie_over_all_cubes_beside_the_memories_of_cubes(whole):
    changed = (
        "name: whole\nhbm_interleave_nbytes: 4096\n"
        'interleaved: {all: {slices: "sip[*].cube[*].hbm[*]", granule_nbytes: 64}}\n'
    )
    regions = list(whole("name: whole\n", changed).address_map.interleaved.values())
    assert [each.is_named for each in regions] == [True] + [False] * (12 + 2 * 2)
    assert regions[0].cubes == tuple((sip, cube) for sip in range(2) for cube in range(6))
    assert len({each.owner for each in regions}) == 1 + 12 + 2 * 2


def test_a_memory_over_256_gib_has_several_regions(small):
    addresses = small(NAME, SETS, "2 GiB}}", "200 GiB}}").address_map
    odd = [each for each in addresses.interleaved.values() if each.memory == "odd"]
    granules = (256 * GIB) // (3 * 4096)
    assert [each.node_id for each in odd] == ["odd[0]", "odd[1]", "odd[2]"]
    assert [each.slice_nbytes for each in odd] == [200 * GIB - 2 * granules * 4096, granules * 4096, granules * 4096]
    assert odd[1].slices[0] == odd[0].slices[0] + odd[0].slice_nbytes


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('{slices: "sip[0].cube[0].hbm[0]", granule_nbytes: 64}', "got 64, and 1 slices of HBM in odd"),
        ('{slices: "sip[0].cube[0].xbar[*]", granule_nbytes: 64}', "got sip0.cube0.xbar0, needs slices of HBM, each"),
        ('{slices: ["sip[0].cube[0].hbm[*]", "sip[0].cube[0].hbm[2]"], granule_nbytes: 64}', "got sip0.cube0.hbm2 twi"),
        ('{slices: "sip[0].cube[0].hmb[*]", granule_nbytes: 64}', "got the unknown node 'hmb'"),
        (
            '{slices: "sip[0].cube[0].hbm[*]", granule_nbytes: 192}',
            "got 192, needs a granule that divides the 2147483648 byt",
        ),
        ('{slices: "sip[0].cube[0].hbm[*]", granule_nbytes: 100}', "got 100"),
        ("{granule_nbytes: 64}", "got no 'slices', needs that key"),
    ],
)
def test_a_set_that_cannot_be_is_refused(small, given, said):
    with pytest.raises(TopologyError) as caught:
        small(NAME, f"{NAME}interleaved:\n  odd: {given}\n")
    assert str(caught.value).startswith("small.yaml:3:")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SETS.replace("odd:", "hbm:"), "the name 'hbm', needs lower-case letters"),
        (SETS.replace("odd:", "a.b:"), "the name 'a.b', needs lower-case letters"),
        (SETS.replace("granule_nbytes: 64}", "granule_nbytes: 64, default: true}"), "a default memory beside odd"),
        (SETS + "hbm_interleave_nbytes: 64\n", "a default memory beside hbm_interleave_nbytes, needs one default"),
    ],
)
def test_names_and_defaults_that_clash_are_refused(small, text, said):
    with pytest.raises(TopologyError, match=f"got {said}"):
        small(NAME, text)


@pytest.mark.parametrize("granule", ["100", "-64", "1.5"])
def test_a_granule_is_whole_bursts(small, granule):
    with pytest.raises(TopologyError, match=r"small\.yaml:2:1: \$\.hbm_interleave_nbytes: got"):
        small(NAME, f"{NAME}hbm_interleave_nbytes: {granule}\n")
