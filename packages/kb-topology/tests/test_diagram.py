from itertools import combinations, pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec import structs

from kb_messages import TopologyError
from kb_topology import load_topology, loads_topology
from kb_topology.diagram import VIEWS, Scene, chart, draw, flaws, layout
from kb_topology.diagram.chart import Box, Chart, Edge
from kb_topology.diagram.drawn.scene import TEXT, TITLE, Label, Placed, Polyline, text_width

SHIPPED = sorted((Path(__file__).parents[3] / "topologies").glob("**/*.yaml"))
SCENES = [pytest.param(path, view, id=f"{path.stem}-{view}") for path in SHIPPED for view in VIEWS]


@pytest.mark.parametrize(("path", "view"), SCENES)
def test_a_picture_has_nothing_on_anything_else(path, view):
    scene = layout(chart(load_topology(path), view))
    assert scene.paths or len(scene.boxes) == 1
    assert flaws(scene) == []


def test_the_test_of_pictures_finds_flaws():
    box = Placed(Box("a", "a", (), "compute"), 100, 100, 80, 40)
    line = Polyline(((90.0, 120.0), (200.0, 120.0)), "data")
    other = Polyline(((150.0, 20.0), (150.0, 100.0)), "memory")
    here = Scene(Chart("t", "", (), (), ""), 400, 400, (box,), (), ())
    assert flaws(here) == []
    on_line = structs.replace(here, paths=(other,), labels=(Label("8 GB/s", 140, 50),))
    assert flaws(on_line) == ["label '8 GB/s' on a line"]
    assert flaws(structs.replace(here, labels=(Label("8 GB/s", 160, 110),))) == ["label '8 GB/s' on box a"]
    two = (Label("8 GB/s", 10, 50), Label("2 mm", 20, 52))
    assert flaws(structs.replace(here, labels=two)) == ["label '8 GB/s' on label '2 mm'"]
    assert flaws(structs.replace(here, paths=(line,))) == ["a line through box a"]
    assert flaws(structs.replace(here, boxes=(box, box))) == ["box a on box a"]
    assert flaws(structs.replace(here, width=150.0)) == ["box a off the page"]


@pytest.mark.parametrize(("path", "view"), SCENES)
def test_text_fits_its_box(path, view):
    for placed in layout(chart(load_topology(path), view)).boxes:
        assert text_width(placed.box.title, TITLE) < placed.width
        assert all(text_width(line, TEXT) < placed.width for line in placed.box.lines)


@pytest.mark.parametrize(("path", "view"), SCENES)
def test_upright_lines_side_by_side_can_be_told_apart(path, view):
    pieces = {
        (x0, min(y0, y1), max(y0, y1), line.line)
        for line in layout(chart(load_topology(path), view)).paths
        for (x0, y0), (x1, y1) in pairwise(line.points)
        if x0 == x1
    }
    near = [(a, b) for a, b in combinations(sorted(pieces), 2) if abs(a[0] - b[0]) < 5 and (a[0], a[3]) != (b[0], b[3])]
    assert not [(a, b) for a, b in near if min(a[2], b[2]) - max(a[1], b[1]) > 1]


@pytest.mark.parametrize(("path", "view"), SCENES)
def test_a_picture_is_xml_and_the_same_every_time(path, view):
    topology = load_topology(path)
    picture = draw(topology, view)
    root = ElementTree.fromstring(picture)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert picture == draw(topology, view)


def test_a_cubes_sram_is_told_beside_its_hbm():
    topology = load_topology(next(path for path in SHIPPED if path.stem == "one_sip"))
    assert chart(topology, "cube").subtitle == "8 PEs, 16 GiB HBM, 16 MiB SRAM"
    assert chart(topology, "sip").rows[1][0].lines == ("8 PEs", "16 GiB HBM", "16 MiB SRAM")


def test_a_message_queue_stands_beside_the_cpu_and_has_its_links_with_those_of_commands():
    topology = load_topology(next(path for path in SHIPPED if path.stem == "one_cube"))
    pe, cube = chart(topology, "pe"), chart(topology, "cube")
    assert [box.title for box in pe.rows[0]] == ["pe_cpu", "pe_queue"]
    assert pe.rows[0][1].lines == ("depth 3", "doorbell 2 ns", "credit 2 ns")
    assert {edge.line for edge in pe.edges if edge.a == "sip0.cube0.pe0.pe_queue"} == {"command"}
    commands = [edge for edge in cube.edges if edge.line == "command"]
    assert {(edge.label, edge.count) for edge in commands} == {(("16 GB/s", "4 mm"), 2)}


def test_names_are_escaped(small):
    picture = draw(small("name: small", "name: '<a> & \"b\"'"), "cube")
    assert ElementTree.fromstring(picture)[0].text == '<a> & "b": cube'


def test_a_sip_shows_its_mesh():
    path = next(path for path in SHIPPED if path.stem == "four_sip")
    found = chart(load_topology(path), "sip")
    assert [[box.title for box in row] for row in found.rows] == [
        ["IO chiplet 0"],
        ["cube 0", "cube 1", "cube 2", "cube 3"],
        ["cube 4", "cube 5", "cube 6", "cube 7"],
        ["cube 8", "cube 9", "cube 10", "cube 11"],
        ["cube 12", "cube 13", "cube 14", "cube 15"],
    ]
    # 4 rows of 3 and 4 columns of 3 between cubes, 4 from the IO chiplet
    assert len(found.edges) == 12 + 12 + 4
    assert {edge.label for edge in found.edges} == {("256 GB/s", "2 mm")}


def test_many_copies_are_one_box(small):
    found = chart(small("pe_layout: {count: 4}", "pe_layout: {count: 40}"), "cube")
    assert ["40 x PE"] in [[box.title for box in row] for row in found.rows]


def test_a_line_that_skips_a_row_takes_a_gap():
    row = tuple(Box(name, name, (), "compute") for name in "abc")
    top, bottom = Box("top", "top", (), "fabric"), Box("bottom", "bottom", (), "fabric")
    scene = layout(Chart("t", "", ((top,), row, (bottom,)), (Edge("top", "bottom", ("1 GB/s",), "data"),), ""))
    assert flaws(scene) == []


def test_a_chip_without_pes_has_no_picture_of_one():
    topology = loads_topology("name: x\nwire_ps_per_mm: 7\ncube: {nodes: {}}\n", "f.yaml")
    with pytest.raises(TopologyError) as caught:
        draw(topology, "pe")
    assert str(caught.value) == (
        "f.yaml:3:1: $.cube: got a chip without PEs, needs pe_layout and pe_template; choose another view"
    )
    assert "x: cube" in draw(topology, "cube")
