"""A PE_MATH of another make: a scalar unit with a deep pipeline."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from kb_engine.block import ComponentBase, Rate
from kb_messages import MathParams, StageParams, StageType


class AcmeMathSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One element a cycle at `clock_ghz`, after `depth` cycles."""

    clock_ghz: Annotated[float, Meta(gt=0)]
    depth: Annotated[int, Meta(ge=1)]
    queue_depth: Annotated[int, Meta(ge=1)] = 2


class AcmeMath(ComponentBase[AcmeMathSpec]):
    """Takes the same time for every function."""

    spec_type = AcmeMathSpec
    serves = (StageType.MATH,)

    def service_ps(self, params: StageParams) -> int:
        """rows * cols + depth cycles. Source: assumed."""
        assert isinstance(params, MathParams)
        return Rate.from_ghz(self.spec.clock_ghz).ps(params.rows * params.cols + self.spec.depth)
