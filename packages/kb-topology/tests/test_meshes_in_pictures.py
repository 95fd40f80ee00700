"""Pictures of meshes: routers and cubes stand below one another, and many cubes are small or left out."""

from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from kb_topology import Topology, load_topology, loads_topology
from kb_topology.diagram import LinkLoad, Loads, NodeLoad, chart, draw, flaws, layout

TOPOLOGIES = Path(__file__).parents[3] / "topologies"
WIDEST = 1400
"""Pixels of a window in which a picture is looked at."""


def mesh_of_routers(rows: int, cols: int) -> Topology:
    """A PE at each router, and two memories beside the routers of the first and of the last column."""
    number = {(row, col): row * cols + col for row in range(rows) for col in range(cols)}
    near = [(at, (at[0], at[1] + 1)) for at in number] + [(at, (at[0] + 1, at[1])) for at in number]
    ends = [(f"router[{number[a]}]", f"router[{number[b]}]") for a, b in near if b in number]
    ends += [("hbm[0]", f"router[{number[row, 0]}]") for row in (0, 1)]
    ends += [("hbm[1]", f"router[{number[row, cols - 1]}]") for row in (0, 1)]
    links = "\n".join(f'    - {{from: "{a}", to: "{b}", bw_gbs: 256, length_mm: 3}}' for a, b in ends)
    count = rows * cols
    return loads_topology(
        f"""\
name: mesh
wire_ps_per_mm: 7.0
cube:
  nodes:
    hbm: {{kind: hbm, impl: x.hbm, count: 2, memory: {{space: hbm, size: 2 GiB}}}}
    router: {{kind: noc, impl: x.transit, count: {count}}}
  pe_layout: {{count: {count}}}
  pe_template:
    nodes:
      pe_dma: {{kind: pe_dma, impl: x.dma}}
    wires: []
  links:
    - {{from: "pe[0:{count}].pe_dma", to: "router[0:{count}]", bw_gbs: 128, length_mm: 1}}
{links}
""",
        "mesh.yaml",
    )


def loaded(topology: Topology) -> Loads:
    """Loads of 0 to 100 % on all links, and on the memories."""
    links = {(link.src, link.dst): LinkLoad(at % 11 / 10, at) for at, link in enumerate(topology.graph.links)}
    nodes = [node for node in topology.graph.nodes.values() if node.memory]
    return Loads("a run", links, {node.id: NodeLoad(at % 7 / 6, "busy") for at, node in enumerate(nodes)})


@pytest.mark.parametrize(("rows", "cols"), [(3, 3), (3, 5), (4, 4), (8, 2), (2, 8)])
def test_routers_of_a_column_are_below_one_another(rows: int, cols: int) -> None:
    scene = layout(chart(mesh_of_routers(rows, cols), "cube"))
    centres: dict[int, set[float]] = defaultdict(set)
    tops: dict[int, set[float]] = defaultdict(set)
    for placed in scene.boxes:
        if placed.box.key.startswith("router"):
            number = int(placed.box.key.removeprefix("router"))
            centres[number % cols].add(placed.x + placed.width / 2)
            tops[number // cols].add(placed.y)
    assert [len(centres[col]) for col in range(cols)] == [1] * cols
    assert [len(tops[row]) for row in range(rows)] == [1] * rows
    middles = [centres[col].pop() for col in range(cols)]
    assert len({after - before for before, after in pairwise(middles)}) == 1
    assert middles == sorted(middles)


def test_memories_stand_at_the_border_where_their_routers_are() -> None:
    scene = layout(chart(mesh_of_routers(4, 4), "cube"))
    at = {placed.box.key: placed for placed in scene.boxes}
    assert at["hbm0"].x + at["hbm0"].width < at["router0"].x
    assert at["router3"].x + at["router3"].width < at["hbm1"].x
    assert at["hbm0"].y == at["hbm1"].y == at["router0"].y


def test_most_lines_between_rows_of_routers_are_straight() -> None:
    found = chart(mesh_of_routers(4, 4), "cube")
    upright = [path for path in layout(found).paths if "router1 - " in path.tip and "router5" in path.tip]
    assert [len(path.points) for path in upright] == [2]


def test_a_label_of_many_lines_is_said_once() -> None:
    found = chart(mesh_of_routers(4, 4), "cube")
    # 4 x 3 links along the rows and 4 x 3 along the columns; a link of each PE
    assert found.facts == (
        "Each line from pe to router: 128 GB/s, 1 mm.",
        "Each line from router to router: 256 GB/s, 3 mm.",
    )
    labels = [label.text for label in layout(found).labels]
    # two memories with two links each
    assert sorted(labels) == ["256 GB/s"] * 4 + ["3 mm"] * 4
    few = [label.text for label in layout(chart(mesh_of_routers(3, 3), "cube")).labels]
    assert few.count("128 GB/s") == 9


@pytest.mark.parametrize("name", ["wormhole", "blackhole"])
@pytest.mark.parametrize("is_measured", [False, True])
def test_a_mesh_of_many_cubes_fits_a_window(name: str, is_measured: bool) -> None:
    topology = load_topology(TOPOLOGIES / "devices" / f"{name}.yaml")
    scene = layout(chart(topology, "sip", loads=loaded(topology) if is_measured else None))
    assert scene.width <= WIDEST
    assert flaws(scene) == []
    assert "Rows and columns are rings. The links from their last cubes back to the first are not drawn" in "".join(
        scene.chart.facts
    )
    assert any("the busiest has 100 %" in fact for fact in scene.chart.facts) is is_measured


def test_cubes_in_the_middle_of_very_many_are_one_box(whole) -> None:
    mesh = "rows: 4, cols: 64"
    topology = whole("cubes_per_sip: 6", "cubes_per_sip: 256", "rows: 2, cols: 3", mesh)
    found = chart(topology, "sip")
    # of 64 columns 9 in the west and 8 in the east are drawn
    assert [box.title for box in found.rows[1]] == [*map(str, range(9)), "...", *map(str, range(56, 64))]
    assert found.rows[1][9].tip.splitlines()[0] == "47 cubes from cube 9 to cube 55"
    assert "... stands for cubes in the middle: 188 cubes in all." in found.facts
    assert "Each cube: 2 PEs, 4 GiB HBM." in found.facts
    (edge,) = [edge for edge in found.edges if {edge.a, edge.b} == {"cubes9", "cubes73"}]
    assert edge.count == 47
    assert layout(found).width <= WIDEST
    assert flaws(layout(found)) == []


def test_boxes_name_the_parts_that_they_stand_for(whole) -> None:
    def parts(view: str, of: str = "") -> set[str]:
        return {box.part for row in chart(whole(), view, of).rows for box in row if box.part}

    assert parts("system") == {"sip0", "sip1"}
    assert parts("sip", "sip1") == {f"sip1.cube{cube}" for cube in range(6)}
    assert parts("cube", "sip1.cube2") == {"sip1.cube2.pe0", "sip1.cube2.pe1"}
    assert parts("pe") == set()
    assert 'data-part="sip1.cube3"' in draw(whole(), "sip", "sip1")


def test_one_box_for_many_pes_stands_for_the_busiest(small) -> None:
    topology = small("pe_layout: {count: 4}", "pe_layout: {count: 40}")
    loads = Loads("a run", {}, {"sip0.cube0.pe7.pe_dma": NodeLoad(0.5, "busy 50 %")})
    (box,) = [box for row in chart(topology, "cube", loads=loads).rows for box in row if box.title == "40 x PE"]
    assert box.part == "sip0.cube0.pe7"
