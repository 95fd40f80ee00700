"""The blocks are found by the same door as anyone's."""

from importlib.metadata import entry_points

import pytest
from msgspec import Struct

from kb_engine.block import ComponentBase
from kb_engine.engine import GROUP

POINTS = [point for point in entry_points(group=GROUP) if point.name.startswith("builtin.")]


def test_all_blocks_are_registered():
    assert sorted(point.name for point in POINTS) == [
        "builtin.cached",
        "builtin.hbm_banked",
        "builtin.hbm_fixed",
        "builtin.hbm_reordered",
        "builtin.host",
        "builtin.io_cpu",
        "builtin.m_cpu",
        "builtin.pe_cpu",
        "builtin.pe_dma",
        "builtin.pe_fetch_store",
        "builtin.pe_gemm",
        "builtin.pe_math",
        "builtin.pe_mmu",
        "builtin.pe_queue",
        "builtin.pe_scheduler",
        "builtin.pe_tcm",
        "builtin.sram",
        "builtin.transit",
        "builtin.transit_credits",
        "builtin.xbar",
    ]


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.name)
def test_a_block_is_a_component_with_an_immutable_strict_spec(point):
    block = point.load()
    assert issubclass(block, ComponentBase)
    assert issubclass(block.spec_type, Struct)
    config = block.spec_type.__struct_config__
    assert config.frozen
    assert config.forbid_unknown_fields
