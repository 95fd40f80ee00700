"""HBM slice of fixed latency: a request waits for its turn, then takes one latency and its bytes at one bandwidth."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from kb_components.cost_fields import bandwidth_gbs, time_ns
from kb_engine.block import Context, Rate, SingleChannelMemory, ps_from_ns


class HbmFixedSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bandwidth of the slice (GB/s, reads and writes together) and access latency (ns).

    `burst_nbytes`: a write that other requests interrupt is served in whole bursts. Source: JEDEC JESD238 (HBM3).
    """

    bw_gbs: Annotated[float, bandwidth_gbs(("hbm: bytes", "hbm: busy with others", "hbm: service", "pe_dma: service"))]
    latency_ns: Annotated[float, time_ns(("hbm: latency", "hbm: service", "pe_dma: service"))]
    burst_nbytes: Annotated[int, Meta(ge=1)] = 64


class HbmFixed(SingleChannelMemory[HbmFixedSpec]):
    """Serves requests in order of arrival. The latency of a request overlaps the bytes of the one before.

    Source: assumed (rows, banks, turnaround and refresh are not modelled).
    """

    __slots__ = ("_latency_ps", "_rate")

    spec_type = HbmFixedSpec
    free_times = ("free_ps",)

    def __init__(self, spec: HbmFixedSpec, context: Context) -> None:
        super().__init__(spec, context)
        self._rate = Rate.from_gbs(spec.bw_gbs)
        self._latency_ps = ps_from_ns(spec.latency_ns)

    @property
    def burst_nbytes(self) -> int:
        """The bytes of a burst, from the Spec."""
        return self.spec.burst_nbytes

    def latency_ps(self, nbytes: int, write: bool) -> int:
        """The same latency for reads and writes of any size."""
        return self._latency_ps

    def occupancy_ps(self, nbytes: int, write: bool) -> int:
        """Picoseconds that *nbytes* hold the slice: bytes divided by bandwidth."""
        return self._rate.ps(nbytes)
