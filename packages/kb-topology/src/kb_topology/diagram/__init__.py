"""Pictures of a chip: the whole system, one SIP, one cube, one PE, as SVG.

Design: docs/design/topology.md.
"""

from kb_topology.diagram.chart import percent
from kb_topology.diagram.layout import layout
from kb_topology.diagram.loads import LinkLoad, Loads, NodeLoad, rounded_nbytes
from kb_topology.diagram.scene import Scene, flaws
from kb_topology.diagram.svg import render
from kb_topology.diagram.views import VIEWS, View, chart
from kb_topology.topology import Topology

__all__ = [
    "VIEWS",
    "LinkLoad",
    "Loads",
    "NodeLoad",
    "Scene",
    "View",
    "chart",
    "draw",
    "flaws",
    "layout",
    "percent",
    "render",
    "rounded_nbytes",
]


def draw(topology: Topology, view: View, of: str = "", loads: Loads | None = None) -> str:
    """The *view* of *topology* as an SVG document. *of* names the part to show, and *loads* give the colours.

    Without *of* the first part stands for all parts of the view, which are equal. Raises TopologyError when *topology*
    has no such part.
    """
    return render(layout(chart(topology, view, of, loads)))
