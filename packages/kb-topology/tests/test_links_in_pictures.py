"""What lines in pictures say: parallel links are counted, and a wire without length has none."""

from pathlib import Path

from kb_topology import load_topology
from kb_topology.diagram import chart, draw, flaws, layout

TOPOLOGIES = Path(__file__).parents[3] / "topologies"


def labels(topology, view="cube"):
    return [label.text for label in layout(chart(topology, view)).labels]


def test_parallel_links_are_counted_and_drawn_as_one_thick_line(small):
    topology = small()
    # two halves of a crossbar with two PEs and two slices of HBM each
    assert labels(topology).count("2 x 102.4 GB/s") == 2
    assert labels(topology).count("2 x 128 GB/s") == 2
    scene = layout(chart(topology, "cube"))
    bundles = [path for path in scene.paths if path.bundle]
    assert {path.line for path in bundles} == {"memory"}
    # four combs, each with a trunk and two halves of the level line
    assert len(bundles) == 4 * 3
    assert "several links" in draw(topology, "cube")
    assert "several links" not in draw(topology, "pe")


def test_a_tooth_of_several_links_is_thick_too(small):
    first = '{from: "pe[0:2].pe_dma", to: "xbar[0]"'
    second = '{from: "pe[0:2].pe_tcm", to: "xbar[0]", bw_gbs: 128, length_mm: 2}'
    topology = small(first, f"{second}\n    - {first}")
    assert "4 x 128 GB/s" in labels(topology)
    paths = layout(chart(topology, "cube")).paths
    teeth = [path for path in paths if path.bundle and "pe0" in path.tip and "\n" not in path.tip]
    assert len(teeth) == 1


def test_a_wire_without_length_has_none(small):
    topology = small("bw_gbs: 256, length_mm: 2.5", "bw_gbs: 256, length_mm: 0")
    assert "0 mm" not in labels(topology)
    assert "0 mm" not in draw(topology, "cube")
    assert labels(topology).count("256 GB/s") == 2


def test_a_cache_stands_between_its_memory_and_the_links(small):
    cached = "count: 4, bw_gbs: 100, cache_bw_gbs: 800, cache_latency_ns: 9, sets: 4096, ways: 8, line_nbytes: 128"
    topology = small("count: 4", cached)
    found = chart(topology, "cube")
    boxes = {box.key: box for row in found.rows for box in row}
    assert [[box.key for box in row] for row in found.rows][:2] == [
        ["hbm0", "hbm1", "hbm2", "hbm3"],
        ["hbm0 cache", "hbm1 cache", "hbm2 cache", "hbm3 cache"],
    ]
    # 4096 x 8 x 128 bytes
    assert boxes["hbm0 cache"].lines == ("4 MiB", "800 GB/s", "latency 9 ns")
    assert "line 128 B" in boxes["hbm0 cache"].tip.splitlines()
    ends = {frozenset((edge.a, edge.b)): edge.label for edge in found.edges}
    assert ends[frozenset(("hbm0", "hbm0 cache"))] == ("100 GB/s",)
    assert ends[frozenset(("hbm0 cache", "xbar0"))] == ("102.4 GB/s", "3 mm")
    assert frozenset(("hbm0", "xbar0")) not in ends
    assert flaws(layout(found)) == []


def test_the_l2_of_a_gpu_is_drawn():
    found = chart(load_topology(TOPOLOGIES / "devices" / "h100.yaml"), "cube")
    (cache,) = found.rows[1]
    assert (cache.title, cache.lines) == ("hbm cache", ("50 MiB", "8985 GB/s", "latency 142 ns"))
