"""The rule `operands replicated` finds copies of operands that one cache fetches."""

import pytest
from rule_runs import check_gain, rules

import kernbench as kb

RULE = "operands replicated"


def product(chip, size, operands):
    return kb.run("gemm", chip=chip, M=size, N=size, K=size, dtype="f16", operands=operands, compute=False)


@pytest.mark.parametrize("size", [512, 768])
def test_copies_behind_one_cache(size):
    flawed, rewritten = (product("devices/h100", size, operands) for operands in ("replicated", "one_slice"))
    found = check_gain(flawed, rewritten, RULE)
    assert found.change == "place a and b once, for all PEs"
    assert "through a cache, which fetches each copy from memory" in found.flaw


def test_copies_without_a_cache_cost_no_time_of_kernels():
    assert RULE not in rules(product("one_cube", 512, "replicated"))
