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
    assert addresses.label(slices[2] >> 32) == "sip0.cube0.hbm2"
    assert addresses.label(7) == ""


def test_every_cube_has_a_region_and_other_maps_stay(whole):
    plain, spread = whole(), whole("name: whole\n", "name: whole\nhbm_interleave_nbytes: 4096\n")
    assert plain.address_map.interleaved == {}
    assert spread.address_map.regions == plain.address_map.regions
    assert [region.node_id for region in spread.address_map.interleaved.values()] == [
        f"sip{sip}.cube{cube}.hbm" for sip in range(2) for cube in range(6)
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            ("count: 4, memory", "memory", "hbm[0:2]", "hbm", '"hbm[2:4]"', "hbm"),
            "256, and 1 slices of HBM in sip0.cube0",
        ),
        (("2 GiB}}", "3000 B}}"), "256, needs granules that the 3000 bytes of a slice are whole numbers of"),
    ],
)
def test_a_cube_that_cannot_interleave_is_refused(small, changes, said):
    with pytest.raises(TopologyError) as caught:
        small(NAME, GRANULES, *changes)
    assert str(caught.value).startswith(f"small.yaml:2:1: $.hbm_interleave_nbytes: got {said}")


@pytest.mark.parametrize("granule", ["100", "-64", "1.5"])
def test_a_granule_is_whole_bursts(small, granule):
    with pytest.raises(TopologyError, match=r"small\.yaml:2:1: \$\.hbm_interleave_nbytes: got"):
        small(NAME, f"{NAME}hbm_interleave_nbytes: {granule}\n")
