"""Pictures of a chip: the whole system, one SIP, one cube, one PE, as SVG."""

from kb_topology.diagram.layout import layout
from kb_topology.diagram.scene import Scene
from kb_topology.diagram.svg import render
from kb_topology.diagram.views import VIEWS, View, chart
from kb_topology.topology import Topology

__all__ = ["VIEWS", "Scene", "View", "chart", "draw", "layout", "render"]


def draw(topology: Topology, view: View) -> str:
    """The *view* of *topology* as an SVG document. Raises TopologyError when *topology* has no such part."""
    return render(layout(chart(topology, view)))
