from msgspec.structs import fields

from kb_topology.chip.spec import FORWARDING, NODE_KEYS, NodeKind, NodeTemplate


def test_a_route_never_passes_through_what_computes_stores_or_hosts():
    assert {
        NodeKind(name) for name in ("xbar", "bridge", "noc", "ucie", "serdes", "switch", "pcie_ep", "io_noc")
    } == FORWARDING


def test_every_key_of_a_node_is_reserved_except_the_attributes():
    assert {*NODE_KEYS, "attrs"} == {field.encode_name for field in fields(NodeTemplate)}
