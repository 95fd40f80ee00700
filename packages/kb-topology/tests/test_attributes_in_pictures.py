import pytest

from kb_topology.diagram import chart
from kb_topology.diagram.content.attributes import all_lines, head_lines


@pytest.mark.parametrize(
    ("attrs", "lines"),
    [
        ("rows: 64, cols: 32, clock_ghz: 1.0", ["64 rows x 32 cols", "1 GHz"]),
        ("rows: 64", ["rows 64"]),
        ("lanes: 128, clock_mhz: 450", ["128 lanes", "450 MHz"]),
        ("bw_gbs: 102.4, dma_bw_gbs: 128", ["102.4 GB/s", "dma 128 GB/s"]),
        ("latency_ns: 2, level_us: 1.5, skew_ps: 7", ["latency 2 ns", "level 1.5 us", "skew 7 ps"]),
        ("queue_depth: 4, burst_nbytes: 2048, input_kib: 512", ["queue depth 4", "burst 2 KiB", "input 512 KiB"]),
        ("issue: scoreboard, fast: true, rl_cycles: 7", ["issue scoreboard", "fast True", "rl 7 cycles"]),
        ("seeds: 9223372036854775807, share: 0.125", ["seeds 9.22337204e+18", "share 0.125"]),
    ],
)
def test_the_suffix_of_an_attribute_is_its_unit(small, attrs, lines):
    node = small("{kind: pe_dma, impl: x.dma}", f"{{kind: pe_dma, impl: acme.dma, {attrs}}}").graph.nodes[
        "sip0.cube0.pe0.pe_dma"
    ]
    assert all_lines(node) == lines


def test_a_memory_tells_its_size_first(small):
    node = small().graph.nodes["sip0.cube0.pe0.pe_tcm"]
    assert all_lines(node) == ["2 MiB TCM", "512 GB/s"]
    assert head_lines(node) == ("2 MiB", "512 GB/s")


def test_a_block_of_a_third_party_shows_its_attributes_and_cuts_what_is_long(small):
    words = ", ".join(f"knob{number}_ns: {number}" for number in range(12))
    topology = small("{kind: pe_dma, impl: x.dma}", f"{{kind: pe_dma, impl: acme.dma, mode: {'m' * 50}, {words}}}")
    (box,) = [box for row in chart(topology, "pe").rows for box in row if box.title == "pe_dma"]
    assert box.lines == (f"mode {'m' * 20}...", *(f"knob{number} {number} ns" for number in range(6)), "and 6 more")
    assert f"mode {'m' * 50}" in box.tip.splitlines()
    assert "knob11 11 ns" in box.tip.splitlines()
