"""Blocks whose services take some picoseconds longer than the built-in ones."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from kb_components.pe.pe_gemm import PeGemm, PeGemmSpec
from kb_components.pe.pe_math import PeMath, PeMathSpec
from kb_engine.engine import Registry
from kb_messages import StageParams


class LongerGemmSpec(PeGemmSpec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`longer_ps` is added to every service."""

    longer_ps: int = 0


class LongerGemm(PeGemm):
    """PE_GEMM with slower services."""

    spec_type = LongerGemmSpec

    def service_ps(self, params: StageParams) -> int:
        return super().service_ps(params) + self.spec.longer_ps  # type: ignore[attr-defined]


class LongerMathSpec(PeMathSpec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`longer_ps` is added to every service."""

    longer_ps: int = 0


class LongerMath(PeMath):
    """PE_MATH with slower services."""

    spec_type = LongerMathSpec

    def service_ps(self, params: StageParams) -> int:
        return super().service_ps(params) + self.spec.longer_ps  # type: ignore[attr-defined]


def registry() -> Registry:
    """The installed blocks, and `longer.pe_gemm` and `longer.pe_math`."""
    mine = [
        EntryPoint(f"longer.{name}", f"{__name__}:{kind.__name__}", "kb.components")
        for name, kind in (("pe_gemm", LongerGemm), ("pe_math", LongerMath))
    ]
    return Registry([*entry_points(group="kb.components"), *mine])
