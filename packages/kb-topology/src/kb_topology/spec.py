"""What a topology file may say.

A node's mapping holds the four keys of NodeTemplate and, beside them, the attributes of its component. The loader
moves the attributes into `attrs`; what they may be is for the component's own Spec to say.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

Count = Annotated[int, Meta(ge=1)]
Bandwidth = Annotated[float, Meta(ge=0.001, le=1_000_000)]
"""GB/s (bytes per nanosecond). Bounds: 1 MB/s to 1 PB/s, so that every transfer's picoseconds fit 64 bits."""
Length = Annotated[float, Meta(ge=0, le=1_000_000)]
"""Millimetres, at most a kilometre."""


class NodeKind(Enum):
    """What a node is; how it behaves is its `impl`."""

    HBM = "hbm"
    SRAM = "sram"
    XBAR = "xbar"
    BRIDGE = "bridge"
    NOC = "noc"
    PE_CPU = "pe_cpu"
    PE_SCHEDULER = "pe_scheduler"
    PE_DMA = "pe_dma"
    PE_FETCH_STORE = "pe_fetch_store"
    PE_GEMM = "pe_gemm"
    PE_MATH = "pe_math"
    PE_MMU = "pe_mmu"
    PE_TCM = "pe_tcm"
    M_CPU = "m_cpu"
    IO_CPU = "io_cpu"
    PCIE_EP = "pcie_ep"
    IO_NOC = "io_noc"
    UCIE = "ucie"
    SERDES = "serdes"
    SWITCH = "switch"
    HOST = "host"


FORWARDING = frozenset(
    {
        NodeKind.XBAR,
        NodeKind.BRIDGE,
        NodeKind.NOC,
        NodeKind.UCIE,
        NodeKind.SERDES,
        NodeKind.SWITCH,
        NodeKind.PCIE_EP,
        NodeKind.IO_NOC,
    }
)
"""The kinds a route may pass through; at every other kind it can only begin or end."""


class MemoryTemplate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A memory that a node holds: its space, and its size as `512 KiB` or an int of bytes."""

    space: Literal["hbm", "sram", "tcm", "reg"]
    size: int | str


class NodeTemplate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One node, or `count` of them numbered from 0. `impl` names the component, `attrs` are the component's."""

    kind: NodeKind
    impl: Annotated[str, Meta(min_length=1)]
    count: Count | None = None
    memory: MemoryTemplate | None = None
    attrs: dict[str, Any] = {}


NODE_KEYS = ("kind", "impl", "count", "memory")
"""The keys of a node's mapping that are not attributes of its component."""


class LinkTemplate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Links from every node that `from` names to the nodes that `to` names, and back if `both_ways`."""

    src: str = field(name="from")
    dst: str = field(name="to")
    bw_gbs: Bandwidth
    length_mm: Length
    both_ways: bool = True


class PeTemplate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every PE is made of. A wire, `a -> b`, is a way for commands and tile tokens, free of time."""

    nodes: dict[str, NodeTemplate]
    wires: list[str] = []


class PeLayout(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many PEs a cube has."""

    count: Count


class CubeTemplate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every cube is made of."""

    nodes: dict[str, NodeTemplate]
    pe_layout: PeLayout | None = None
    pe_template: PeTemplate | None = None
    links: list[LinkTemplate] = []


class IoTemplate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every IO chiplet is made of, and how many of them a SIP has."""

    nodes: dict[str, NodeTemplate]
    count: Count = 1
    links: list[LinkTemplate] = []


class MeshTemplate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cubes of a SIP in rows and columns, each linked, both ways, to its neighbours.

    Cube `row * cols + col` is in row `row` from the north and column `col` from the west. `east` is the node of a cube
    that faces its neighbour's `west`, `south` the one that faces `north`; an axis of one cube needs neither.
    """

    rows: Count
    cols: Count
    north: str | None = None
    east: str | None = None
    south: str | None = None
    west: str | None = None
    bw_gbs: Bandwidth
    length_mm: Length


class SipTemplate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What joins the chiplets of every SIP."""

    cube_mesh: MeshTemplate | None = None
    links: list[LinkTemplate] = []


class SystemTemplate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is outside the SIPs, and what joins them."""

    nodes: dict[str, NodeTemplate] = {}
    links: list[LinkTemplate] = []


class TopologySpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole topology file. `wire_ps_per_mm` is the signal's travel time along a link, in ps per mm.

    A part that a file leaves out is UNSET rather than empty, so that a file's digest stays what it was before that
    part could be written.
    """

    name: Annotated[str, Meta(min_length=1)]
    description: str = ""
    wire_ps_per_mm: Annotated[float, Meta(ge=0, le=1_000_000)]
    hbm_interleave_nbytes: int = 0
    sips: Count = 1
    cubes_per_sip: Count = 1
    system: SystemTemplate | UnsetType = UNSET
    sip: SipTemplate | UnsetType = UNSET
    io: IoTemplate | UnsetType = UNSET
    cube: CubeTemplate
