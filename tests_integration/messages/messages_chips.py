"""Chips whose PEs send messages: bundled ones with other meshes and times, and rings of cubes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests_shared"))

from chip_specs import chip_spec, nodes_of_pe


def chip_of(name: str, **values: Any) -> dict[str, Any]:
    """The bundled chip *name*, with other *values* of `block__attribute` of the PEs."""
    spec = chip_spec(name)
    nodes = nodes_of_pe(spec)
    for key, value in values.items():
        block, attribute = key.split("__")
        nodes[block][attribute] = value
    return spec


def mesh_of(rows: int, cols: int, **values: Any) -> dict[str, Any]:
    """A SIP of *rows* x *cols* cubes, as the bundled one_sip has 4 x 4, with other *values* as in `chip_of`."""
    spec = chip_of("one_sip", **values)
    spec["cubes_per_sip"] = rows * cols
    spec["sip"]["cube_mesh"] |= {"rows": rows, "cols": cols}
    spec["sip"]["links"] = [
        {**link, "to": f"cube[0:{min(4, cols)}].ucie[0]"} if "cube[0:4]" in link["to"] else link
        for link in spec["sip"]["links"]
    ]
    return spec


def ring_of(n_cubes: int, n_pes: int = 1, **values: Any) -> dict[str, Any]:
    """A closed ring of *n_cubes* >= 2 cubes of *n_pes* PEs each, on one NOC a cube, with *values* as in `chip_of`."""
    spec = chip_of("one_cube", **values)
    cube = spec["cube"]
    cube["nodes"] = {
        "hbm": {**cube["nodes"]["hbm"], "count": 1},
        "noc": cube["nodes"]["noc"],
        "port": {"kind": "ucie", "impl": "builtin.transit", "count": 2, "overhead_ns": 1},
    }
    cube["pe_layout"] = {"count": n_pes}
    cube["links"] = [
        {"from": "noc", "to": "hbm[0]", "bw_gbs": 102.4, "length_mm": 3},
        {"from": "noc", "to": "port[*]", "bw_gbs": 256, "length_mm": 3},
        *({"from": f"pe[*].{block}", "to": "noc", "bw_gbs": 64, "length_mm": 4} for block in ("pe_dma", "pe_tcm")),
        *({"from": f"pe[*].{block}", "to": "noc", "bw_gbs": 16, "length_mm": 4} for block in ("pe_cpu", "pe_queue")),
    ]
    mesh = {"rows": 1, "cols": n_cubes, "east": "port[0]", "west": "port[1]", "bw_gbs": 256, "length_mm": 10}
    wrap = {"from": f"cube[{n_cubes - 1}].port[0]", "to": "cube[0].port[1]", "bw_gbs": 256, "length_mm": 10}
    return {
        **{key: value for key, value in spec.items() if key != "cube"},
        "hbm_interleave_nbytes": 0,
        "sips": 1,
        "cubes_per_sip": n_cubes,
        "sip": {"cube_mesh": mesh, "links": [wrap]},
        "cube": cube,
    }


def closed_way(rows: int, cols: int) -> list[int]:
    """The cubes of a mesh of *rows* x *cols*, in a way of neighbours that ends beside its begin. *rows* is even."""
    down = [row * cols for row in range(rows)]
    snake = [
        row * cols + col
        for row in reversed(range(rows))
        for col in (range(1, cols) if (rows - 1 - row) % 2 == 0 else range(cols - 1, 0, -1))
    ]
    return down + snake if cols > 1 else down
