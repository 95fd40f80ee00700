"""A small cube and a small system that tests change one piece of."""

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

WHOLE = """\
name: whole
wire_ps_per_mm: 7.0
sips: 2
cubes_per_sip: 6
system:
  nodes:
    host: {kind: host, impl: x.host}
    switch: {kind: switch, impl: x.transit}
  links:
    - {from: host, to: switch, bw_gbs: 63, length_mm: 200}
    - {from: "sip[*].io[0].pcie_ep", to: switch, bw_gbs: 63, length_mm: 200}
    - {from: "sip[0].io[1].io_noc", to: "sip[1].io[1].io_noc", bw_gbs: 128, length_mm: 300}
sip:
  cube_mesh:
    {rows: 2, cols: 3, north: "ucie[0]", east: "ucie[1]", south: "ucie[2]", west: "ucie[3]", bw_gbs: 256, length_mm: 2}
  links:
    - {from: "io[*].io_noc", to: "cube[0:2].ucie[0]", bw_gbs: 256, length_mm: 2}
io:
  count: 2
  nodes:
    pcie_ep: {kind: pcie_ep, impl: x.transit}
    io_noc: {kind: io_noc, impl: x.transit}
    io_cpu: {kind: io_cpu, impl: x.io_cpu}
  links:
    - {from: io_noc, to: pcie_ep, bw_gbs: 64, length_mm: 3}
    - {from: io_noc, to: io_cpu, bw_gbs: 16, length_mm: 3}
cube:
  nodes:
    hbm: {kind: hbm, impl: x.hbm, count: 2, memory: {space: hbm, size: 2 GiB}}
    noc: {kind: noc, impl: x.transit}
    ucie: {kind: ucie, impl: x.transit, count: 4}
  pe_layout: {count: 2}
  pe_template:
    nodes:
      pe_dma: {kind: pe_dma, impl: x.dma}
      pe_tcm: {kind: pe_tcm, impl: x.tcm, memory: {space: tcm, size: 2 MiB}}
    wires: [pe_dma -> pe_tcm]
  links:
    - {from: noc, to: "hbm[*]", bw_gbs: 102.4, length_mm: 3}
    - {from: noc, to: "ucie[*]", bw_gbs: 256, length_mm: 3}
    - {from: noc, to: "pe[*].pe_dma", bw_gbs: 128, length_mm: 2}
"""


def _loader(text: str, label: str) -> Callable[..., Topology]:
    def load(*changes: str) -> Topology:
        changed = text
        for old, new in zip(changes[::2], changes[1::2], strict=True):
            assert old in changed
            changed = changed.replace(old, new, 1)
        return loads_topology(changed, label)

    return load


@pytest.fixture
def whole() -> Callable[..., Topology]:
    """Loads two SIPs of six cubes, as `whole.yaml`, with each `old, new` pair of arguments replaced."""
    return _loader(WHOLE, "whole.yaml")


@pytest.fixture
def small() -> Callable[..., Topology]:
    """Loads the small cube, as `small.yaml`, with each `old, new` pair of arguments replaced."""

    return _loader(SMALL, "small.yaml")
