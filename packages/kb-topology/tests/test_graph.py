from fractions import Fraction

import pytest

from kb_messages import TopologyError
from kb_topology import NodeKind, exact


def test_numbers_are_the_decimals_that_were_written():
    assert exact(102.4) == Fraction(512, 5)
    assert exact(1e-3) == Fraction(1, 1000)
    assert exact(7) == 7


def test_links_are_found_from_both_ends(small):
    graph = small().graph
    links = graph.in_links("sip0.cube0.pe3.pe_dma")
    assert [(link.src, link.dst) for link in links] == [("sip0.cube0.xbar1", "sip0.cube0.pe3.pe_dma")]
    assert [link.dst for link in graph.out_links("sip0.cube0.bridge")] == ["sip0.cube0.xbar0", "sip0.cube0.xbar1"]
    assert graph.out_links("sip0.cube0.pe3.pe_tcm") == ()


def test_wires_are_found_from_their_source(small):
    assert [wire.dst for wire in small().graph.out_wires("sip0.cube0.pe1.pe_dma")] == ["sip0.cube0.pe1.pe_tcm"]


def test_nodes_are_found_by_kind_and_by_pe(small):
    graph = small().graph
    assert [node.id for node in graph.nodes_of_kind(NodeKind.XBAR)] == ["sip0.cube0.xbar0", "sip0.cube0.xbar1"]
    assert graph.pe_ids == tuple(f"sip0.cube0.pe{i}" for i in range(4))
    assert [node.kind.value for node in graph.pe_nodes("sip0.cube0.pe2")] == ["pe_dma", "pe_tcm"]


def test_a_pe_has_a_place(small):
    assert small().graph.pe_places == {f"sip0.cube0.pe{i}": ((0, 0), i) for i in range(4)}


def test_a_node_knows_its_pe(small):
    graph = small().graph
    assert graph.node("sip0.cube0.pe2.pe_dma").pe_id == "sip0.cube0.pe2"
    assert graph.node("sip0.cube0.bridge").pe_id is None


@pytest.mark.parametrize("ask", ["node", "out_links", "in_links", "out_wires"])
def test_an_unknown_node_is_refused_with_the_nearest_name(small, ask):
    with pytest.raises(TopologyError) as caught:
        getattr(small().graph, ask)("sip0.cube0.brige")
    assert str(caught.value) == (
        "node: got 'sip0.cube0.brige', needs the id of a node; did you mean 'sip0.cube0.bridge'?"
    )


def test_an_unknown_pe_is_refused(small):
    with pytest.raises(TopologyError) as caught:
        small().graph.pe_nodes("pe9")
    assert str(caught.value) == "PE: got 'pe9', needs the id of a PE; did you mean 'sip0.cube0.pe3'?"
