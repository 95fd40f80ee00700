"""Pictures of a chip: the whole system, one SIP, one cube, one PE, as SVG.

Design: docs/design/topology.md.
"""

from kb_topology.diagram.cell import cell_html, cell_text
from kb_topology.diagram.chart import percent
from kb_topology.diagram.drawn.heat_colours import HEAT_COLOURS, ON_HEAT, PAGES, heat_step
from kb_topology.diagram.drawn.scene import Scene, flaws, text_width
from kb_topology.diagram.drawn.svg import render
from kb_topology.diagram.hosts import themed_style
from kb_topology.diagram.layout import layout
from kb_topology.diagram.loads import LinkLoad, Loads, NodeLoad, rounded_nbytes
from kb_topology.diagram.views import VIEWS, View, chart
from kb_topology.topology import Topology

__all__ = [
    "HEAT_COLOURS",
    "ON_HEAT",
    "PAGES",
    "VIEWS",
    "LinkLoad",
    "Loads",
    "NodeLoad",
    "Scene",
    "View",
    "cell_html",
    "cell_text",
    "chart",
    "draw",
    "flaws",
    "heat_step",
    "layout",
    "percent",
    "render",
    "rounded_nbytes",
    "text_width",
    "themed_style",
]


def draw(topology: Topology, view: View, of: str = "", loads: Loads | None = None) -> str:
    """The *view* of *topology* as an SVG document. *of* names the part to show, and *loads* give the colours.

    Without *of* the first part stands for all parts of the view, which are equal. Raises TopologyError when *topology*
    has no such part.
    """
    return render(layout(chart(topology, view, of, loads)))
