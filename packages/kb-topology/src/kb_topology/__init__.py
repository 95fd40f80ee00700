"""Chips described in YAML: checked, expanded to a graph, routed and mapped to addresses."""

from kb_topology.address_map import AddressMap
from kb_topology.changes import parse_path, value_at, with_values
from kb_topology.checked import convert_checked
from kb_topology.graph import Graph, Link, Node, NodeMemory, Wire, exact
from kb_topology.interleaved_hbm import InterleavedRegion
from kb_topology.inventory import LinkGroup, count_kinds, link_groups
from kb_topology.memory_region import MemoryRegion
from kb_topology.routing import Router
from kb_topology.search import Interior, Route, Search
from kb_topology.sentences import did_you_mean, listing
from kb_topology.sizes import format_nbytes, parse_nbytes
from kb_topology.source import YamlSource
from kb_topology.spec import FORWARDING, NODE_KEYS, NodeKind, TopologySpec
from kb_topology.topology import Topology, load_topology, loads_topology
from kb_topology.yaml_reader import YamlPath, format_path, read_yaml

__all__ = [
    "FORWARDING",
    "NODE_KEYS",
    "AddressMap",
    "Graph",
    "Interior",
    "InterleavedRegion",
    "Link",
    "LinkGroup",
    "MemoryRegion",
    "Node",
    "NodeKind",
    "NodeMemory",
    "Route",
    "Router",
    "Search",
    "Topology",
    "TopologySpec",
    "Wire",
    "YamlPath",
    "YamlSource",
    "convert_checked",
    "count_kinds",
    "did_you_mean",
    "exact",
    "format_nbytes",
    "format_path",
    "link_groups",
    "listing",
    "load_topology",
    "loads_topology",
    "parse_nbytes",
    "parse_path",
    "read_yaml",
    "value_at",
    "with_values",
]
