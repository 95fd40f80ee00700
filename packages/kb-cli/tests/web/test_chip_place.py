"""Where the topology of `kb web` opens, and the ways to other parts."""

import pytest

from kb_cli.benchmark import bundled
from kb_cli.trace.traffic import UsedPart
from kb_cli.web.answers.chip_place import crumbs, hot_part, part_of, siblings
from kb_topology import Topology, load_topology


@pytest.fixture(scope="module")
def chip() -> Topology:
    return load_topology(bundled.find("topologies", "four_sip"))


def used(title: str, share: float | None) -> UsedPart:
    ends = tuple(title.split(" -> ")) if " -> " in title else ()
    return UsedPart(title, ends, share, 100.0, {})


@pytest.mark.parametrize(
    ("title", "part"),
    [
        ("sip0.cube3.hbm1", "sip0.cube3"),
        ("sip0.cube3.hbm1 -> sip0.cube3.xbar0", "sip0.cube3"),
        ("sip0.cube3.pe1.pe_dma -> sip0.cube3.noc0", "sip0.cube3"),
        ("sip0.cube3.ucie1 -> sip0.cube4.ucie3", "sip0"),
        ("sip0.cube1.ucie1 -> sip0.cube11.ucie3", "sip0"),
        ("sip2.io0.io_noc -> sip2.io0.pcie_ep", "sip2"),
        ("host -> sip0.io0.pcie_ep", ""),
        ("sip0.cube3.pe1.pe_tcm", "sip0.cube3.pe1"),
    ],
)
def test_a_link_or_a_memory_is_in_the_smallest_part_that_holds_it(title: str, part: str) -> None:
    assert part_of(used(title, 0.5)) == part


@pytest.mark.parametrize(
    ("found", "part", "view", "others"),
    [
        ([("sip1.cube3.hbm1", 0.9), ("sip1.cube4.hbm1", 0.8)], "sip1.cube3", "cube", 0),
        ([("sip1.cube3.hbm1", 0.9), ("sip1.cube4.hbm1", 0.82)], "sip1", "sip", 1),
        ([("sip1.cube3.hbm1", 0.9), ("sip2.cube3.hbm1", 0.9), ("sip2.cube3.hbm2", 0.9)], "", "system", 2),
        ([("host -> sip0.io0.pcie_ep", 0.3), ("sip0.cube0.hbm0", 0.1)], "", "system", 0),
        # memories inside of PEs count where no others are used
        ([("sip0.cube0.pe3.pe_tcm", 0.9), ("sip0.cube2.hbm0", 0.1)], "sip0.cube2", "cube", 0),
        ([("sip0.cube0.pe3.pe_tcm", 0.9)], "sip0.cube0.pe3", "pe", 0),
    ],
)
def test_the_smallest_part_with_all_that_is_hot_is_opened(
    chip: Topology, found: list[tuple[str, float]], part: str, view: str, others: int
) -> None:
    opened = hot_part(chip, [used(*each) for each in found])
    assert (opened.part, opened.view) == (part, view)
    assert opened.why is not None
    assert opened.why.others == others


def test_a_chip_that_nobody_used_opens_whole(chip: Topology) -> None:
    unknown = hot_part(chip, [used("sip0.cube0.hbm0", None)])
    assert (unknown.part, unknown.view, unknown.why) == ("", "system", None)


def test_steps_lead_to_a_part_and_others_are_beside_it(chip: Topology) -> None:
    assert [(each.name, each.part, each.shown) for each in crumbs(chip, "sip1.cube2.pe3")] == [
        ("four_sip", "", "system"),
        ("sip1", "sip1", "sip"),
        ("cube2", "sip1.cube2", "cube"),
        ("pe3", "sip1.cube2.pe3", "pe"),
    ]
    assert siblings(chip, "sip1") == ["sip0", "sip1", "sip2", "sip3"]
    assert siblings(chip, "sip1.cube2")[-1] == "sip1.cube15"
    assert siblings(chip, "sip1.cube2.pe3") == [f"sip1.cube2.pe{pe}" for pe in range(8)]
    assert siblings(chip, "") == []
