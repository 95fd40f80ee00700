from fractions import Fraction

import pytest

from kb_messages import TopologyError
from kb_topology import Link, Wire

BRIDGE_LINK = '{from: "xbar[*]", to: bridge, bw_gbs: 256, length_mm: 2.5}'


def test_a_link_is_two_directed_ones_with_exact_numbers_and_latency_rounded_up_once(small):
    hbm = [link for link in small().graph.links if "hbm0" in link.src + link.dst]
    # 3 mm x 7 ps/mm = 21 ps
    numbers = {"bw_gbs": Fraction(512, 5), "length_mm": Fraction(3), "latency_ps": 21}
    assert hbm == [
        Link(src="sip0.cube0.xbar0", dst="sip0.cube0.hbm0", **numbers),
        Link(src="sip0.cube0.hbm0", dst="sip0.cube0.xbar0", **numbers),
    ]


def test_a_latency_is_rounded_up_from_the_exact_product(small):
    # 2.5 mm x 7 ps/mm = 17.5 ps
    assert small().graph.out_links("sip0.cube0.bridge")[0].latency_ps == 18


def test_a_latency_is_exact_where_doubles_are_not(small):
    # 700 mm x 0.07 ps/mm = 49 ps; the product of the two doubles is above 49
    topology = small("wire_ps_per_mm: 7.0", "wire_ps_per_mm: 0.07", "length_mm: 2.5", "length_mm: 700")
    assert topology.graph.out_links("sip0.cube0.bridge")[0].latency_ps == 49


def test_a_one_way_link_has_no_way_back(small):
    graph = small("length_mm: 2.5}", "length_mm: 2.5, both_ways: false}").graph
    assert [link.src for link in graph.in_links("sip0.cube0.bridge")] == ["sip0.cube0.xbar0", "sip0.cube0.xbar1"]
    assert graph.out_links("sip0.cube0.bridge") == ()


def test_wires_are_those_of_every_pe(small):
    assert small().graph.wires == tuple(
        Wire(src=f"sip0.cube0.pe{pe}.pe_dma", dst=f"sip0.cube0.pe{pe}.pe_tcm") for pe in range(4)
    )


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (
            '{from: "xbar[*]", to: brige, bw_gbs: 256, length_mm: 2.5}',
            (
                "19:25: $.cube.links[4].to: got the unknown node 'brige', needs one of hbm, xbar, bridge, "
                "pe[...].pe_dma, pe[...].pe_tcm; did you mean 'bridge'?"
            ),
        ),
        (
            "{from: xbar, to: bridge, bw_gbs: 256, length_mm: 2.5}",
            "19:8: $.cube.links[4].from: got xbar, needs an index, as there are 2; write xbar[0] or xbar[*]",
        ),
        (
            "{from: bridge, to: bridge, bw_gbs: 256, length_mm: 2.5}",
            "19:7: $.cube.links[4]: got a link from bridge to itself, needs two different nodes",
        ),
        (
            '{from: "hbm[1]", to: "xbar[0]", bw_gbs: 256, length_mm: 2.5}',
            (
                "19:7: $.cube.links[4]: got a second link hbm1 -> xbar0, needs one; the first is at small.yaml:17:7; "
                "remove one"
            ),
        ),
        (
            '{from: "xbar[*]", to: "hbm[*]", bw_gbs: 256, length_mm: 2.5}',
            (
                "19:7: $.cube.links[4]: got a range of 2 nodes and one of 4, needs ranges of one length, or a single "
                "node on one side"
            ),
        ),
        (
            '{from: "xbar[*]", to: bridge, bw_gbs: 0, length_mm: 2.5}',
            "19:37: $.cube.links[4].bw_gbs: got 0, needs >= 0.001",
        ),
    ],
)
def test_a_link_that_cannot_be_is_refused_at_its_place(small, new, said):
    with pytest.raises(TopologyError) as caught:
        small(BRIDGE_LINK, new)
    assert str(caught.value) == f"small.yaml:{said}"


@pytest.mark.parametrize(
    ("new", "said"),
    [
        ("pe_dma", "got 'pe_dma', needs two nodes of the PE as in `a -> b`"),
        ("a -> b -> c", "got 'a -> b -> c', needs two nodes of the PE as in `a -> b`"),
        (
            "pe_dma -> pe_tmc",
            "got the unknown node 'pe_tmc', needs one of pe_dma, pe_tcm; did you mean 'pe_tcm'?",
        ),
        ("pe_dma -> pe_dma", "got a wire from pe_dma to itself, needs two different nodes"),
    ],
)
def test_a_wire_that_cannot_be_is_refused_at_its_place(small, new, said):
    with pytest.raises(TopologyError) as caught:
        small("pe_dma -> pe_tcm", new)
    assert str(caught.value) == f"small.yaml:13:13: $.cube.pe_template.wires[0]: {said}"


def test_a_second_wire_shows_where_the_first_is(small):
    with pytest.raises(TopologyError) as caught:
        small("[pe_dma -> pe_tcm]", "[pe_dma -> pe_tcm, pe_dma->pe_tcm]")
    assert str(caught.value) == (
        "small.yaml:13:31: $.cube.pe_template.wires[1]: got a second wire pe_dma -> pe_tcm, needs one; the first is at "
        "small.yaml:13:13; remove one"
    )
