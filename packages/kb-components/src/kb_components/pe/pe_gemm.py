"""PE_GEMM: an output-stationary MAC array, which works on one tile at a time."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

from msgspec import Meta, Struct, field

from kb_components.cost_fields import LEAST_RATE, MOST_RATE, clock_ghz
from kb_engine.block import PS_PER_NS, ComponentBase, Context, Rate, exact
from kb_messages import DType, GemmParams, PipelinePlan, PlanError, Role, StageParams, StageType

_DEFAULT_RATE = {
    DType.F16: 1.0,
    DType.BF16: 1.0,
    DType.F8E4M3: 2.0,
    DType.F8E5M2: 2.0,
    DType.I8: 2.0,
    DType.U8: 2.0,
    DType.F32: 0.25,
}
"""MACs a cell does in a cycle, by operand type. Source: assumed (the usual ratios of tensor engines)."""


class PeGemmSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`rows x cols` cells at `clock_ghz`. A cell does `macs_per_cell` a cycle, by dtype; other dtypes are refused.

    `sustained_clock_ghz`: the clock that a chip keeps up at its power limit, and that decides the times of services.
    Source: the topology; by default it is `clock_ghz`. Peak rates refer to the faster of the two clocks.
    """

    rows: Annotated[int, Meta(ge=1)]
    cols: Annotated[int, Meta(ge=1)]
    clock_ghz: Annotated[float, clock_ghz(("pe_gemm",))]
    sustained_clock_ghz: Annotated[float, clock_ghz(("pe_gemm",), "sustained clock")] | None = None
    queue_depth: Annotated[int, Meta(ge=1)] = 2
    macs_per_cell: dict[DType, Annotated[float, Meta(ge=LEAST_RATE, le=MOST_RATE)]] = field(
        default_factory=lambda: dict(_DEFAULT_RATE)
    )


class PeGemm(ComponentBase[PeGemmSpec]):
    """Holds the array for a tile's cycles. Operands are already in the register file."""

    spec_type = PeGemmSpec
    serves = (StageType.GEMM,)
    checks_by_form = True

    def __init__(self, spec: PeGemmSpec, context: Context) -> None:
        super().__init__(spec, context)
        self._clock = Rate.from_ghz(spec.sustained_clock_ghz or spec.clock_ghz)
        self._peak_ghz = max(exact(spec.clock_ghz), exact(spec.sustained_clock_ghz or spec.clock_ghz))
        self._per_cycle = {dtype: exact(rate) for dtype, rate in spec.macs_per_cell.items()}

    def service_ps(self, params: StageParams) -> int:
        """Picoseconds that a tile holds the array: the steps over k for each rows x cols block, and one fill and drain.

        cycles = ceil(m / rows) * ceil(n / cols) * ceil(k / macs_per_cell) + rows + cols - 2. Raises PlanError for a
        dtype that the array does not take. Source: the steps and the skew of rows + cols - 2 are from SCALE-Sim's
        output-stationary model (Samajdar et al., 2018); that blocks of one tile follow without a gap is assumed.
        """
        return self._clock.ps(self._steps(params) + self.spec.rows + self.spec.cols - 2)

    def least_ps(self, stage_type: StageType, params: StageParams) -> Fraction | None:
        """The multiply-adds of a tile with every cell busy, at the peak rate."""
        assert isinstance(params, GemmParams)
        per_cycle = self.spec.rows * self.spec.cols * self._macs(params)
        return params.m * params.n * params.k * PS_PER_NS / (per_cycle * self._peak_ghz)

    def service_parts(self, params: StageParams) -> dict[str, int]:
        """`steps`, the time of the steps rounded up, and `fill_drain`, the rest of the service."""
        steps = self._clock.ps(self._steps(params))
        return {"steps": steps, "fill_drain": self.service_ps(params) - steps}

    def peak_flops(self, dtype: DType) -> float:
        """Operations a second with every cell busy. A multiply-add counts as two.

        Raises PlanError for a dtype that the array does not take.
        """
        cells = self.spec.rows * self.spec.cols
        return float(2 * cells * self._rate(dtype) * self._peak_ghz * 10**9)

    def check_plan(self, plan: PipelinePlan) -> None:
        """Raises PlanError for operand types that the array does not take."""
        for stage in plan.stages:
            if stage.stage_type is StageType.GEMM:
                for operand in stage.operands:
                    if operand.role in (Role.A, Role.B):
                        self._rate(operand.dtype)

    def _steps(self, params: StageParams) -> int:
        """Cycles in which the array multiplies."""
        assert isinstance(params, GemmParams)
        rate = self._macs(params)
        steps = -(-params.k * rate.denominator // rate.numerator)
        return -(-params.m // self.spec.rows) * -(-params.n // self.spec.cols) * steps

    def _macs(self, params: GemmParams) -> Fraction:
        """The multiply-adds of a cell in a cycle: those of the slower operand type."""
        return min(self._rate(params.dtype), self._rate(params.dtype_b))

    def _rate(self, dtype: DType) -> Fraction:
        rate = self._per_cycle.get(dtype)
        if rate is None:
            known = ", ".join(self._per_cycle)
            raise PlanError(self.node_id, f"{dtype} operands", f"one of {known}", "add it to macs_per_cell")
        return rate
