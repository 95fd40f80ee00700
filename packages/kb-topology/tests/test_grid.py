from itertools import product
from pathlib import Path

import pytest

from kb_topology import load_topology
from kb_topology.diagram import chart
from kb_topology.diagram.content.grid import Wish, grid


def mesh(rows: int, cols: int) -> dict[str, list[str]]:
    cells = list(product(range(rows), range(cols)))
    return {
        f"{row}{col}": [f"{r}{c}" for r, c in cells if abs(r - row) + abs(c - col) == 1] for row, col in reversed(cells)
    }


@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (1, 4), (2, 2), (2, 3), (3, 3), (4, 4)])
def test_a_mesh_is_laid_out_as_its_wishes_say(rows, cols):
    wishes = [Wish("00", x=0.0, y=0.0), Wish(f"0{cols - 1}", x=1.0, y=0.0)]
    expected = [[f"{row}{col}" for col in range(cols)] for row in range(rows)]
    assert grid(mesh(rows, cols), wishes) == expected
    turned = [Wish("00", x=1.0, y=1.0), Wish(f"0{cols - 1}", x=0.0, y=1.0)]
    assert grid(mesh(rows, cols), turned) == [row[::-1] for row in expected[::-1]]


@pytest.mark.parametrize(
    "links",
    [
        {"a": ["b", "c"], "b": ["a", "c"], "c": ["a", "b"]},
        {"a": ["b", "c", "d"], "b": ["a"], "c": ["a"], "d": ["a"]},
        {"a": [], "b": []},
        {"a": ["b", "e"], "b": ["a", "c"], "c": ["b", "d"], "d": ["c", "e"], "e": ["d", "a"]},
    ],
)
def test_what_is_no_mesh_stands_in_one_row(links):
    wishes = [Wish("a", x=0.9), Wish("b", x=0.1)]
    (row,) = grid(links, wishes)
    assert sorted(row) == sorted(links)
    assert row.index("b") < row.index("a")


def test_the_routers_of_one_sip_stand_in_the_corners():
    found = chart(load_topology(Path(__file__).parents[3] / "topologies" / "one_sip.yaml"), "cube")
    rows = [[box.key for box in row] for row in found.rows]
    assert rows[2:] == [
        ["ucie0", "pe0", "pe1", "pe4", "pe5"],
        ["noc0", "noc1", "ucie1"],
        ["m_cpu", "sram"],
        ["ucie3", "noc2", "noc3"],
        ["pe2", "pe3", "ucie2", "pe6", "pe7"],
    ]
    lines = {box.key: box.lines[0] for row in found.rows for box in row if box.key.startswith("ucie")}
    assert lines == {
        "ucie0": "to the north",
        "ucie1": "to the east",
        "ucie2": "to the south",
        "ucie3": "to the west",
    }
