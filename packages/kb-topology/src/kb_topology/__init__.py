"""Chips described in YAML: checked, expanded to a graph, routed and mapped to addresses."""

from typing import TYPE_CHECKING

from kb_messages import lazy_door

if TYPE_CHECKING:
    from kb_topology.chip.graph import Graph as Graph
    from kb_topology.chip.graph import Link as Link
    from kb_topology.chip.graph import Node as Node
    from kb_topology.chip.graph import NodeMemory as NodeMemory
    from kb_topology.chip.graph import Wire as Wire
    from kb_topology.chip.graph import exact as exact
    from kb_topology.chip.inventory import LinkGroup as LinkGroup
    from kb_topology.chip.inventory import count_kinds as count_kinds
    from kb_topology.chip.inventory import link_groups as link_groups
    from kb_topology.chip.slow_pes import SLOW as SLOW
    from kb_topology.chip.slow_pes import slow_text as slow_text
    from kb_topology.chip.spec import FORWARDING as FORWARDING
    from kb_topology.chip.spec import NODE_KEYS as NODE_KEYS
    from kb_topology.chip.spec import NodeKind as NodeKind
    from kb_topology.chip.spec import TopologySpec as TopologySpec
    from kb_topology.chip.validation import Validation as Validation
    from kb_topology.memory.address_map import AddressMap as AddressMap
    from kb_topology.memory.interleaved_hbm import InterleavedRegion as InterleavedRegion
    from kb_topology.memory.interleaved_hbm import MemoryRegion as MemoryRegion
    from kb_topology.routes.routing import Router as Router
    from kb_topology.routes.search import Interior as Interior
    from kb_topology.routes.search import Route as Route
    from kb_topology.routes.search import Search as Search
    from kb_topology.text.changes import parse_path as parse_path
    from kb_topology.text.changes import value_at as value_at
    from kb_topology.text.changes import with_values as with_values
    from kb_topology.text.checked import UnknownKeyError as UnknownKeyError
    from kb_topology.text.checked import WrongValueError as WrongValueError
    from kb_topology.text.checked import convert_checked as convert_checked
    from kb_topology.text.sentences import did_you_mean as did_you_mean
    from kb_topology.text.sentences import listing as listing
    from kb_topology.text.sentences import near_names as near_names
    from kb_topology.text.sizes import format_nbytes as format_nbytes
    from kb_topology.text.sizes import parse_nbytes as parse_nbytes
    from kb_topology.text.source import YamlSource as YamlSource
    from kb_topology.text.yaml_reader import YamlPath as YamlPath
    from kb_topology.text.yaml_reader import format_path as format_path
    from kb_topology.text.yaml_reader import read_yaml as read_yaml
    from kb_topology.topology import Topology as Topology
    from kb_topology.topology import load_topology as load_topology
    from kb_topology.topology import loads_topology as loads_topology

_NAMES = {
    "kb_topology.memory.address_map": ("AddressMap",),
    "kb_topology.text.changes": ("parse_path", "value_at", "with_values"),
    "kb_topology.text.checked": ("UnknownKeyError", "WrongValueError", "convert_checked"),
    "kb_topology.chip.graph": ("Graph", "Link", "Node", "NodeMemory", "Wire", "exact"),
    "kb_topology.memory.interleaved_hbm": ("InterleavedRegion", "MemoryRegion"),
    "kb_topology.chip.inventory": ("LinkGroup", "count_kinds", "link_groups"),
    "kb_topology.routes.routing": ("Router",),
    "kb_topology.routes.search": ("Interior", "Route", "Search"),
    "kb_topology.text.sentences": ("did_you_mean", "listing", "near_names"),
    "kb_topology.text.sizes": ("format_nbytes", "parse_nbytes"),
    "kb_topology.text.source": ("YamlSource",),
    "kb_topology.chip.slow_pes": ("SLOW", "slow_text"),
    "kb_topology.chip.spec": ("FORWARDING", "NODE_KEYS", "NodeKind", "TopologySpec"),
    "kb_topology.chip.validation": ("Validation",),
    "kb_topology.topology": ("Topology", "load_topology", "loads_topology"),
    "kb_topology.text.yaml_reader": ("YamlPath", "format_path", "read_yaml"),
}
if not TYPE_CHECKING:
    __getattr__, __dir__, __all__ = lazy_door(__name__, _NAMES)
