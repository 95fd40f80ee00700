from itertools import combinations, pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kb_messages import TopologyError
from kb_topology import load_topology, loads_topology
from kb_topology.diagram import VIEWS, Scene, chart, draw, layout
from kb_topology.diagram.chart import Box, Chart, Edge
from kb_topology.diagram.scene import LABEL, TEXT, TITLE, text_width

SHIPPED = sorted((Path(__file__).parents[3] / "topologies").glob("**/*.yaml"))
SCENES = [pytest.param(path, view, id=f"{path.stem}-{view}") for path in SHIPPED for view in VIEWS]

Rectangle = tuple[float, float, float, float]


def boxes(scene: Scene) -> list[Rectangle]:
    return [(each.x, each.y, each.x + each.width, each.y + each.height) for each in scene.boxes]


def labels(scene: Scene) -> list[Rectangle]:
    found = []
    for label in scene.labels:
        width = text_width(label.text, LABEL)
        left = label.x - (width / 2 if label.anchor == "middle" else 0)
        found.append((left, label.y - 0.8 * LABEL, left + width, label.y + 0.2 * LABEL))
    return found


def overlap(a: Rectangle, b: Rectangle) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


@pytest.mark.parametrize(("path", "view"), SCENES)
def test_nothing_overlaps_and_all_of_it_is_on_the_page(path, view):
    scene = layout(chart(load_topology(path), view))
    everything = boxes(scene) + labels(scene)
    assert not [(a, b) for a, b in combinations(everything, 2) if overlap(a, b)]
    assert all(x0 >= 0 and y0 >= 0 and x1 <= scene.width and y1 <= scene.height for x0, y0, x1, y1 in everything)


@pytest.mark.parametrize(("path", "view"), SCENES)
def test_text_fits_its_box(path, view):
    for placed in layout(chart(load_topology(path), view)).boxes:
        assert text_width(placed.box.title, TITLE) < placed.width
        assert all(text_width(line, TEXT) < placed.width for line in placed.box.lines)


def crosses(points: tuple[tuple[float, float], ...], box: Rectangle) -> bool:
    """Whether a line of level and upright pieces passes through the inside of *box*."""
    for (x0, y0), (x1, y1) in pairwise(points):
        piece = (min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1))
        if piece[0] < box[2] - 1 and box[0] + 1 < piece[2] + 0.5 and piece[1] < box[3] - 1 and box[1] + 1 < piece[3]:
            return True
    return False


@pytest.mark.parametrize(("path", "view"), SCENES)
def test_no_line_passes_behind_a_box(path, view):
    scene = layout(chart(load_topology(path), view))
    assert scene.paths or len(scene.boxes) == 1
    assert not [(line, box) for line in scene.paths for box in boxes(scene) if crosses(line.points, box)]


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


def test_every_label_has_an_outline_behind_it(small):
    texts = [
        (each.get("class"), each.text) for each in ElementTree.fromstring(draw(small(), "cube")).iter() if each.text
    ]
    halos = [number for number, (css, _) in enumerate(texts) if css == "halo"]
    assert halos
    assert all(texts[number + 1] == ("label", texts[number][1]) for number in halos)


def test_a_cubes_sram_is_told_beside_its_hbm():
    topology = load_topology(next(path for path in SHIPPED if path.stem == "one_sip"))
    assert chart(topology, "cube").subtitle == "8 PEs, 16 GiB HBM, 16 MiB SRAM"
    assert chart(topology, "sip").rows[1][0].lines == ("8 PEs", "16 GiB HBM", "16 MiB SRAM")


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
    assert {edge.label for edge in found.edges} == {"256 GB/s, 2 mm"}


def test_many_copies_are_one_box(small):
    found = chart(small("pe_layout: {count: 4}", "pe_layout: {count: 40}"), "cube")
    assert ["40 x PE"] in [[box.title for box in row] for row in found.rows]


def test_a_line_that_skips_a_row_takes_a_gap():
    row = tuple(Box(name, name, (), "compute") for name in "abc")
    top, bottom = Box("top", "top", (), "fabric"), Box("bottom", "bottom", (), "fabric")
    scene = layout(Chart("t", "", ((top,), row, (bottom,)), (Edge("top", "bottom", "1 GB/s", "data"),), ""))
    assert not [line for line in scene.paths for box in boxes(scene) if crosses(line.points, box)]


def test_a_chip_without_pes_has_no_picture_of_one():
    topology = loads_topology("name: x\nwire_ps_per_mm: 7\ncube: {nodes: {}}\n", "f.yaml")
    with pytest.raises(TopologyError) as caught:
        draw(topology, "pe")
    assert str(caught.value) == (
        "f.yaml:3:1: $.cube: got a chip without PEs, needs pe_layout and pe_template; choose another view"
    )
    assert "x: cube" in draw(topology, "cube")
