"""A GEMM engine of another make: a weight-stationary array."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from kb_engine.block import ComponentBase, Context, Rate
from kb_messages import GemmParams, StageParams, StageType


class AcmeGemmSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`side x side` cells at `clock_ghz`."""

    side: Annotated[int, Meta(ge=1)]
    clock_ghz: Annotated[float, Meta(gt=0)]
    queue_depth: Annotated[int, Meta(ge=1)] = 2


class AcmeGemm(ComponentBase[AcmeGemmSpec]):
    """Holds a block of B, streams the rows of A past it, and begins again with the next block."""

    spec_type = AcmeGemmSpec
    serves = (StageType.GEMM,)

    def __init__(self, spec: AcmeGemmSpec, context: Context) -> None:
        super().__init__(spec, context)
        self._clock = Rate.from_ghz(spec.clock_ghz)

    def service_ps(self, params: StageParams) -> int:
        """For each block of B: `side` cycles to load it, m rows, 2 * side - 2 to drain. Source: assumed."""
        assert isinstance(params, GemmParams)
        side = self.spec.side
        blocks = -(-params.k // side) * -(-params.n // side)
        return self._clock.ps(blocks * (side + params.m + 2 * side - 2))
