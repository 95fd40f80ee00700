"""Pictures of a run: what boxes and lines say that stand for one part, and for several."""

from itertools import pairwise
from xml.etree import ElementTree

import pytest

from kb_messages import TopologyError
from kb_topology.diagram import LinkLoad, Loads, NodeLoad, chart, draw, flaws, layout
from kb_topology.diagram.chart import Heat
from kb_topology.diagram.drawn.heat_colours import HEAT_COLOURS, ON_HEAT, PAGES
from kb_topology.diagram.drawn.svg import step


def loads_of(topology, links=None, nodes=None):
    """Every link and every memory idle, but for *links* and *nodes*."""
    idle = {(link.src, link.dst): LinkLoad(0.0, 0) for link in topology.graph.links}
    memories = {node.id: NodeLoad(0.0, "idle") for node in topology.graph.nodes.values() if node.memory}
    return Loads("a run", {**idle, **(links or {})}, {**memories, **(nodes or {})})


def boxes(found):
    return {box.key: box for row in found.rows for box in row}


def test_a_line_tells_its_busier_direction_and_both_in_its_tip(small):
    topology = small()
    links = {
        ("sip0.cube0.xbar0", "sip0.cube0.hbm0"): LinkLoad(0.25, 3 << 20),
        ("sip0.cube0.hbm0", "sip0.cube0.xbar0"): LinkLoad(0.835, 1 << 30),
    }
    found = chart(topology, "cube", loads=loads_of(topology, links))
    (edge,) = [edge for edge in found.edges if {edge.a, edge.b} == {"hbm0", "xbar0"}]
    assert edge.heat == Heat(0.835, 0.835)
    assert edge.tip.splitlines()[1:] == [
        "sip0.cube0.xbar0 to sip0.cube0.hbm0: busy 25 %, 3 MiB",
        "sip0.cube0.hbm0 to sip0.cube0.xbar0: busy 84 %, 1 GiB",
    ]


def test_a_cube_stands_for_all_cubes_and_names_the_busiest(whole):
    topology = whole()
    nodes = {"sip1.cube4.hbm1": NodeLoad(0.6, "busy 60 %")}
    found = chart(topology, "cube", loads=loads_of(topology, nodes=nodes))
    box = boxes(found)["hbm1"]
    # 2 SIPs of 6 cubes: 60 % of one of 12
    assert box.heat is not None
    assert (box.heat.top, round(box.heat.mean, 9)) == (0.6, 0.05)
    assert box.lines[-2:] == ("max 60 %", "mean 5 %")
    assert box.tip.splitlines()[-1] == "busiest of 12: sip1.cube4.hbm1: busy 60 %; mean 5 %"
    alone = boxes(chart(topology, "cube", "sip1.cube4", loads_of(topology, nodes=nodes)))["hbm1"]
    assert (alone.heat, alone.lines[-1]) == (Heat(0.6, 0.6), "60 %")
    assert boxes(chart(topology, "cube", "sip0.cube4", loads_of(topology, nodes=nodes)))["hbm1"].heat == Heat(0, 0)


def test_a_box_that_holds_more_shows_its_busiest_block(whole):
    topology = whole()
    nodes = {"sip0.cube4.pe1.pe_tcm": NodeLoad(0.5, "busy 50 %"), "sip0.cube4.hbm0": NodeLoad(0.4, "busy 40 %")}
    found = boxes(chart(topology, "sip", "sip0", loads_of(topology, nodes=nodes)))
    assert found["cube4"].lines == ("pe_tcm", "max 50 %", "mean 25 %")
    assert found["io0"].heat is None
    assert boxes(chart(topology, "system", loads=loads_of(topology, nodes=nodes)))["sip0"].lines[0] == "pe_tcm"


def test_links_around_a_pe_are_those_of_all_pes_or_of_one(whole):
    topology = whole()
    links = {("sip1.cube3.noc", "sip1.cube3.pe1.pe_dma"): LinkLoad(0.48, 4096)}
    (edge,) = [edge for edge in chart(topology, "pe", loads=loads_of(topology, links)).edges if edge.b == "noc"]
    # 24 PEs
    assert edge.heat is not None
    assert (edge.heat.top, round(edge.heat.mean, 9)) == (0.48, 0.02)
    assert edge.tip.splitlines()[-1] == (
        "busiest of 24: sip1.cube3.noc to sip1.cube3.pe1.pe_dma: busy 48 %, 4 KiB; mean 2 %, 4 KiB in all"
    )
    found = chart(topology, "pe", "sip1.cube3.pe1", loads_of(topology, links))
    assert [edge.heat for edge in found.edges if edge.b == "noc"] == [Heat(0.48, 0.48)]


@pytest.mark.parametrize("view", ["system", "sip", "cube", "pe"])
def test_a_picture_of_a_run_is_as_tidy_as_one_without(whole, view):
    topology = whole()
    busy = {ends: LinkLoad(n % 11 / 10, n * 12345) for n, ends in enumerate(loads_of(topology).links)}
    loads = loads_of(topology, busy)
    assert flaws(layout(chart(topology, view, loads=loads))) == []
    root = ElementTree.fromstring(draw(topology, view, loads=loads))
    texts = {each.text for each in root.iter() if each.text}
    assert {"time in service", "idle", "not measured", "100 %"} <= texts
    assert draw(topology, view, loads=loads) == draw(topology, view, loads=loads)


@pytest.mark.parametrize(
    ("view", "of", "words"),
    [
        ("cube", "sip0.cube9", "got 'sip0.cube9', needs the id of a cube, like sip0.cube0; did you mean"),
        ("sip", "sip0.cube1", "got 'sip0.cube1', needs the id of a SIP, like sip0"),
        ("pe", "pe7", "got 'pe7', needs the id of a PE, like sip0.cube0.pe0"),
        ("system", "sip0", "got the part 'sip0' of the whole system, needs no part; leave it out, or choose a view"),
    ],
)
def test_a_part_that_is_not_there_is_refused(whole, view, of, words):
    with pytest.raises(TopologyError) as caught:
        chart(whole(), view, of)
    assert words in str(caught.value)


def lightness(colour: str) -> float:
    """Relative luminance. Source: WCAG 2.1."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    low, high = sorted((lightness(a), lightness(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("page", [0, 1])
def test_lightness_alone_orders_the_colours_and_text_can_be_read_on_them(page):
    from_page = [contrast(colours[page], PAGES[page]) for colours in HEAT_COLOURS]
    assert all(later > 1.2 * earlier for earlier, later in pairwise(from_page))
    assert from_page[0] > 1.3
    assert all(
        contrast(colours[page], texts[page]) >= 4.5 for colours, texts in zip(HEAT_COLOURS, ON_HEAT, strict=True)
    )


def test_full_and_little_and_no_use_have_colours_of_their_own():
    heats = (None, Heat(0, 0), Heat(1e-9, 0), Heat(0.125, 0), Heat(0.999, 0), Heat(1, 1), Heat(1.2, 1))
    assert [step(heat) for heat in heats] == ["none", "cold", "warm0", "warm1", "warm7", "warm7", "warm7"]
