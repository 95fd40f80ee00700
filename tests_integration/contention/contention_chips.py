"""A small chip as plain values, which can be drawn, made smaller and written as the YAML of a topology."""

from __future__ import annotations

import re
from typing import NamedTuple

PREFIX = "sip0.cube0."
ALL = "all"
"""The memory over all slices of HBM, where there is one."""


class Forwarder(NamedTuple):
    """A node that bytes pass through."""

    name: str
    kind: str
    overhead_ns: float


class Memory(NamedTuple):
    """*count* equal memories: `impl` is hbm_fixed, hbm_banked or sram.

    They are `hbm0`, `hbm1` and so on, or `sram0`, `sram1`. A chip has one kind of each. `ports` of an sram is shared or
    separate, `mapping` of an hbm_banked has 15 bits, and its `bw_gbs` means nothing.
    """

    impl: str
    count: int
    bw_gbs: float
    latency_ns: float
    ports: str = ""
    mapping: str = ""

    @property
    def space(self) -> str:
        return self.impl.partition("_")[0]

    @property
    def names(self) -> list[str]:
        return [f"{self.space}{number}" for number in range(self.count)]


class ChipLink(NamedTuple):
    """One direction of a link. PEs have two ends, like `pe3.pe_dma` and `pe3.pe_cpu`."""

    src: str
    dst: str
    bw_gbs: float
    length_mm: float


class Chip(NamedTuple):
    """A chip of *n_pes* PEs, whose CPUs send and take messages.

    Their DMAs each have at most *outstanding* reads under way, and as many writes. *packet* has the bytes of payload
    and of the header of a packet, and *port* the width in bytes and the clock in GHz of the port of each DMA.
    With *granule_nbytes*, the memory `all` lies over all slices of HBM.
    """

    wire_ps_per_mm: float
    setup_ns: float
    n_pes: int
    forwarders: tuple[Forwarder, ...]
    memories: tuple[Memory, ...]
    links: tuple[ChipLink, ...]
    outstanding: int = 1
    packet: tuple[int, int] | None = None
    port: tuple[int, float] | None = None
    granule_nbytes: int = 0


def yaml_of(chip: Chip) -> str:
    """The topology file of *chip*."""
    lines = ["name: contention", f"wire_ps_per_mm: {chip.wire_ps_per_mm}"]
    lines += [f"packets: {{payload_nbytes: {chip.packet[0]}, header_nbytes: {chip.packet[1]}}}"] if chip.packet else []
    if chip.granule_nbytes:
        named = f'slices: "sip[0].cube[0].hbm[*]", granule_nbytes: {chip.granule_nbytes}'
        lines.append(f"interleaved: {{{ALL}: {{{named}}}}}")
    lines += ["cube:", "  nodes:"]
    for memory in chip.memories:
        keys = f"kind: {memory.space}, impl: builtin.{memory.impl}, count: {memory.count}"
        keys += f", memory: {{space: {memory.space}, size: 1 MiB}}"
        keys += f", latency_ns: {memory.latency_ns}"
        one_channel = f"bw_gbs: {memory.bw_gbs}, burst_nbytes: 1"
        keys += f", mapping: {memory.mapping}, {BANKS}" if memory.mapping else f", {one_channel}"
        keys += f", ports: {memory.ports}" if memory.ports else ""
        lines.append(f"    {memory.space}: {{{keys}}}")
    for name, kind, overhead_ns in chip.forwarders:
        lines.append(f"    {name}: {{kind: {kind}, impl: builtin.transit, overhead_ns: {overhead_ns}}}")
    dma = f"setup_ns: {chip.setup_ns}" + (f", outstanding: {chip.outstanding}" if chip.outstanding > 1 else "")
    dma += f", port_nbytes: {chip.port[0]}, port_clock_ghz: {chip.port[1]}" if chip.port else ""
    lines += [line.format(n_pes=chip.n_pes, dma=dma) for line in PES.splitlines()]
    lines.append("  links:")
    for src, dst, bw_gbs, length_mm in chip.links:
        ends = f'from: "{endpoint(src)}", to: "{endpoint(dst)}"'
        lines.append(f"    - {{{ends}, bw_gbs: {bw_gbs}, length_mm: {length_mm}, both_ways: false}}")
    return "\n".join(lines) + "\n"


def endpoint(name: str) -> str:
    """`pe3.pe_dma` and `hbm0` as a topology file writes them: `pe[3].pe_dma` and `hbm[0]`."""
    return re.sub(r"^(pe|hbm|sram)(\d+)", r"\1[\2]", name)


BANKS = (
    "clock_mhz: 1600, page_policy: open, burst_nbytes: 32, rl_cycles: 23, wl_cycles: 7, tccd_s_cycles: 2, "
    "tccd_l_cycles: 4, trtw_cycles: 19, trcd_ns: 14, trp_ns: 14, tras_ns: 34, trrd_s_ns: 4, trrd_l_ns: 6, tfaw_ns: 30, "
    "trtp_ns: 6, twr_ns: 16, twtr_s_ns: 6, twtr_l_ns: 8, trefi_ns: 3900, trfc_ns: 350"
)

PES = """\
  pe_layout: {{count: {n_pes}}}
  pe_template:
    nodes:
      pe_cpu: {{kind: pe_cpu, impl: builtin.pe_cpu, issue_ns: 0}}
      pe_scheduler: {{kind: pe_scheduler, impl: builtin.pe_scheduler, input_kib: 64, output_kib: 64}}
      pe_dma: {{kind: pe_dma, impl: builtin.pe_dma, {dma}}}
      pe_fetch_store: {{kind: pe_fetch_store, impl: builtin.pe_fetch_store, memory: {{space: reg, size: 1 KiB}}}}
      pe_tcm: {{kind: pe_tcm, impl: builtin.pe_tcm, memory: {{space: tcm, size: 256 KiB}}, bw_gbs: 512}}
    wires: [pe_cpu -> pe_scheduler, pe_scheduler -> pe_dma, pe_scheduler -> pe_fetch_store,
            pe_dma -> pe_fetch_store, pe_fetch_store -> pe_dma, pe_fetch_store -> pe_tcm]"""
