"""How tensors are cut up over SIPs, cubes and PEs."""

from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_engine.host.sharding import Sharding, block_bounds, layout, near_copies, sharding_of
from kb_messages import KernelError

PLACES = [(sip, cube) for sip in range(2) for cube in range(3) for _ in range(2)]  # 2 PEs in each of 2 x 3 cubes


def test_one_cut_at_all_levels_numbers_the_owners():
    cut = layout("a", Sharding(), PLACES)
    assert (cut.down, cut.along, cut.copies) == (12, 1, 1)
    assert cut.shards == tuple((0, number, 0) for number in range(12))


def test_levels_cut_in_different_ways_make_a_grid():
    cut = layout("a", Sharding(sips="replica", cubes="column", pes="row"), PLACES)
    assert (cut.down, cut.along, cut.copies) == (2, 3, 2)
    assert cut.shards == tuple((sip, pe, cube) for sip in range(2) for cube in range(3) for pe in range(2))


def test_a_cube_has_neighbouring_rows_and_its_pes_cut_them_up():
    cut = layout("a", Sharding(sips="replica", cubes="row", pes="row"), PLACES)
    assert [shard.i for shard in cut.shards] == [0, 1, 2, 3, 4, 5] * 2
    assert [shard.copy for shard in cut.shards] == [0] * 6 + [1] * 6


def test_an_owner_takes_the_copy_of_its_shard_and_others_one_of_their_cube_or_sip():
    replica = Sharding(sips="replica", cubes="replica", pes="replica")
    assert near_copies(layout("a", replica, PLACES), range(12), PLACES) == list(range(12))
    # Owners are the second PEs of the first cubes: copy 0 is in sip0.cube0, copy 1 in sip1.cube0.
    owners = [1, 7]
    cut = layout("a", replica, [PLACES[owner] for owner in owners])
    assert near_copies(cut, owners, PLACES) == [0] * 6 + [1] * 6
    assert near_copies(layout("a", replica, [PLACES[7]]), [7], PLACES) == [0] * 12
    # Two owners in one cube: each has its own, and other PEs of their SIP take the first.
    cut = layout("a", replica, [PLACES[8], PLACES[9]])
    assert near_copies(cut, [8, 9], PLACES)[6:] == [0, 0, 0, 1, 0, 0]


@given(st.tuples(*[st.sampled_from(["row", "column", "replica"])] * 3), st.tuples(*[st.integers(1, 3)] * 3))
def test_every_block_of_every_copy_has_one_owner(cuts, counts):
    places = [(sip, cube) for sip in range(counts[0]) for cube in range(counts[1]) for _ in range(counts[2])]
    cut = layout("a", Sharding(sips=cuts[0], cubes=cuts[1], pes=cuts[2]), places)
    assert sorted(cut.shards) == list(product(range(cut.copies), range(cut.down), range(cut.along)))


@given(st.integers(1, 50), st.data())
def test_parts_differ_by_one_at_most(size, data):
    bounds = block_bounds(size, data.draw(st.integers(1, size)))
    sizes = {last - first for first, last in pairwise(bounds)}
    assert min(sizes) >= max(sizes) - 1 >= 0
    assert (bounds[0], bounds[-1]) == (0, size)


def test_a_word_stands_for_all_levels():
    assert sharding_of("a", "column") == Sharding(sips="column", cubes="column", pes="column")


@pytest.mark.parametrize("shard", ["rows", Sharding(pes="rows")])
def test_another_word_is_refused(shard):
    with pytest.raises(KernelError) as caught:
        sharding_of("a", shard)
    assert str(caught.value) == "tensor a: got shard='rows', needs 'row', 'column' or 'replica'"


@pytest.mark.parametrize(
    ("places", "owners"),
    [
        ([(0, 0), (0, 0), (0, 1)], "2 of sip0.cube0, 1 of sip0.cube1"),
        ([(0, 0), (0, 1), (1, 0)], "1 of sip0.cube0, 1 of sip0.cube1, 1 of sip1.cube0"),
        ([], "none"),
    ],
)
def test_owners_that_are_unevenly_spread_are_refused(places, owners):
    with pytest.raises(KernelError) as caught:
        layout("a", Sharding(), places)
    assert str(caught.value) == (
        f"tensor a: got owners that are {owners}, needs equally many PEs of each cube and cubes of each SIP; "
        "name other owners"
    )
