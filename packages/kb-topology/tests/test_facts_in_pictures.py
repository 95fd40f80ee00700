from kb_topology.diagram import chart, flaws, layout, render
from kb_topology.diagram.drawn.scene import LABEL, MARGIN, text_width

NAMED = (
    "wire_ps_per_mm: 7.0",
    (
        "wire_ps_per_mm: 7.0\npackets: {payload_nbytes: 256, header_nbytes: 16}\n"
        "multicast: {receivers: 8}\ninterleaved:\n"
        '  even: {slices: ["sip[0].cube[0].hbm[0]", "sip[0].cube[0].hbm[2]"], granule_nbytes: 1024}\n'
        '  all: {slices: "sip[0].cube[0].hbm[*]", granule_nbytes: 64}'
    ),
)
BUFFERS = "{kind: bridge, impl: x.transit}", "{kind: bridge, impl: x.transit, buffer_nbytes: 1088, credit_ns: 2}"


def boxes_of(topology, view):
    return {box.key: box for row in chart(topology, view).rows for box in row}


def test_a_picture_tells_packets_multicast_and_interleaved_memories(small):
    topology = small(*NAMED)
    lines = (
        "Packets: up to 256 B of payload, and a header of 16 B.",
        "Multicast: up to 8 readers of the same bytes.",
        "even: 1 KiB in each of its 2 slices of HBM, in turn.",
        "all: 64 B in each of its 4 slices of HBM, in turn.",
    )
    for view in ("system", "sip", "cube"):
        found = chart(topology, view)
        scene = layout(found)
        assert found.facts == lines
        assert flaws(scene) == []
        assert all(f">{line}<" in render(scene) for line in lines)
        assert all(text_width(line, LABEL) + 2 * MARGIN <= scene.width for line in lines)
        assert scene.foot + 56 + 17 * len(lines) < scene.height
    assert chart(topology, "pe").facts == ()


def test_pictures_tell_slow_pes(small):
    topology = small("wire_ps_per_mm: 7.0", 'wire_ps_per_mm: 7.0\nslow: {"pe[1:3]": 1.5}')
    for view in ("system", "sip", "cube"):
        found = chart(topology, view)
        assert found.facts == ("Slow PEs: sip0.cube0.pe1 by 1.5, sip0.cube0.pe2 by 1.5.",)
        assert flaws(layout(found)) == []
    boxes = boxes_of(topology, "cube")
    assert [boxes[f"pe{number}"].lines for number in range(4)] == [(), ("slow by 1.5",), ("slow by 1.5",), ()]
    assert chart(topology, "pe").subtitle == "2 PEs like this one"
    slowed = chart(topology, "pe", "sip0.cube0.pe1")
    assert slowed.subtitle == "sip0.cube0.pe1; slow by 1.5, with the times and rates of a PE that is not"
    assert flaws(layout(slowed)) == []


def test_slices_tell_the_memories_that_lie_over_them(small):
    boxes = boxes_of(small(*NAMED), "cube")
    assert [boxes[f"hbm{number}"].lines[-1] for number in range(4)] == ["in even, all", "in all"] * 2
    assert boxes_of(small(), "cube")["hbm0"].lines == ("2 GiB",)


def test_the_hbm_of_cubes_is_told_once(small):
    topology = small("wire_ps_per_mm: 7.0", "wire_ps_per_mm: 7.0\nhbm_interleave_nbytes: 256")
    assert chart(topology, "cube").facts == ("HBM: 256 B in each slice of a cube, in turn.",)
    assert boxes_of(topology, "cube")["hbm0"].lines == ("2 GiB",)
    assert chart(small(), "cube").facts == ()


def test_a_node_tells_its_buffers(small):
    assert boxes_of(small(*BUFFERS), "cube")["bridge"].lines == ("buffer 1088 B", "credit 2 ns")
