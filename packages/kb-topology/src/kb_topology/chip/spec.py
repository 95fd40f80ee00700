"""The format of a topology file.

The mapping of a node holds the keys of NodeTemplate and the attributes of its component side by side. The loader moves
the attributes to `attrs`. The Spec of the component decides which attributes are allowed.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from kb_messages import Lever
from kb_topology.chip.validation import Validation

Count = Annotated[int, Meta(ge=1)]
Bandwidth = Annotated[
    float,
    Meta(
        ge=0.001,
        le=1_000_000,
        extra=Lever(("links: bytes", "links: shared", "pe_dma: service"), "twice", "bandwidth").extra,
    ),
]
"""GB/s (bytes per nanosecond), from 1 MB/s to 1 PB/s, so that the picoseconds of every transfer fit 64 bits."""
Length = Annotated[float, Meta(ge=0, le=1_000_000)]
"""Millimetres, at most a kilometre."""


SlowFactor = Annotated[float, Meta(ge=1, le=1000)]
"""The times of a slow PE over the times of the other PEs. Source of the bound: assumed; every time fits 64 bits."""


class NodeKind(Enum):
    """The kind of hardware of a node. The behaviour of a node comes from its `impl`."""

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
    PE_QUEUE = "pe_queue"
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
"""The kinds of nodes through which a route may pass. At every other kind a route can only begin or end."""


class MemoryTemplate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The memory of a node: its space, and its size in bytes, as text like `512 KiB` or as an int."""

    space: Literal["hbm", "sram", "tcm", "reg"]
    size: int | str


class NodeTemplate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One node, or `count` nodes numbered from 0. `impl` names the component, and `attrs` are its attributes."""

    kind: NodeKind
    impl: Annotated[str, Meta(min_length=1)]
    count: Count | None = None
    memory: MemoryTemplate | None = None
    attrs: dict[str, Any] = {}


NODE_KEYS = ("kind", "impl", "count", "memory")
"""The keys of a node's mapping that are not attributes of its component."""


class LinkTemplate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Links from every node of endpoint `from` to the nodes of endpoint `to`, and back if `both_ways`."""

    src: str = field(name="from")
    dst: str = field(name="to")
    bw_gbs: Bandwidth
    length_mm: Length
    both_ways: bool = True


class PeTemplate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The nodes and wires of every PE. A wire, `a -> b`, carries commands and tile tokens and takes no time."""

    nodes: dict[str, NodeTemplate]
    wires: list[str] = []


class PeLayout(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The number of PEs of a cube."""

    count: Count


class CubeTemplate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The nodes, PEs and links of every cube."""

    nodes: dict[str, NodeTemplate]
    pe_layout: PeLayout | None = None
    pe_template: PeTemplate | None = None
    links: list[LinkTemplate] = []


class IoTemplate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The nodes and links of every IO chiplet, and the number of IO chiplets of a SIP."""

    nodes: dict[str, NodeTemplate]
    count: Count = 1
    links: list[LinkTemplate] = []


class MeshTemplate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cubes of a SIP in rows and columns. Each cube is linked to its neighbours, in both directions.

    Cube `row * cols + col` is in row `row` from the north and in column `col` from the west. The node `east` of a cube
    faces the node `west` of its neighbour, and `south` faces `north`. An axis with one cube needs neither node.

    With `torus: one_way`, links lead only east and south, and the last cube of a row or column is linked to its first.
    """

    rows: Count
    cols: Count
    north: str | None = None
    east: str | None = None
    south: str | None = None
    west: str | None = None
    torus: Literal["one_way"] | UnsetType = UNSET
    bw_gbs: Bandwidth
    length_mm: Length


class SipTemplate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The links between the chiplets of every SIP."""

    cube_mesh: MeshTemplate | None = None
    links: list[LinkTemplate] = []


class SystemTemplate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The nodes outside the SIPs, and the links between SIPs."""

    nodes: dict[str, NodeTemplate] = {}
    links: list[LinkTemplate] = []


class InterleavedTemplate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A memory whose bytes lie in granules over slices of HBM of any cubes, in turn, in the order of `slices`.

    `slices` names slices from the system on, like `sip[0].cube[*].hbm[0:3]`, as one endpoint or as a list of endpoints.
    With `default`, the memory holds each tensor in HBM for which the host names no blocks, slices or shards.
    """

    slices: str | list[str]
    granule_nbytes: Annotated[int, Meta(ge=64, multiple_of=64)]
    default: bool = False


class PacketTemplate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The packets of all transfers: each has `header_nbytes`, and at most `payload_nbytes` of the transfer's bytes.

    The headers pass every link with the bytes. Requests and acknowledgements have no bytes and no headers.
    """

    payload_nbytes: Count
    header_nbytes: Annotated[int, Meta(ge=0)]

    def on_links(self, nbytes: int) -> int:
        """The bytes on each link, with headers, of a transfer of *nbytes*."""
        return nbytes + -(-nbytes // self.payload_nbytes) * self.header_nbytes


class MulticastTemplate(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One read of a memory serves up to `receivers` blocks that read the same bytes at the same time.

    The links of their routes carry the bytes once, and copy the bytes where routes part.
    """

    receivers: Annotated[int, Meta(ge=2)]


class TopologySpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole topology file. `wire_ps_per_mm` is the travel time of a signal along a link, in ps per mm.

    `hbm_interleave_nbytes` is the granule of flat tensors, which lie over the HBM slices of a cube, in turn. With 0,
    the default, every tensor lies in slices that the host names. Source of the unit: a burst of HBM3 has 64 bytes.
    `interleaved` names more sets of slices over which tensors can lie. Without `packets`, bytes have no headers, and
    without `multicast` no two reads share their bytes. `slow` has factors by PEs, as `pe3` or `sip[*].cube[0].pe[0:4]`:
    the blocks of such a PE take as many times as long.

    A part that the file leaves out is UNSET, not empty. So files keep their digest when the format gains a new part.
    """

    name: Annotated[str, Meta(min_length=1)]
    description: str = ""
    wire_ps_per_mm: Annotated[float, Meta(ge=0, le=1_000_000)]
    hbm_interleave_nbytes: Annotated[int, Meta(ge=0, multiple_of=64)] = 0
    packets: PacketTemplate | UnsetType = UNSET
    multicast: MulticastTemplate | UnsetType = UNSET
    interleaved: dict[str, InterleavedTemplate] | UnsetType = UNSET
    sips: Count = 1
    cubes_per_sip: Count = 1
    system: SystemTemplate | UnsetType = UNSET
    sip: SipTemplate | UnsetType = UNSET
    io: IoTemplate | UnsetType = UNSET
    slow: dict[str, SlowFactor] | UnsetType = UNSET
    fidelity: list[Validation] | UnsetType = UNSET
    cube: CubeTemplate
