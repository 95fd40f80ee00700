"""The base of all views: the part of the chip that a picture shows, boxes for its nodes, and edges for its links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from kb_topology.chip.graph import Link, Node
from kb_topology.chip.spec import NodeKind as Kind
from kb_topology.diagram.chart import Box, Edge, Heat, Line, Style, percents
from kb_topology.diagram.content.attributes import all_lines, cut, head_lines
from kb_topology.diagram.content.facts import memories_over
from kb_topology.diagram.loads import LinkLoad, Loads, NodeLoad, heat_of, links_tip, nodes_tip
from kb_topology.text.sizes import format_nbytes
from kb_topology.topology import Topology

MOST = 16
"""More copies of a part than this are drawn as one box."""
STYLES: dict[Kind, Style] = {
    **dict.fromkeys((Kind.HBM, Kind.SRAM, Kind.PE_TCM), "memory"),
    **dict.fromkeys((Kind.XBAR, Kind.BRIDGE, Kind.NOC, Kind.UCIE, Kind.SERDES), "fabric"),
    **dict.fromkeys((Kind.PCIE_EP, Kind.IO_NOC), "io"),
    **dict.fromkeys((Kind.HOST, Kind.SWITCH), "outside"),
    **dict.fromkeys((Kind.PE_CPU, Kind.PE_SCHEDULER, Kind.PE_MMU, Kind.PE_QUEUE, Kind.M_CPU, Kind.IO_CPU), "command"),
}
_LEVELS = {"system": 0, "sip": 1, "cube": 2, "pe": 3}


class Part:
    """The content of a view: one SIP, IO chiplet, cube or PE of *topology*, and its load and the load of equal parts.

    *of* is the id of the part. Without it, the first part stands for all equal parts.
    """

    def __init__(self, topology: Topology, view: str, of: str, loads: Loads | None) -> None:
        self.topology, self.view, self.loads, self.of = topology, view, loads, of
        self.level = _LEVELS[view]
        first = ("sip0", "cube0", "pe0")[: self.level]
        self.names = tuple(of.split(".")) if of else first

    def _is_inside(self, node: Node) -> bool:
        return self.level == 0 or self.has(node)

    def has(self, node: Node) -> bool:
        """Whether *node* is in the part."""
        return self._names(node.id) == self.names

    def _names(self, node_id: str) -> tuple[str, ...]:
        return tuple(node_id.split(".")[: self.level])

    def local(self, node_id: str) -> str:
        """The id of a node without its part, the same for every part like this one."""
        return ".".join(node_id.split(".")[self.level :])

    @cached_property
    def _links(self) -> dict[tuple[str, str], list[tuple[tuple[str, str], LinkLoad]]]:
        found: dict[tuple[str, str], list[tuple[tuple[str, str], LinkLoad]]] = defaultdict(list)
        for (src, dst), load in self.loads.links.items() if self.loads else ():
            names = self._names(src)
            if names == self._names(dst) and (not self.of or names == self.names):
                found[self.local(src), self.local(dst)].append(((src, dst), load))
        return found

    @cached_property
    def _nodes(self) -> dict[str, list[tuple[str, NodeLoad]]]:
        found: dict[str, list[tuple[str, NodeLoad]]] = defaultdict(list)
        for node_id, load in self.loads.nodes.items() if self.loads else ():
            if not self.of or self._names(node_id) == self.names:
                found[self.local(node_id)].append((node_id, load))
        return found

    def link_loads(self, link: Link) -> list[tuple[tuple[str, str], LinkLoad]]:
        """The loads of *link*, which is inside the part, and of the links like it in other parts."""
        return self._links.get((self.local(link.src), self.local(link.dst)), [])

    def node_box(self, nodes: Sequence[Node], key: str, title: str, lines: Sequence[str] | None = None) -> Box:
        """The box of *nodes*, copies of one template. With a run, it shows their utilization in place of *lines*."""
        node = nodes[0]
        memories = self._interleaved(nodes)
        tip = [", ".join(str(node.id) for node in nodes[:1]), *all_lines(node), *memories]
        shown = (*head_lines(node), *map(cut, memories)) if lines is None else tuple(lines)
        heat = None
        if self.loads is not None:
            measured = [load for each in nodes for load in self._nodes.get(self.local(each.id), ())]
            heat = heat_of([load.utilization for _, load in measured])
            shown = shown[: 2 if node.memory else 1] if lines is None else shown
            shown += percents((heat,)) if heat else ()
            tip += [nodes_tip(measured)] if measured else ["not measured"]
        like = str(node.yaml_path[-1])
        return Box(key, title, shown, STYLES.get(node.kind, "compute"), like, "\n".join(tip), heat)

    def _interleaved(self, nodes: Sequence[Node]) -> list[str]:
        """`in dram` for an interleaved memory `dram` that lies over some of *nodes*."""
        names = dict.fromkeys(name for node in nodes for name in self._memories_over.get(node.id, ()))
        return [f"in {', '.join(names)}"] if names else []

    @cached_property
    def _memories_over(self) -> dict[str, list[str]]:
        """The names of the interleaved memories that lie over each slice of HBM."""
        return memories_over(self.topology.address_map)

    def group_box(self, inside: Sequence[Node], key: str, title: str, lines: Sequence[str], like: str) -> Box:
        """The box of a part, or of several, whose nodes are *inside*.

        With a run, it shows the busiest of the nodes, and stands for the part with this node; otherwise for the first.
        """
        if self.loads is None:
            tip = "\n".join((title, *lines))
            style: Style = "io" if like == "io" else "group"
            return Box(key, title, tuple(lines), style, like, tip, part=self._part_of(inside[0], like))
        measured = [load for node in inside for load in self._nodes.get(self.local(node.id), ())]
        if not measured:
            tip = f"{title}\nnot measured"
            return Box(key, title, tuple(lines), "group", like, tip, part=self._part_of(inside[0], like))
        nodes = self.topology.graph.nodes
        top = max(measured, key=lambda each: each[1].utilization)[0]
        of_kind = [(name, load) for name, load in measured if nodes[name].kind is nodes[top].kind]
        heat = heat_of([load.utilization for _, load in of_kind])
        shown = (nodes[top].kind.value, *percents((heat,))) if heat else ()
        tip = "\n".join((title, *lines, nodes_tip(of_kind)))
        return Box(key, title, shown, "group", like, tip, heat, part=self._part_of(nodes[top], like))

    def _part_of(self, node: Node, like: str) -> str:
        """The id of the part one level down that holds *node*; empty for an IO chiplet, which has no picture."""
        return "" if like == "io" else ".".join(node.id.split(".")[: self.level + 1])

    @cached_property
    def shown(self) -> list[Node]:
        """All nodes inside the part."""
        return [node for node in self.topology.graph.nodes.values() if self._is_inside(node)]

    def edges(self, box_of: Callable[[Node], str]) -> list[Edge]:
        """The links inside the part between different boxes. Equal links between two boxes are one edge."""
        nodes = self.topology.graph.nodes
        found: dict[tuple[str, str, tuple[str, ...], Line], list[Link]] = defaultdict(list)
        for link in self.topology.graph.links:
            src, dst = nodes[link.src], nodes[link.dst]
            if self._is_inside(src) and self._is_inside(dst) and box_of(src) != box_of(dst):
                found[box_of(src), box_of(dst), link_label(link), line_of(src, dst)].append(link)
        edges: dict[tuple[str, str, tuple[str, ...], Line], Edge] = {}
        for (a, b, label, line), links in found.items():
            back = found.get((b, a, label, line), [])
            if (b, a, label, line) not in edges:
                tip, heat = self.summary(links, back)
                edges[a, b, label, line] = Edge(a, b, label, line, not back, not back, tip, heat, len(links))
        return list(edges.values())

    def summary(self, links: Sequence[Link], back: Sequence[Link]) -> tuple[str, Heat | None]:
        """The tooltip of a line for *links* and, the other way, *back*, and the utilization of its busier direction."""
        first = links[0]
        lines = [f"{first.src} - {first.dst}: {', '.join(link_label(first))}, {first.latency_ps} ps"]
        heats: list[Heat] = []
        for way in (links, back):
            loads = [load for link in way for load in self.link_loads(link)]
            heat = heat_of([load.utilization for _, load in loads])
            if heat is not None:
                lines.append(links_tip(loads))
                heats.append(heat)
        return "\n".join(lines), max(heats, key=lambda heat: heat.top, default=None)


def line_of(src: Node, dst: Node) -> Line:
    """The kind of traffic on a link between the nodes."""
    kinds = {src.kind, dst.kind}
    if kinds & {Kind.PE_CPU, Kind.PE_QUEUE, Kind.M_CPU, Kind.IO_CPU}:
        return "command"
    return "memory" if kinds & {Kind.XBAR, Kind.BRIDGE, Kind.HBM, Kind.SRAM} and Kind.NOC not in kinds else "data"


def link_label(link: Link) -> tuple[str, ...]:
    """The bandwidth and the length of *link* as text, such as `128 GB/s` and `2 mm`. A wire without length has none."""
    bandwidth = f"{float(link.bw_gbs):g} GB/s"
    return (bandwidth, f"{float(link.length_mm):g} mm") if link.length_mm else (bandwidth,)


def near(row: Iterable[Box], above: Sequence[Sequence[Box]], edges: Sequence[Edge]) -> tuple[Box, ...]:
    """*row* ordered by the positions of the neighbours in the rows *above*, so that fewer lines cross."""
    place = places(above)

    def mean(box: Box) -> float:
        ends = [place[end] for edge in edges if box.key in (edge.a, edge.b) for end in (edge.a, edge.b) if end in place]
        return sum(ends) / len(ends) if ends else 0.5

    return tuple(sorted(row, key=mean))


def places(rows: Sequence[Sequence[Box]]) -> dict[str, float]:
    """The place of every box in its row, from 0 in the west to 1 in the east."""
    return {box.key: (i + 0.5) / len(row) for row in rows for i, box in enumerate(row)}


def memory_lines(topology: Topology) -> tuple[str, ...]:
    """The HBM and the SRAM of a cube."""
    lines = []
    for kind in (Kind.HBM, Kind.SRAM):
        nodes = [node for node in topology.graph.nodes_of_kind(kind) if node.sip == 0 and node.cube == 0]
        nbytes = sum(node.memory.nbytes for node in nodes if node.memory)
        lines += [f"{format_nbytes(nbytes)} {kind.value.upper()}"] if nbytes else []
    return tuple(lines)


def count(number: int, noun: str) -> str:
    """*number* and *noun* in the right form, such as `1 PE` and `2 PEs`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def numbered(key: str, number: int, copies: int) -> str:
    """The key of copy *number*; one key for all when there are too many to draw."""
    return f"{key}{number}" if copies <= MOST else key
