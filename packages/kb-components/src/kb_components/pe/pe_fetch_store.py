"""PE_FETCH_STORE: moves tiles between TCM and the register file, which it owns."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any

from msgspec import Meta, Struct

from kb_engine.block import Gate, RegisterFileOwner, Scratchpad
from kb_messages import StageParams, StageType, TransferParams


class PeFetchStoreSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Depth of the FETCH and of the STORE queue. The register file's size is the node's `memory`.

    Source: assumed, unless the topology says.
    """

    queue_depth: Annotated[int, Meta(ge=1)] = 2


class PeFetchStore(RegisterFileOwner[PeFetchStoreSpec]):
    """Two queues, FETCH and STORE. Both pass the TCM's gates: with `builtin.pe_tcm` they share its port."""

    __slots__ = ("_tcm",)

    spec_type = PeFetchStoreSpec
    serves = (StageType.FETCH, StageType.STORE)
    checks_by_form = True

    def connect(self) -> None:
        """Finds the TCM whose ports FETCH and STORE pass."""
        role: type[Any] = Scratchpad
        self._tcm: Scratchpad[Any] = self.context.neighbour("pe_tcm", role)

    def gates(self, stage_type: StageType) -> tuple[Gate, ...]:
        """The gates of the TCM for a stage of *stage_type*."""
        return self._tcm.access_gates(stage_type)

    def service_ps(self, params: StageParams) -> int:
        """The TCM's access time for the tile's bytes."""
        assert isinstance(params, TransferParams)
        return self._tcm.access_ps(params.nbytes)

    def least_ps(self, stage_type: StageType, params: StageParams) -> Fraction | None:
        """The tile's bytes at the full rate of the TCM's port."""
        assert isinstance(params, TransferParams)
        return self._tcm.least_access_ps(params.nbytes)

    def service_parts(self, params: StageParams) -> dict[str, int]:
        """`latency`, the time of the TCM for zero bytes, and `bytes`, the rest of the service."""
        latency = self._tcm.access_ps(0)
        return {"latency": latency, "bytes": self.service_ps(params) - latency}
