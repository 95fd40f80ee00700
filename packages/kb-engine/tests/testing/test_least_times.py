"""The contract suite compares a service with the time of its work at the block's full rate."""

from fractions import Fraction

from engine_said_by import names_of, said_by
from engine_toys import Gemm


class Half(Gemm):
    def least_ps(self, stage_type, params):
        return Fraction(self.service_ps(params), 2)


class Whole(Gemm):
    def least_ps(self, stage_type, params):
        return self.service_ps(params)


class Peaked(Gemm):
    """A product of 64 x 64 x 64 takes 525 ps at this peak."""

    def peak_flops(self, dtype):
        return 1e15


class TooLong(Gemm):
    def least_ps(self, stage_type, params):
        return self.service_ps(params) + Fraction(1, 3)


class Rounded(Gemm):
    def least_ps(self, stage_type, params):
        return 0.5


def test_no_service_is_shorter_than_its_work():
    assert names_of(Half) == names_of(Whole) == names_of(Peaked) == {}
    for impl in (TooLong, Rounded):
        assert list(names_of(impl)) == ["services_take_their_least"]
    said = said_by("services_take_their_least", TooLong)
    assert said.startswith("TooLong.least_ps(<StageType.GEMM: 2>, GemmParams(m=1, n=1, k=1, ")
    assert said.endswith(
        "got Fraction(15001, 3), needs None, or an exact number of picoseconds from 0 to service_ps, 5000; "
        "leave out latencies and rounding"
    )
