"""Levers that gain only together, and the kinds of links: on bundled chips, and by hand."""

from pathlib import Path

import numpy as np
import pytest

import kernbench as kb
from kb_cli.benchmark import bundled
from kb_cli.whatif.bound import BusyPart
from kb_cli.whatif.chip_levers import chip_levers
from kb_cli.whatif.known_levers import Levers
from kb_cli.whatif.lever_chances import TriedLever
from kb_cli.whatif.lever_sets import lever_sets, way_to_dma
from kb_cli.whatif.link_kinds import kind_of_link, templates_of_links
from kb_topology import load_topology

CHIPS = bundled.folder("topologies")
NEAR = ["the links between HBM and XBAR", "the links between DMA and XBAR"]


@pytest.mark.parametrize("path", sorted(CHIPS.glob("**/*.yaml")), ids=lambda path: path.stem)
def test_every_link_is_of_the_kind_of_a_template(path: Path) -> None:
    topology = load_topology(path)
    kinds = {kind for _, _, kind in templates_of_links(topology)}
    assert {kind_of_link(topology, link) for link in topology.graph.links} <= kinds


def test_links_of_levels_are_of_different_kinds() -> None:
    topology = load_topology(CHIPS / "one_sip.yaml")
    names = {kind_of_link(topology, link).name for link in topology.graph.links}
    assert {*NEAR, "the links of the mesh of cubes", "the links between IO NOC and UCIE of the SIP"} <= names


def test_the_way_from_a_memory_leads_to_the_nearest_dma() -> None:
    topology = load_topology(CHIPS / "one_cube.yaml")
    assert way_to_dma(topology, "sip0.cube0.hbm5") == NEAR
    assert way_to_dma(topology, "sip0.cube0.sram") == [
        "the links between NOC and SRAM",
        "the links between NOC and DMA",
    ]


def test_parts_next_to_each_other_on_the_way_and_busy_parts_form_sets() -> None:
    topology = load_topology(CHIPS / "one_cube.yaml")
    busy = [
        BusyPart("hbm", "HBM", 700, "sip0.cube0.hbm0"),
        BusyPart("links", NEAR[0], 700, "sip0.cube0.xbar0 -> sip0.cube0.hbm0"),
        BusyPart("links", NEAR[1], 599, "sip0.cube0.xbar0 -> sip0.cube0.pe0.pe_dma"),
        BusyPart("pe_gemm", "GEMM", 600, "sip0.cube0.pe0.pe_gemm"),
    ]
    found = [
        [(each.part, each.field) for each in several]
        for several in lever_sets(chip_levers(topology), busy, 1000, topology)
    ]
    memory, link, dma = ("HBM", "bw_gbs"), (NEAR[0], "bw_gbs"), (NEAR[1], "bw_gbs")
    port, clock = ("TCM", "dma_bw_gbs"), ("GEMM", "clock_ghz")
    assert found == [
        [memory, link], [link, dma], [dma, port], [memory, link, dma], [link, dma, port], [memory, link, dma, port],
        [memory, link, clock],
    ]  # fmt: skip


def load(tl, x, y):
    tl.store(y, tl.load(x))


def test_a_memory_and_its_links_gain_together_what_one_alone_does_not() -> None:
    """On one_pe, HBM and its link move 102.4 bytes a nanosecond each way, and the DMA's link 128.

    The load and the store of 256 KiB take 2,560 ns each. One part alone leaves the other as slow. With both at 204.8,
    the DMA's link remains, with 2,048 ns each.
    """
    x = np.ones((64, 1024), np.float32)
    r = kb.run(load, x, kb.empty(x.shape, "f32"), chip="one_pe")
    found = {each.name: each for each in r.levers()}
    both = found[f"Twice the bandwidth of HBM and of {NEAR[0]}"]
    for alone in ("Twice the bandwidth of HBM", f"Twice the bandwidth of {NEAR[0]}"):
        assert found[alone].latency_ps is not None
        assert r.latency_ps - found[alone].latency_ps < 0.01 * r.latency_ps
    assert both.latency_ps is not None
    assert abs(r.latency_ps - both.latency_ps - 2 * 512_000) < 0.01 * r.latency_ps
    assert both.latency_ps >= both.bound_ps
    assert f"To change first: {both.name[0].lower()}{both.name[1:]}" in r.advice or "DMA and XBAR" in r.advice


def test_a_set_is_told_unless_a_part_that_is_told_gains_as_much() -> None:
    """Each set gains 0.7 % more than the one within it. The third gains 1.4 % more than the first, so it is told."""
    tried = [
        TriedLever(
            name=f"Twice the parts of {names}",
            block="hbm",
            field="bw_gbs",
            set=dict.fromkeys(names, "2"),
            path_ps=1,
            share=0.5,
            bound_ps=1,
            latency_ps=1,
            gain=gain,
        )
        for names, gain in (("abc", 0.214), ("ab", 0.207), ("a", 0.2), ("b", 0.0))
    ]
    found = Levers(latency_ps=1000, levers=tried, chances=4)
    assert [each.change for each in found.remedies] == ["twice the parts of abc", "twice the parts of a"]
