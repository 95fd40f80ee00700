"""The array's cost, as a table."""

from fractions import Fraction

import pytest

from kb_components.pe.pe_gemm import PeGemm, PeGemmSpec
from kb_engine.block import Context
from kb_engine.timing import Clock
from kb_messages import DType, GemmParams, PlanError, StageType


def array(rows=16, cols=16, clock_ghz=1.0, **more):
    spec = PeGemmSpec(rows=rows, cols=cols, clock_ghz=clock_ghz, **more)
    return PeGemm(spec, Context("sip0.cube0.pe0.pe_gemm", Clock(), None, 0))


def gemm(m, n, k, dtype=DType.F16, dtype_b=None):
    return GemmParams(
        m=m, n=n, k=k, dtype=dtype, dtype_b=dtype_b or dtype, dtype_acc=dtype.accumulator, accumulate=False
    )


@pytest.mark.parametrize(
    ("params", "cycles"),
    [
        (gemm(16, 16, 16), 16 + 30),
        (gemm(1, 1, 1), 1 + 30),  # an empty array takes as long to fill and drain
        (gemm(17, 16, 16), 2 * 16 + 30),  # one row too many is a second pass
        (gemm(32, 48, 16), 2 * 3 * 16 + 30),
        (gemm(16, 16, 1000), 1000 + 30),
        (gemm(16, 16, 16, DType.BF16), 16 + 30),
        (gemm(16, 16, 16, DType.I8), 8 + 30),
        (gemm(16, 16, 17, DType.I8), 9 + 30),  # half a step is a step
        (gemm(16, 16, 16, DType.F8E4M3), 8 + 30),
        (gemm(16, 16, 16, DType.F8E5M2), 8 + 30),
        (gemm(16, 16, 16, DType.F32), 64 + 30),
        (gemm(16, 16, 16, DType.F16, DType.F32), 64 + 30),  # the slower operand decides
        (gemm(16, 16, 16, DType.F32, DType.F16), 64 + 30),
    ],
)
def test_cost_in_cycles(params, cycles):
    assert array().service_ps(params) == cycles * 1000


@pytest.mark.parametrize(
    ("rows", "cols", "cycles"), [(1, 1, 64 * 64 * 8), (64, 64, 8 + 126), (32, 128, 2 * 8 + 158), (64, 1, 64 * 8 + 63)]
)
def test_cost_by_the_shape_of_the_array(rows, cols, cycles):
    assert array(rows, cols).service_ps(gemm(64, 64, 8)) == cycles * 1000


def test_cycles_are_rounded_up_once_and_not_each():
    # 46 cycles at 0.7 GHz: 46 x 1000 / 0.7 = 65714.28; a cycle rounded up, 1429, would make 65734.
    assert array(clock_ghz=0.7).service_ps(gemm(16, 16, 16)) == 65715


def test_a_rate_is_the_decimal_that_was_written():
    # 0.1 MAC a cycle are exactly ten cycles a step; as a double it is a little more than 0.1.
    assert array(macs_per_cell={DType.F16: 0.1}).service_ps(gemm(16, 16, 3)) == (30 + 30) * 1000


def test_peak_counts_two_operations_a_multiply_add():
    assert array(64, 64).peak_flops(DType.F16) == 2 * 64 * 64 * 1e9
    assert array(64, 64, 1.5).peak_flops(DType.I8) == 2 * 64 * 64 * 2 * 1.5e9


def test_a_dtype_the_array_does_not_take_is_refused():
    with pytest.raises(PlanError) as caught:
        array(macs_per_cell={DType.I8: 4.0, DType.F16: 1.0}).service_ps(gemm(16, 16, 16, DType.F32))
    assert str(caught.value) == (
        "sip0.cube0.pe0.pe_gemm: got f32 operands, needs one of i8, f16; add it to macs_per_cell"
    )


def test_it_serves_gemm_at_a_pure_cost():
    assert array().serves == (StageType.GEMM,)
    assert array().has_pure_cost
    assert array(queue_depth=7).queue_depth(StageType.GEMM) == 7


@pytest.mark.parametrize(
    ("clock_ghz", "params", "steps", "fill_drain"),
    [
        (1.0, gemm(17, 16, 16), 32_000, 30_000),
        (0.7, gemm(16, 16, 16), 22_858, 42_857),  # 16 cycles are 22857.14, and all 46 are 65714.28: 65715 - 22858
    ],
)
def test_a_cost_is_the_steps_and_the_skew_of_the_array(clock_ghz, params, steps, fill_drain):
    assert array(clock_ghz=clock_ghz).service_parts(params) == {"steps": steps, "fill_drain": fill_drain}


def test_services_take_the_cycles_of_the_sustained_clock_and_peak_rates_those_of_the_other():
    slow = array(clock_ghz=2.0, sustained_clock_ghz=1.0)
    assert slow.service_ps(gemm(16, 16, 16)) == 46_000  # 16 + 30 cycles of 1 GHz
    assert slow.peak_flops(DType.F16) == 2 * 16 * 16 * 2e9


def test_the_least_time_has_every_cell_at_work_at_the_faster_clock():
    assert array(16, 16).least_ps(StageType.GEMM, gemm(16, 16, 16)) == 16_000
    assert array(16, 16).least_ps(StageType.GEMM, gemm(1, 17, 16)) == Fraction(1 * 17 * 16 * 1000, 256)
    for clocks in ({"clock_ghz": 2.0, "sustained_clock_ghz": 1.0}, {"clock_ghz": 1.0, "sustained_clock_ghz": 2.0}):
        assert array(16, 16, **clocks).least_ps(StageType.GEMM, gemm(16, 16, 16)) == 8_000
        assert array(16, 16, **clocks).peak_flops(DType.F16) == 2 * 16 * 16 * 2e9
    mixed = gemm(16, 16, 16, DType.I8, DType.F16)
    assert array(16, 16).least_ps(StageType.GEMM, mixed) == 16_000  # f16 is the slower type
