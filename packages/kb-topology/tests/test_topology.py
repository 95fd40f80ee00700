import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampled_cases import examples

from kb_messages import KbError
from kb_topology import Node, NodeKind, Router, Topology, load_topology, loads_topology

PACKAGE = Path(__file__).parents[1]
SHIPPED = sorted((PACKAGE.parents[1] / "topologies").glob("*.yaml"))
ONE_CUBE = next(path for path in SHIPPED if path.name == "one_cube.yaml").read_text()


def test_a_topology_carries_what_the_file_says(tmp_path):
    path = tmp_path / "t.yaml"
    path.write_text("name: x\ndescription: y\nwire_ps_per_mm: 7\ncube: {nodes: {}}\n")
    topology = load_topology(path)
    assert (topology.name, topology.description, topology.graph.nodes) == ("x", "y", {})
    assert topology.source.path == str(path)
    assert str(topology.error(("cube", "nodes"), "none", "one")) == f"{path}:4:8: $.cube.nodes: got none, needs one"


def test_a_digest_follows_the_meaning_and_not_the_layout(small):
    digest = small().digest
    assert len(digest) == 64
    assert small("name: small", "# a comment\nname: 'small'\nsips: 1").digest == digest
    assert small("bw_gbs: 256", "bw_gbs: 256.0").digest == digest
    assert small("bw_gbs: 256", "bw_gbs: 257").digest != digest
    assert small("bw_gbs: 512", "bw_gbs: 513").digest != digest
    xbar = "    xbar: {kind: xbar, impl: x.xbar, count: 2}\n"
    assert small(xbar, "", "  pe_layout", f"{xbar}  pe_layout").digest != digest


def some(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """All *nodes*, or of many every so many, so that each cube, half and place within one has its turn."""
    return nodes[:: 1 if len(nodes) <= 16 else len(nodes) // 16 + 1]


def connected_memory(topology: Topology) -> bool:
    router = Router(topology.graph)
    dmas = some(topology.graph.nodes_of_kind(NodeKind.PE_DMA))
    hbms = some(topology.graph.nodes_of_kind(NodeKind.HBM))
    return all(router.route(a, b) for dma in dmas for hbm in hbms for a, b in ((dma.id, hbm.id), (hbm.id, dma.id)))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_in_every_shipped_topology_every_pe_reaches_every_slice_and_back(path):
    topology = load_topology(path)
    assert topology.name == path.stem
    assert topology.graph.nodes_of_kind(NodeKind.PE_DMA)
    assert connected_memory(topology)


def test_the_way_to_the_far_half_goes_over_the_bridge():
    route = Router(loads_topology(ONE_CUBE).graph).route("sip0.cube0.pe0.pe_dma", "sip0.cube0.hbm7")
    assert [node_id.removeprefix("sip0.cube0.") for node_id in route.nodes] == [
        "pe0.pe_dma",
        "xbar0",
        "bridge",
        "xbar1",
        "hbm7",
    ]


@pytest.mark.parametrize("name", ["one_sip", "four_sip"])
def test_own_memory_is_over_the_xbar_and_all_other_over_the_noc(name):
    graph = next(load_topology(path) for path in SHIPPED if path.stem == name).graph
    router = Router(graph, lambda node: int(1000 * node.attrs.get("overhead_ns", 0)))
    hbms = graph.nodes_of_kind(NodeKind.HBM)
    for dma in some(graph.nodes_of_kind(NodeKind.PE_DMA)):
        for hbm in hbms:
            inside = [graph.nodes[node_id] for node_id in router.route(dma.id, hbm.id).nodes[1:-1]]
            assert all(node.pe is None for node in inside)
            own = (hbm.sip, hbm.cube) == (dma.sip, dma.cube)
            assert inside[0].kind is (NodeKind.XBAR if own else NodeKind.NOC)
            assert own != any(node.kind in (NodeKind.NOC, NodeKind.UCIE) for node in inside)


def test_the_readme_shows_a_topology_that_loads():
    text = (PACKAGE / "README.md").read_text()
    for example in text.split("```yaml\n")[1:]:
        assert connected_memory(loads_topology(example.split("```")[0], "README.md"))


PIECES = ["[", "]", "{", "}", ":", ",", "-", "&a ", "*a", "!!x ", "'", '"', "\n", "  ", "\t", "#", "|", "?", "\x00"]
VALUES = [
    "0",
    "-1",
    "1e400",
    ".nan",
    "9" * 30,
    "null",
    "true",
    "[]",
    "{}",
    "pe",
    "pe[*].pe_dma",
    "hbm[0:99]",
    "é",
    "\ud800",
]


def refusal(text: str) -> str | None:
    try:
        loads_topology(text, "fuzz.yaml")
    except KbError as error:
        return str(error)
    return None


@st.composite
def mutated(draw: st.DrawFn) -> str:
    text = ONE_CUBE
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        until = at + draw(st.sampled_from([0, 0, 1, 2, 8, 60]))
        new = draw(st.sampled_from(PIECES + VALUES) | st.text(max_size=3))
        text = text[:at] + new + text[until:]
    return text


@given(mutated())
@settings(max_examples=examples(400))
def test_a_damaged_file_loads_or_is_refused_on_one_line(text):
    said = refusal(text)
    assert said is None or re.match(r"fuzz\.yaml:\d+:\d+: (\$.*: )?got .*, needs .*\Z", said) is not None


@given(st.sampled_from(VALUES + PIECES), st.data())
@settings(max_examples=examples(300))
def test_a_wrong_value_anywhere_loads_or_is_refused_on_one_line(value, data):
    words = ONE_CUBE.split(": ")
    index = data.draw(st.integers(1, len(words) - 1))
    _, separator, rest = words[index].partition(data.draw(st.sampled_from([",", "}", "\n"])))
    text = ": ".join([*words[:index], value + separator + rest, *words[index + 1 :]])
    said = refusal(text)
    assert said is None or re.match(r"fuzz\.yaml:\d+:\d+: (\$.*: )?got .*, needs .*\Z", said) is not None


def test_a_one_way_torus_leads_east_and_south_and_around_the_edges():
    text = """
name: torus
wire_ps_per_mm: 0
cubes_per_sip: 6
sip:
  cube_mesh: {rows: 2, cols: 3, torus: one_way, north: noc, east: noc, south: noc, west: noc, bw_gbs: 32, length_mm: 0}
cube:
  nodes:
    noc: {kind: noc, impl: builtin.transit}
"""
    graph = loads_topology(text, "torus.yaml").graph

    def after(cube):
        return [
            int(link.dst.removeprefix("sip0.cube").removesuffix(".noc"))
            for link in graph.out_links(f"sip0.cube{cube}.noc")
        ]

    # Rows 0 1 2 and 3 4 5: each cube leads to the next in its row, and to the other row, never back.
    assert [sorted(after(cube)) for cube in range(6)] == [[1, 3], [2, 4], [0, 5], [0, 4], [1, 5], [2, 3]]
