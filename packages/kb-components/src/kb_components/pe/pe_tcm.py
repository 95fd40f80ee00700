"""PE_TCM: the PE's scratchpad.

FETCH and STORE take turns at one port; transfers that use it as a memory have another.

A PE's loads and stores cost its TCM nothing: DMA writes and reads the tile buffers by a way of its own. The DMA port
serves transfers whose memory is this TCM. They come from other PEs over the fabric, or from its own PE.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from msgspec import Struct

from kb_components.cost_fields import bandwidth_gbs, time_ns
from kb_engine.block import (
    PART,
    Context,
    ExclusivePort,
    Gate,
    MemoryPart,
    Rate,
    Scratchpad,
    SingleChannelMemory,
    State,
    ps_from_ns,
)
from kb_messages import StageType, WaitReason

_BYTES: Final = ("pe_tcm: bytes", "pe_tcm: busy with others", "pe_tcm: service", "pe_dma: service")
_LATENCY: Final = ("pe_tcm: latency", "pe_tcm: service", "pe_dma: service")


class PeTcmSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bandwidth (GB/s) and access latency (ns) of the port that FETCH and STORE share.

    `dma_bw_gbs` and `dma_latency_ns` are the bandwidth and latency of the port for DMA, by default the same. Source:
    assumed, unless the topology says.
    """

    bw_gbs: Annotated[float, bandwidth_gbs(("pe_fetch_store", *_BYTES))]
    latency_ns: Annotated[float, time_ns(("pe_fetch_store", *_LATENCY))] = 0.0
    dma_bw_gbs: Annotated[float, bandwidth_gbs(_BYTES, "bandwidth of the DMA port")] | None = None
    dma_latency_ns: Annotated[float, time_ns(_LATENCY, "latency of the DMA port")] | None = None


class PeTcm(SingleChannelMemory[PeTcmSpec], Scratchpad[PeTcmSpec]):
    """Two ports, which serve one whole transfer at a time, first come, first served. They do not disturb each other."""

    spec_type = PeTcmSpec
    free_times = ("free_ps",)
    state: ClassVar[State] = {"port": PART}

    def __init__(self, spec: PeTcmSpec, context: Context) -> None:
        super().__init__(spec, context)
        self._rate = Rate.from_gbs(spec.bw_gbs)
        self._latency_ps = ps_from_ns(spec.latency_ns)
        self._dma_rate = self._rate if spec.dma_bw_gbs is None else Rate.from_gbs(spec.dma_bw_gbs)
        self._dma_latency_ps = self._latency_ps if spec.dma_latency_ns is None else ps_from_ns(spec.dma_latency_ns)
        self.port = ExclusivePort(WaitReason.TCM_PORT)

    def access_gates(self, stage_type: StageType) -> tuple[Gate, ...]:
        """The one port, for fetches and stores."""
        return (self.port,)

    def access_ps(self, nbytes: int) -> int:
        """Picoseconds that *nbytes* hold the port of FETCH and STORE: latency, then bytes over bandwidth. Pure."""
        return self._latency_ps + self._rate.ps(nbytes)

    @property
    def parts(self) -> tuple[MemoryPart, ...]:
        """The port for DMA. `least_access_ps` covers the port of FETCH and STORE."""
        return (MemoryPart("", self.read_nbytes, self.written_nbytes, self._dma_rate.ps_each),)

    def latency_ps(self, nbytes: int, write: bool) -> int:
        """The latency of the DMA port, which is the same for reads and writes of any size."""
        return self._dma_latency_ps

    def occupancy_ps(self, nbytes: int, write: bool) -> int:
        """Bytes over the bandwidth of the DMA port."""
        return self._dma_rate.ps(nbytes)
