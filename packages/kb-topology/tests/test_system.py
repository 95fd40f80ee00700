"""More than a cube: SIPs, IO chiplets, and what joins them."""

import pytest

from kb_messages import PhysAddr, TopologyError
from kb_topology import Router, loads_topology


def refusal(whole, *changes):
    with pytest.raises(TopologyError) as caught:
        whole(*changes)
    return str(caught.value)


def test_ids_say_where_a_node_is(whole):
    graph = whole().graph
    assert list(graph.nodes)[:11] == [
        "host",
        "switch",
        "sip0.io0.pcie_ep",
        "sip0.io0.io_noc",
        "sip0.io0.io_cpu",
        "sip0.io1.pcie_ep",
        "sip0.io1.io_noc",
        "sip0.io1.io_cpu",
        "sip0.cube0.hbm0",
        "sip0.cube0.hbm1",
        "sip0.cube0.noc",
    ]
    assert list(graph.nodes)[-1] == "sip1.cube5.pe1.pe_tcm"


def test_a_node_knows_where_it_is(whole):
    graph = whole().graph
    where = {
        node_id: (graph.nodes[node_id].sip, graph.nodes[node_id].io, graph.nodes[node_id].cube, graph.nodes[node_id].pe)
        for node_id in ("host", "sip1.io0.io_cpu", "sip1.cube3.noc", "sip0.cube5.pe1.pe_dma")
    }
    assert where == {
        "host": (None, None, None, None),
        "sip1.io0.io_cpu": (1, 0, None, None),
        "sip1.cube3.noc": (1, None, 3, None),
        "sip0.cube5.pe1.pe_dma": (0, None, 5, 1),
    }
    assert graph.node("sip1.cube3.pe0.pe_dma").pe_id == "sip1.cube3.pe0"
    assert graph.node("sip1.cube3.noc").pe_id is None
    assert len(graph.pe_ids) == 2 * 6 * 2


def test_memories_have_the_addresses_of_their_cube(whole):
    address_map = whole().address_map
    region = address_map.region_of_node("sip1.cube4.hbm1")
    address = PhysAddr.decode(region.base)
    assert (address.sip, address.die, address.unit) == (1, 4, 1)
    assert address_map.decode(region.base + 5) == (region, 5)


def test_links_of_every_level_are_in_every_copy(whole):
    links = {(link.src, link.dst) for link in whole().graph.links}
    assert {("host", "switch"), ("switch", "host"), ("switch", "sip1.io0.pcie_ep")} < links
    assert ("sip1.io1.io_noc", "sip1.cube1.ucie0") in links
    assert ("sip1.io1.io_noc", "sip1.io1.io_cpu") in links
    assert ("sip1.cube5.noc", "sip1.cube5.pe1.pe_dma") in links
    # system 4, a SIP 7 in the mesh and 2 from IO chiplets, 2 an IO chiplet, 8 a cube; all both ways
    assert len(links) == 2 * (4 + 2 * (7 + 2 + 2 * 2 + 6 * 8))


def test_wires_are_those_of_every_pe(whole):
    wires = whole().graph.wires
    assert len(wires) == 24
    assert (wires[-1].src, wires[-1].dst) == ("sip1.cube5.pe1.pe_dma", "sip1.cube5.pe1.pe_tcm")


def test_every_end_reaches_every_other(whole):
    topology = whole()
    router = Router(topology.graph)
    route = router.route("sip0.cube3.pe0.pe_dma", "sip1.cube2.hbm1")
    assert [node for node in route.nodes if "io" in node] == ["sip0.io1.io_noc", "sip1.io1.io_noc"]
    assert len(router.reachable("host")) == len(topology.graph.nodes) - 1 - 24  # no link leads to a TCM


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            '"sip[*].io[0].pcie_ep"',
            '"sip[*].ios[0].pcie_ep"',
            (
                "11:8: $.system.links[1].from: got the unknown part 'ios[0]', needs one of io[...]., cube[...].; "
                "did you mean 'io'?"
            ),
        ),
        (
            '"sip[*].io[0].pcie_ep"',
            '"sip[2].io[0].pcie_ep"',
            "11:8: $.system.links[1].from: got sip[2], needs indices from 0 to 1",
        ),
        (
            '"sip[*].io[0].pcie_ep"',
            '"sip[*].io.pcie_ep"',
            "11:8: $.system.links[1].from: got io, needs an index, as there are 2; write io[0] or io[*]",
        ),
        (
            '"sip[*].io[0].pcie_ep"',
            '"sip[*]"',
            (
                "11:8: $.system.links[1].from: got 'sip[*]', which has nodes of its own, needs one of host, switch, "
                "sip[...].io[...].pcie_ep, sip[...].io[...].io_noc, sip[...].io[...].io_cpu, sip[...].cube[...].hbm, "
                "sip[...].cube[...].noc, sip[...].cube[...].ucie, sip[...].cube[...].pe[...].pe_dma, "
                "sip[...].cube[...].pe[...].pe_tcm; name one, as in sip[*].NODE"
            ),
        ),
        (
            '"sip[*].io[0].pcie_ep"',
            '"host.io[0].pcie_ep"',
            (
                "11:8: $.system.links[1].from: got host., which is a node, needs a node at the end of an endpoint, "
                "after one of sip[...]."
            ),
        ),
        (
            '"sip[*].io[0].pcie_ep"',
            '"sip[-1].io[0].pcie_ep"',
            (
                "11:8: $.system.links[1].from: got 'sip[-1].io[0].pcie_ep', needs an endpoint (name, name[i], "
                "name[i:j] or name[*], after sip[...]. for a node of a SIP)"
            ),
        ),
        (
            '"io[*].io_noc", to',
            '"io_noc", to',
            (
                "17:8: $.sip.links[0].from: got 'io_noc', needs one of io[...].pcie_ep, io[...].io_noc, "
                "io[...].io_cpu, cube[...].hbm, cube[...].noc, cube[...].ucie, cube[...].pe[...].pe_dma, "
                "cube[...].pe[...].pe_tcm; write io[*].io_noc"
            ),
        ),
        (
            '"io[*].io_noc", to: "cube[0:2].ucie[0]"',
            '"cube[1].noc", to: "cube[1].ucie[0]"',
            ("17:7: $.sip.links[0]: got a link inside cube1, needs two different cubes; write it in $.cube.links"),
        ),
        (
            '"sip[0].io[1].io_noc", to: "sip[1].io[1].io_noc"',
            '"sip[0].io[1].io_noc", to: "sip[0].io[0].io_noc"',
            ("12:7: $.system.links[2]: got a link inside sip0, needs two different SIPs; write it in $.sip.links"),
        ),
        (
            '"io[*].io_noc", to: "cube[0:2].ucie[0]"',
            '"cube[0].ucie[1]", to: "cube[1].ucie[3]"',
            (
                "17:7: $.sip.links[0]: got a second link cube0.ucie1 -> cube1.ucie3, needs one; the first is at "
                "whole.yaml:14:3; remove one"
            ),
        ),
        ("sips: 2", "sips: 257", "3:1: $.sips: got 257, needs at most 256; an address has 8 bits for their number"),
        (
            "io_cpu: {kind",
            "io_cpu: {memory: {space: sram, size: 1}, kind",
            (
                "23:5: $.io.nodes.io_cpu: got a memory outside the cubes, needs a memory in a cube; put it in "
                "cube.nodes: an address names a SIP and a cube"
            ),
        ),
        (
            "    host: {",
            "    sip1: {",
            (
                "7:5: $.system.nodes.sip1: got the name 'sip1', needs lower-case letters, digits and _, and not sip, "
                "which stands for the SIPs"
            ),
        ),
        (
            "  count: 2\n",
            "  count: 0\n",
            "19:3: $.io.count: got 0, needs >= 1",
        ),
        (
            "  count: 2\n",
            "  cuont: 2\n",
            ("19:3: $.io.cuont: got an unknown key, needs one of nodes, count, links; did you mean 'count'?"),
        ),
    ],
)
def test_a_system_that_cannot_be_is_refused_at_its_place(whole, old, new, said):
    assert refusal(whole, old, new) == f"whole.yaml:{said}"


def test_a_system_of_more_than_a_million_nodes_is_refused_before_it_is_built(whole):
    # 2 + 256 SIPs x (6 + 6 cubes x (7 + 2 x 400))
    assert refusal(whole, "sips: 2", "sips: 256", "pe_layout: {count: 2}", "pe_layout: {count: 400}") == (
        "whole.yaml:5:1: $.system: got 1241090 nodes, needs at most 1000000; lower a count"
    )


def test_more_than_a_million_links_are_refused(whole):
    # 256 SIPs x 6 cubes x 2 ways x (2 + 400) links of a NOC = 1 234 944; 625 154 nodes
    said = refusal(whole, "sips: 2", "sips: 256", "count: 4}", "count: 400}")
    assert said == "whole.yaml:40:7: $.cube.links[1]: got more than 1000000 links, needs at most 1000000"


def test_copies_without_nodes_are_counted_too():
    text = "name: x\nwire_ps_per_mm: 7\nsips: 256\ncubes_per_sip: 256\ncube: {nodes: {}, pe_layout: {count: 1000}, "
    with pytest.raises(TopologyError) as caught:
        loads_topology(f"{text}pe_template: {{nodes: {{}}}}}}\n", "f.yaml")
    assert str(caught.value) == (
        "f.yaml:5:45: $.cube.pe_template: got 65536000 PEs, needs at most 1000000; lower a count"
    )
