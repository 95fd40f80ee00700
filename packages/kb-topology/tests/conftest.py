"""A small cube that tests change one piece of."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kb_topology import Topology, loads_topology

SMALL = """\
name: small
wire_ps_per_mm: 7.0
cube:
  nodes:
    hbm: {kind: hbm, impl: x.hbm, count: 4, memory: {space: hbm, size: 2 GiB}}
    xbar: {kind: xbar, impl: x.xbar, count: 2}
    bridge: {kind: bridge, impl: x.transit}
  pe_layout: {count: 4}
  pe_template:
    nodes:
      pe_dma: {kind: pe_dma, impl: x.dma}
      pe_tcm: {kind: pe_tcm, impl: x.tcm, memory: {space: tcm, size: 2 MiB}, bw_gbs: 512}
    wires: [pe_dma -> pe_tcm]
  links:
    - {from: "pe[0:2].pe_dma", to: "xbar[0]", bw_gbs: 128, length_mm: 2}
    - {from: "pe[2:4].pe_dma", to: "xbar[1]", bw_gbs: 128, length_mm: 2}
    - {from: "xbar[0]", to: "hbm[0:2]", bw_gbs: 102.4, length_mm: 3}
    - {from: "xbar[1]", to: "hbm[2:4]", bw_gbs: 102.4, length_mm: 3}
    - {from: "xbar[*]", to: bridge, bw_gbs: 256, length_mm: 2.5}
"""


@pytest.fixture
def small() -> Callable[..., Topology]:
    """Loads the small cube, as `small.yaml`, with each `old, new` pair of arguments replaced."""

    def load(*changes: str) -> Topology:
        text = SMALL
        for old, new in zip(changes[::2], changes[1::2], strict=True):
            assert old in text
            text = text.replace(old, new, 1)
        return loads_topology(text, "small.yaml")

    return load
