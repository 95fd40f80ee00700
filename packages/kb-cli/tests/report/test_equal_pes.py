"""Groups of PEs, by hand: equal ones, places whose PEs are equal one by one, and ranges of those that differ."""

from collections.abc import Iterator

import pytest

from kb_cli.report.elements.equal_pes import (
    PeGroup,
    equal_pes,
    folded_names,
    part_ranges,
    part_text,
    pe_groups,
)
from kb_dataexec.analysis import PathShare, PeShares


def pes(sips: int, cubes: int, per_cube: int) -> list[str]:
    return [f"sip{s}.cube{c}.pe{p}" for s in range(sips) for c in range(cubes) for p in range(per_cube)]


def share(block: str, of: float) -> PathShare:
    return PathShare(block=block, what="work", ps=round(1000 * of), share=of, line="", line_ps=0)


def leaves(groups: list[PeGroup] | tuple[PeGroup, ...]) -> Iterator[str]:
    for each in groups:
        yield from leaves(each.inner) if each.inner else each.pes


def test_names_of_pes_are_folded() -> None:
    assert folded_names(["pe0"]) == "pe0"
    assert folded_names(["pe0", "pe4"]) == "pe0 and pe4"
    assert folded_names(["pe0", "pe4", "pe7"]) == "3 PEs alike, pe0 to pe7"
    assert folded_names(["hbm0", "hbm4", "hbm7"], "memories") == "3 memories alike, hbm0 to hbm7"


def test_508_equal_pes_and_four_others_are_five_groups() -> None:
    every = pes(4, 16, 8)
    kinds = {pe: max(at - 507, 0) for at, pe in enumerate(every)}
    found = equal_pes(kinds)
    assert [each.name for each in found] == ["508 PEs alike, sip0.cube0.pe0 to sip3.cube15.pe3", *every[508:]]
    assert [each.inner for each in found] == [()] * 5


def test_512_pes_that_differ_stand_by_sip_then_cube() -> None:
    every = pes(4, 16, 8)
    found = equal_pes({pe: at for at, pe in enumerate(every)})
    assert [each.name for each in found] == [f"sip{sip} (128 PEs)" for sip in range(4)]
    assert [each.name for each in found[1].inner] == [f"sip1.cube{cube} (8 PEs)" for cube in range(16)]
    assert list(leaves(found)) == every


def test_sips_whose_pes_are_equal_one_by_one_share_their_cubes() -> None:
    """The SIPs are alike, so 16 groups have room for the cubes, each of which is in four SIPs."""
    every = pes(4, 16, 8)
    found = equal_pes({pe: pe.partition(".")[2] for pe in every})
    assert [each.name for each in found] == [f"4 cubes alike, sip0.cube{cube} to sip3.cube{cube}" for cube in range(16)]
    assert found[2].inner[7].pes == tuple(f"sip{sip}.cube2.pe7" for sip in range(4))
    assert sorted(leaves(found)) == sorted(every)


def test_the_one_sip_that_differs_stands_alone() -> None:
    kinds = {pe: (pe.startswith("sip2"), pe.partition(".")[2]) for pe in pes(3, 2, 9)}
    found = equal_pes(kinds, 3)
    assert [each.name for each in found] == ["sip0 and sip1 (36 PEs)", "sip2 (18 PEs)"]
    assert [each.name for each in found[0].inner] == [
        "sip0.cube0 and sip1.cube0 (18 PEs)",
        "sip0.cube1 and sip1.cube1 (18 PEs)",
    ]


@pytest.mark.parametrize("count", [17, 4096])
def test_pes_without_places_share_one_group_that_opens(count: int) -> None:
    (found,) = equal_pes({f"pe{at}": at for at in range(count)})
    assert found.name == f"{count} PEs, pe0 to pe{count - 1}"
    assert [each.pes for each in found.inner] == [(f"pe{at}",) for at in range(count)]


def test_ranges_count_pes_without_a_part_as_none() -> None:
    """Three PEs: b has 0.2, 0.2 and 0.5, of which the mean is 0.3; only the last has c."""
    views = [
        PeShares(pes=["pe0", "pe1"], shares=[share("b", 0.2)]),
        PeShares(pes=["pe2"], shares=[share("b", 0.5), share("c", 0.06)]),
    ]
    found = part_ranges(PeGroup("all", ("pe0", "pe1", "pe2")), views)
    assert [(each.block, each.least, each.most) for each in found] == [("b", 0.2, 0.5), ("c", 0.0, 0.06)]
    assert [each.mean for each in found] == pytest.approx([0.3, 0.02])
    assert [part_text(each) for each in found] == ["b: work 20.0 to 50.0 %", "c: work 0.0 to 6.0 %"]
    assert part_text(part_ranges(PeGroup("two", ("pe0", "pe1")), views)[0]) == "b: work 20.0 %"


def test_pes_that_differ_by_less_than_is_printed_share_a_row_that_says_so() -> None:
    """0.3, 0.3004 and 0.3009 are within 0.001 of the first, and 0.3011 is not."""
    views = [PeShares(pes=[f"pe{at}"], shares=[share("b", of)]) for at, of in enumerate((0.3, 0.3004, 0.3009, 0.3011))]
    found = pe_groups(views)
    assert [each.name for each in found] == ["3 PEs nearly alike, pe0 to pe2", "pe3"]
    assert [each.name for each in found[0].inner] == ["pe0", "pe1", "pe2"]
