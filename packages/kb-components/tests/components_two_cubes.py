"""The round chip (conftest.py) twice over: two cubes of two PEs, a host, and what joins them. No wire takes time."""

from __future__ import annotations

from typing import Any

from kb_components.host.io_cpu import IoCpu

HOST = (
    (
        "wire_ps_per_mm: 0\n",
        """wire_ps_per_mm: 0
cubes_per_sip: 2
system:
  nodes:
    host: {kind: host, impl: builtin.host, overhead_ns: 100, dma_channels: 2}
  links:
    - {from: host, to: "sip[*].io[0].pcie_ep", bw_gbs: 50, length_mm: 0}
sip:
  links:
    - {from: "io[0].io_noc", to: "cube[0].ucie", bw_gbs: 100, length_mm: 0}
    - {from: "cube[0].ucie", to: "cube[1].ucie", bw_gbs: 100, length_mm: 0}
io:
  nodes:
    pcie_ep: {kind: pcie_ep, impl: builtin.transit, overhead_ns: 20}
    io_noc: {kind: io_noc, impl: builtin.transit, overhead_ns: 3}
    io_cpu: {kind: io_cpu, impl: builtin.io_cpu, overhead_ns: 10}
  links:
    - {from: pcie_ep, to: io_noc, bw_gbs: 50, length_mm: 0}
    - {from: io_noc, to: io_cpu, bw_gbs: 16, length_mm: 0}
""",
    ),
    (
        "    xbar: {",
        """    noc: {kind: noc, impl: builtin.transit, overhead_ns: 2}
    ucie: {kind: ucie, impl: builtin.transit, overhead_ns: 5}
    m_cpu: {kind: m_cpu, impl: builtin.m_cpu, overhead_ns: 7}
    xbar: {""",
    ),
    ("pe_layout: {count: 1}", "pe_layout: {count: 2}"),
    (
        '    - {from: "xbar[0]", to: "hbm[0]"',
        """    - {from: ucie, to: noc, bw_gbs: 100, length_mm: 0}
    - {from: noc, to: "xbar[0]", bw_gbs: 100, length_mm: 0}
    - {from: m_cpu, to: noc, bw_gbs: 100, length_mm: 0}
    - {from: "pe[*].pe_cpu", to: noc, bw_gbs: 100, length_mm: 0}
    - {from: "xbar[0]", to: "hbm[0]\"""",
    ),
)
"""Picoseconds a byte: PCIe and io_noc 20, io_cpu 62.5, all in the cubes and between them 10, HBM 20."""

TWO_SIPS = (
    ("cubes_per_sip: 2\n", "sips: 2\ncubes_per_sip: 2\n"),
    (
        (
            "    host: {kind: host, impl: builtin.host, overhead_ns: 100, dma_channels: 2}\n"
            "  links:\n"
            '    - {from: host, to: "'
        ),
        (
            "    host: {kind: host, impl: builtin.host, overhead_ns: 100, dma_channels: 2}\n"
            "    switch: {kind: switch, impl: builtin.transit, overhead_ns: 40}\n"
            "  links:\n"
            "    - {from: host, to: switch, bw_gbs: 50, length_mm: 0}\n"
            '    - {from: switch, to: "'
        ),
    ),
)
"""A second SIP, behind a switch of 40 ns."""


def nothing(tl: Any, *arguments: Any) -> None:
    """A kernel that returns at once."""


class SlowIoCpu(IoCpu):
    """Someone else's: a microsecond a message."""

    def overhead_ps(self) -> int:
        return 1_000_000
