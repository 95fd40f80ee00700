import pytest

from kb_messages import TopologyError

MESH_LINE = '{rows: 2, cols: 3, north: "ucie[0]", east: "ucie[1]", south: "ucie[2]", west: "ucie[3]",'


def joined(topology) -> set[tuple[str, str]]:
    """What the mesh of SIP 0 joins, ports and all."""
    nodes = topology.graph.nodes
    ends = [(link.src, link.dst) for link in topology.graph.links]
    return {
        (a.removeprefix("sip0."), b.removeprefix("sip0."))
        for a, b in ends
        if nodes[a].sip == nodes[b].sip == 0 and None not in (nodes[a].cube, nodes[b].cube)
        if nodes[a].cube != nodes[b].cube
    }


def test_every_cube_is_joined_to_the_neighbours_it_has(whole):
    # 0 1 2
    # 3 4 5
    one_way = {
        *(("cube0.ucie1", "cube1.ucie3"), ("cube1.ucie1", "cube2.ucie3")),
        *(("cube3.ucie1", "cube4.ucie3"), ("cube4.ucie1", "cube5.ucie3")),
        *(("cube0.ucie2", "cube3.ucie0"), ("cube1.ucie2", "cube4.ucie0"), ("cube2.ucie2", "cube5.ucie0")),
    }
    assert joined(whole()) == one_way | {(b, a) for a, b in one_way}


def test_a_row_needs_no_ports_to_the_north_and_south(whole):
    mesh = MESH_LINE.replace("rows: 2, cols: 3", "rows: 1, cols: 6").replace('north: "ucie[0]", ', "")
    topology = whole(MESH_LINE, mesh.replace('south: "ucie[2]", ', ""))
    assert {int(a[4]) for a, _ in joined(topology)} == set(range(6))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "rows: 2",
            "rows: 4",
            (
                "14:3: $.sip.cube_mesh: got 4 x 3 cubes, needs as many as cubes_per_sip, which is 6; "
                "write cubes_per_sip: 12, or change rows and cols"
            ),
        ),
        (
            'east: "ucie[1]", ',
            "",
            (
                "14:3: $.sip.cube_mesh: got no 'east', needs the node of a cube that faces east, as there are 3 cols; "
                "add `east: ...`"
            ),
        ),
        (
            'west: "ucie[3]"',
            'west: "ucie[*]"',
            "15:77: $.sip.cube_mesh.west: got 'ucie[*]', a range, needs a single node of a cube",
        ),
        (
            'west: "ucie[3]"',
            'west: "ucie[4]"',
            "15:77: $.sip.cube_mesh.west: got ucie[4], needs indices from 0 to 3",
        ),
        (
            'west: "ucie[3]"',
            "west: uci",
            (
                "15:77: $.sip.cube_mesh.west: got the unknown node 'uci', needs one of hbm, noc, ucie, pe[...].pe_dma, "
                "pe[...].pe_tcm; did you mean 'ucie'?"
            ),
        ),
        ("rows: 2", "rows: 0", "15:6: $.sip.cube_mesh.rows: got 0, needs >= 1"),
        (
            "length_mm: 2}\n  links",
            "length_nm: 2}\n  links",
            (
                "15:107: $.sip.cube_mesh.length_nm: got an unknown key, needs one of rows, cols, north, east, south, "
                "west, torus, bw_gbs, length_mm; did you mean 'length_mm'?"
            ),
        ),
    ],
)
def test_a_mesh_that_cannot_be_is_refused_at_its_place(whole, old, new, said):
    with pytest.raises(TopologyError) as caught:
        whole(old, new)
    assert str(caught.value) == f"whole.yaml:{said}"
