"""The contract suite adds up the parts of a cost."""

from engine_said_by import names_of, said_by
from engine_toys import Gemm


class Halves(Gemm):
    def service_parts(self, params):
        whole = self.service_ps(params)
        return {"load": whole // 2, "run": whole - whole // 2}


class Unequal(Gemm):
    def service_parts(self, params):
        return {"load": 1, "run": self.service_ps(params)}


class Negative(Gemm):
    def service_parts(self, params):
        return {"load": -1, "run": self.service_ps(params) + 1}


class Partless(Gemm):
    def service_parts(self, params):
        return {}


def test_the_parts_of_a_cost_add_up_to_it():
    assert names_of(Halves) == {}
    for impl in (Unequal, Negative, Partless):
        assert list(names_of(impl)) == ["service_parts_add_up"]
    said = said_by("service_parts_add_up", Unequal)
    assert said.startswith("Unequal.service_parts(GemmParams(m=1, n=1, k=1, ")
    assert said.endswith(
        "got {'load': 1, 'run': 5000}, needs ints >= 0 that add up to service_ps, 5000; give the rest to the last part"
    )
