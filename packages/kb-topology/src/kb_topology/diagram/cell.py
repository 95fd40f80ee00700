"""A chip in a cell of a notebook: its sizes and its pictures as HTML, and its sizes as text."""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from kb_topology.chip.inventory import link_groups
from kb_topology.diagram.drawn.heat_colours import PAGES
from kb_topology.diagram.drawn.svg import render
from kb_topology.diagram.hosts import themed_style
from kb_topology.diagram.layout import layout
from kb_topology.diagram.loads import rounded_nbytes
from kb_topology.diagram.views import View, chart
from kb_topology.topology import Topology

MOST_NBYTES: Final = 60_000
"""The most bytes of both pictures of a chip; one that is larger is left out. Base64 makes them a third larger."""
_MOST_LINKS: Final = 4
_CLASS: Final = "kb-chip"
_SHEET: Final = (
    themed_style(
        _CLASS,
        f"--kb-page:{PAGES[0]};--kb-ink:#22262b;--kb-soft:#59636e",
        f"--kb-page:{PAGES[1]};--kb-ink:#e6e9ec;--kb-soft:#9ba6b1",
    )
    + f".{_CLASS}{{background:var(--kb-page);color:var(--kb-ink);padding:14px 18px;border-radius:6px;"
    f"max-width:980px;font:14px/1.5 system-ui,sans-serif}}"
    f".{_CLASS} p{{margin:0 0 4px;font-size:13px}}.{_CLASS} .soft{{color:var(--kb-soft)}}"
    f".{_CLASS} img{{display:block;max-width:100%;height:auto;margin:8px 0 0}}"
)


def cell_text(topology: Topology) -> str:
    """The name of *topology*, and below it its description, its parts, its memories, and its links."""
    return "\n  ".join([topology.name, *_facts(topology)])


def cell_html(topology: Topology) -> str:
    """*topology* as an element of HTML without script: the text, a picture of the whole, and one of a cube.

    The pictures are images, so their styles and names do not meet those of the page.
    """
    facts = [f'<p class="soft">{escape(each)}</p>' for each in _facts(topology)]
    parts = [f"<style>{_SHEET}</style>", f"<p><b>{escape(topology.name)}</b></p>", *facts, *_pictures(topology)]
    return f'<div class="{_CLASS}">{"".join(parts)}</div>'


def _facts(topology: Topology) -> list[str]:
    spec, graph = topology.spec, topology.graph
    counts = (spec.sips, "SIP"), (spec.sips * spec.cubes_per_sip, "cube"), (len(graph.pe_ids), "PE")
    memories: Counter[tuple[str, int]] = Counter()
    for run in topology.address_map.runs():
        memories[run[0].space.value, run[0].nbytes] += len(run)
    sizes = [f"{count:,} x {space} of {rounded_nbytes(nbytes)}" for (space, nbytes), count in memories.items()]
    groups = sorted(link_groups(graph), key=lambda each: -each.total_gbs)
    links = [f"{each.links:,} x {each.a} - {each.b} of {each.bw_gbs:g} GB/s" for each in groups[:_MOST_LINKS]]
    more = len(groups) - _MOST_LINKS
    found = [topology.description] if topology.description else []
    found.append(", ".join(f"{count:,} {name}{'s' * (count != 1)}" for count, name in counts))
    found += [f"memories: {', '.join(sizes)}"] if sizes else []
    found += [f"links: {', '.join(links)}{f' and {more} more kinds' if more > 0 else ''}"] if links else []
    if topology.slow:
        found.append("slow PEs: " + ", ".join(f"{pe} x {factor:g}" for pe, factor in topology.slow.items()))
    return found


def _pictures(topology: Topology) -> list[str]:
    spec = topology.spec
    whole: View = "system" if spec.sips > 1 else "sip" if spec.cubes_per_sip > 1 else "cube"
    views: list[View] = list(dict.fromkeys((whole, "cube")))
    drawn: dict[View, bytes] = {}
    left_nbytes = MOST_NBYTES
    for view in views:
        svg = render(layout(chart(topology, view))).encode()
        if len(svg) <= left_nbytes:
            drawn[view] = svg
            left_nbytes -= len(svg)
    return [_image(f"{topology.name}: {view}", svg) for view, svg in drawn.items()]


def _image(alt: str, svg: bytes) -> str:
    """*svg* as an image. Themes of Sphinx dim images on dark pages, but none of the class `dark-light`."""
    data = b64encode(svg).decode()
    return f'<img class="dark-light" alt={quoteattr(alt)} src="data:image/svg+xml;base64,{data}">'
