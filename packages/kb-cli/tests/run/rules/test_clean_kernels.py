"""Kernels whose work and data are placed well have no remedy of the rules on placement."""

import pytest
from rule_runs import placement_rules

import kernbench as kb

CLEAN = (
    "attention", "cross_entropy", "decode_gemv", "embedding", "gemm", "layer_norm", "power_iteration", "rms_norm",
    "softmax", "split_k_gemm", "vector_add",
)  # fmt: skip


@pytest.mark.parametrize("name", CLEAN)
def test_bundled_benchmarks_place_work_and_data_well(name):
    assert placement_rules(kb.run(name, chip="one_cube", compute=False)) == []
