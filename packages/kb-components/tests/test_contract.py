"""Every built-in block passes the contract suite. A block that is registered and not listed here fails."""

from importlib.metadata import entry_points

import pytest

from kb_components.pe.pe_dma import PeDma
from kb_components.pe.pe_fetch_store import PeFetchStore
from kb_components.pe.pe_gemm import PeGemm
from kb_components.pe.pe_tcm import PeTcm
from kb_engine.engine import GROUP
from kb_engine.testing import Neighbour, check_component, component_checks
from kb_messages import DType, MathParams, StageType

BLOCKS = {point.name: point for point in entry_points(group=GROUP) if point.name.startswith("builtin.")}

TCM = Neighbour("pe_tcm", PeTcm, {"bw_gbs": 200, "latency_ns": 1})
FETCH_STORE = Neighbour("pe_fetch_store", PeFetchStore, {})
BANKED = {
    "clock_mhz": 450,
    "mapping": "5R-1BG-2B-1PC-5C-1BG",
    "rl_cycles": 7,
    "wl_cycles": 2,
    "tccd_s_cycles": 1,
    "tccd_l_cycles": 2,
    "trtw_cycles": 7,
    "trcd_ns": 14,
    "trp_ns": 14,
    "tras_ns": 34,
    "trrd_s_ns": 4,
    "trrd_l_ns": 6,
    "tfaw_ns": 30,
    "trtp_ns": 6,
    "twr_ns": 16,
    "twtr_s_ns": 6,
    "twtr_l_ns": 8,
    "trefi_ns": 3900,
    "trfc_ns": 260,
    "latency_ns": 40,
}
ATTRIBUTES = {
    "builtin.cached": {
        "bw_gbs": 100,
        "latency_ns": 200,
        "cache_bw_gbs": 1000,
        "cache_latency_ns": 50,
        "sets": 8,
        "ways": 4,
        "line_nbytes": 64,
    },
    "builtin.hbm_banked": BANKED,
    "builtin.hbm_reordered": {**BANKED, "window": 4, "most_passed": 3},
    "builtin.hbm_fixed": {"bw_gbs": 102.4, "latency_ns": 45},
    "builtin.host": {"overhead_ns": 500},
    "builtin.io_cpu": {"overhead_ns": 10},
    "builtin.m_cpu": {"overhead_ns": 10},
    "builtin.pe_cpu": {"issue_ns": 4},
    "builtin.pe_dma": {"setup_ns": 2.5, "queue_depth": 3},
    "builtin.pe_fetch_store": {"queue_depth": 3},
    "builtin.pe_gemm": {"rows": 16, "cols": 16, "clock_ghz": 0.7, "queue_depth": 3},
    "builtin.pe_math": {"lanes": 16, "clock_ghz": 0.7, "queue_depth": 3},
    "builtin.pe_scheduler": {"input_kib": 64, "output_kib": 64},
    "builtin.pe_tcm": {"bw_gbs": 512, "latency_ns": 2},
    "builtin.pe_queue": {},
    "builtin.pe_mmu": {"tlb_entries": 16, "levels": 4, "level_ns": 12.5},
    "builtin.sram": {"bw_gbs": 256, "latency_ns": 12, "ports": "separate"},
    "builtin.transit": {"overhead_ns": 1.5},
    "builtin.transit_credits": {"overhead_ns": 1.5, "buffer_nbytes": 512, "credit_ns": 0.7},
    "builtin.xbar": {"overhead_ns": 2},
}
OPTIONS = {
    "builtin.pe_fetch_store": {"neighbours": [TCM]},
    "builtin.pe_math": {
        "params": {
            StageType.MATH: [
                MathParams(op="relu", rows=16, cols=16, dtype=DType.F32),
                MathParams(op="exp", rows=3, cols=50, dtype=DType.F16),
                MathParams(op="sum", rows=7, cols=33, dtype=DType.F32, axis=1),
            ]
        }
    },
    "builtin.pe_scheduler": {
        "neighbours": [
            Neighbour("pe_dma", PeDma),
            FETCH_STORE,
            Neighbour("pe_gemm", PeGemm, {"rows": 8, "cols": 8, "clock_ghz": 1}),
            TCM,
        ]
    },
}
CHECKS = [
    pytest.param(check, id=f"{name}-{check}")
    for name, point in BLOCKS.items()
    if name in ATTRIBUTES
    for check in component_checks(point.load(), ATTRIBUTES[name], **OPTIONS.get(name, {}))
]


@pytest.mark.parametrize("check", CHECKS)
def test_a_block_holds_to_the_contract(check):
    check()


def test_every_block_is_checked_and_by_many_checks():
    assert BLOCKS.keys() == ATTRIBUTES.keys()
    assert len(BLOCKS) >= 12
    assert len(CHECKS) >= 110


@pytest.mark.parametrize("outstanding", [2, 5, 40])
def test_a_dma_with_several_transfers_under_way_passes_too(outstanding):
    for setup_ns in (0, 2.5, 400):
        check_component(PeDma, {"setup_ns": setup_ns, "queue_depth": 1, "outstanding": outstanding})


def test_the_smallest_register_file_passes_too():
    # The suite's tile takes 1024 bytes of operands and 1024 of accumulator.
    options = {"memory_nbytes": 2048, "neighbours": [TCM]}
    check_component(BLOCKS["builtin.pe_fetch_store"].load(), {"queue_depth": 1}, **options)
