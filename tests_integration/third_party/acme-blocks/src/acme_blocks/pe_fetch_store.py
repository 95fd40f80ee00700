"""A PE_FETCH_STORE of another make: it moves whole lines, and FETCH and STORE do not disturb each other."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from kb_engine.block import RegisterFileOwner, ps_from_ns
from kb_messages import StageParams, StageType, TransferParams


class AcmeFetchStoreSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`line_nbytes` move in `line_ns`. The register file's size is the node's `memory`."""

    line_nbytes: Annotated[int, Meta(ge=1)]
    line_ns: Annotated[float, Meta(gt=0)]
    queue_depth: Annotated[int, Meta(ge=1)] = 2


class AcmeFetchStore(RegisterFileOwner[AcmeFetchStoreSpec]):
    """A way in and a way out. The role owns the register file, where tiles claim what their plan says."""

    spec_type = AcmeFetchStoreSpec
    serves = (StageType.FETCH, StageType.STORE)

    def service_ps(self, params: StageParams) -> int:
        """`line_ns` for each line that has begun. Source: assumed."""
        assert isinstance(params, TransferParams)
        return -(-params.nbytes // self.spec.line_nbytes) * ps_from_ns(self.spec.line_ns)
