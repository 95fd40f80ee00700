"""PE_TCM: the PE's scratchpad. FETCH and STORE take turns at its one port; DMA has its own way in."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from kb_engine.component import ComponentBase, Context
from kb_engine.ports import ExclusivePort
from kb_engine.units import Rate, ps_from_ns
from kb_messages.oplog import WaitReason


class PeTcmSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bandwidth (GB/s) and access latency (ns) of the port that FETCH and STORE share."""

    bw_gbs: Annotated[float, Meta(gt=0)]
    latency_ns: Annotated[float, Meta(ge=0)] = 0.0


class PeTcm(ComponentBase[PeTcmSpec]):
    """One port, served whole transfers at a time, first come, first served."""

    spec_type = PeTcmSpec

    def __init__(self, spec: PeTcmSpec, context: Context) -> None:
        super().__init__(spec, context)
        self._rate = Rate.from_gbs(spec.bw_gbs)
        self._latency_ps = ps_from_ns(spec.latency_ns)
        self.port = ExclusivePort(WaitReason.TCM_PORT)

    def access_ps(self, nbytes: int) -> int:
        """Picoseconds *nbytes* hold the port: latency, then bytes over bandwidth. Pure."""
        return self._latency_ps + self._rate.ps(nbytes)
