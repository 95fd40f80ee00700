"""The roofs of runs and their roofline, by hand arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import floor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kb_cli.benchmark.bundled import find
from kb_cli.run.base.result import Roof, Unwritten
from kb_cli.run.observe.metrics import Metrics, measure
from kb_cli.run.observe.plan_tally import PlanTally
from kb_cli.run.observe.roofs import roofline
from kb_cli.run.observe.usage import Usage
from kb_components.pe.pe_math import PeMath
from kb_engine import Engine, Host, Language, TensorRef
from kb_messages import TileShape
from kb_topology import Topology, load_topology, loads_topology, with_values

TILE = TileShape(16, 16, 16)


def roof(kind: str, least_ps: int | None, even_ps: int | None = None, gbs: float | None = None) -> Roof:
    return Roof(kind=kind, count=2, node=f"{kind}0", least_ps=least_ps, even_ps=even_ps, gbs=gbs)


def test_the_roofline_takes_equal_shares_and_the_placement_takes_the_busiest_part() -> None:
    roofs = [
        roof("hbm", 70_000, 20_000, 100.0),
        roof("pe_gemm", 60_000, 50_000),
        roof("reg", 40_000, 30_000, 400.0),
        roof("link", 35_000),
        roof("acme.math", None),
    ]
    found = roofline(roofs, 80_000)
    assert found is not None
    assert (found.bound, found.least_ns, found.compute_share) == ("compute", 50.0, 0.625)
    assert (found.memory, found.memory_gbs, found.memory_share) == ("reg", 400.0, 0.375)
    assert (found.placed_bound, found.placed_ns) == ("hbm", 70.0)


def test_limits_that_a_chip_does_not_state_are_left_out() -> None:
    no_peak = roofline([roof("hbm", 7, 2, 100.0), roof("acme.gemm", None)], 8)
    assert no_peak is not None
    assert (no_peak.bound, no_peak.compute_share) == ("hbm", None)
    no_bandwidth = roofline([roof("pe_gemm", 7, 2)], 8)
    assert no_bandwidth is not None
    assert (no_bandwidth.bound, no_bandwidth.memory, no_bandwidth.memory_share) == ("compute", None, None)
    assert roofline([roof("acme.gemm", None)], 8) is None
    assert roofline([roof("pe_gemm", 7, 2)], 0) is None


def launched(topology: Topology, kernel: Callable[..., None], pes: Sequence[int], *arguments: Any) -> Metrics:
    """The metrics of one launch. A tuple among *arguments* is the shape of an empty tensor in slice 0."""
    plans, usage = PlanTally(), Usage()
    engine = Engine(topology, None, [plans, usage])
    host = Host(engine, Path.cwd())
    given = [
        host.empty(f"t{number}", each, "f16", slices=[0])
        if isinstance(each, tuple)
        else host.tensor(f"t{number}", each, "f16", slices=[0])
        for number, each in enumerate(arguments)
    ]
    result = host.launch(kernel, *given, pes=list(pes))
    return measure(engine, [result], plans, None, usage)


def product(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef) -> None:
    tl.wait(tl.composite("gemm", a, b, out=c, tile=TILE))


def test_each_part_has_the_time_of_its_own_work() -> None:
    ones = np.ones((32, 48), np.float16), np.ones((48, 16), np.float16)
    metrics = launched(load_topology(find("topologies", "one_cube")), product, [0], *ones, (32, 16))
    roofs = {each.kind: each for each in metrics.roofs}
    moved = 2 * 3 * (16 * 16 + 16 * 16) * 2 + 32 * 16 * 2  # 6 tiles of A and B, and the result: 7,168 bytes
    assert roofs["hbm"].least_ps == moved * 10_000 // 1024  # all bytes lie in one of 8 slices of 102.4 GB/s
    assert roofs["hbm"].even_ps == moved * 10_000 // 8192
    assert (roofs["hbm"].count, roofs["hbm"].gbs, roofs["hbm"].node) == (8, 819.2, "sip0.cube0.hbm0")
    assert roofs["reg"].least_ps == moved * 1000 // 512  # the bytes pass the TCM port of one of 8 PEs
    assert roofs["reg"].even_ps == moved * 1000 // 4096
    macs = 32 * 16 * 48
    assert roofs["pe_gemm"].least_ps == macs * 1000 // 4096  # 64 x 64 cells at 1 GHz, and 8 arrays
    assert roofs["pe_gemm"].even_ps == macs * 1000 // 4096 // 8
    assert roofs["pe_gemm"].node == "sip0.cube0.pe0.pe_gemm"
    read = moved - 32 * 16 * 2
    assert roofs["link"].least_ps == read * 10_000 // 1024  # A and B come over one link of 102.4 GB/s
    assert roofs["link"].node == "sip0.cube0.hbm0 -> sip0.cube0.xbar0"
    assert metrics.unwritten is None


def test_a_slow_pe_has_a_lower_rate_of_the_same_work() -> None:
    """Three PEs multiply; pe1 takes 1.25 times as long. Shares by speed are over 7 + 4 / 5 arrays and ports."""
    ones = np.ones((32, 48), np.float16), np.ones((48, 16), np.float16)
    source = with_values(load_topology(find("topologies", "one_cube")).source, {("slow", "pe1"): "1.25"})
    metrics = launched(loads_topology(source.text, source.path), product, [0, 1, 2], *ones, (32, 16))
    roofs = {each.kind: each for each in metrics.roofs}
    macs_ps, speeds = Fraction(32 * 16 * 48 * 1000, 4096), 7 + Fraction(4, 5)
    assert roofs["pe_gemm"].least_ps == floor(macs_ps * 5 / 4)
    assert roofs["pe_gemm"].node == "sip0.cube0.pe1.pe_gemm"
    assert roofs["pe_gemm"].even_ps == floor(3 * macs_ps / speeds)
    moved_ps = Fraction((2 * 3 * (16 * 16 + 16 * 16) * 2 + 32 * 16 * 2) * 1000, 512)
    assert roofs["reg"].least_ps == floor(moved_ps * 5 / 4)
    assert roofs["reg"].even_ps == floor(3 * moved_ps / speeds)


def adding(tl: Language, a: TensorRef, c: TensorRef) -> None:
    tl.store(c, tl.sum(tl.exp(tl.load(a)), axis=1))


def test_the_math_units_have_a_roof() -> None:
    metrics = launched(
        load_topology(find("topologies", "one_cube")), adding, [0], np.ones((16, 100), np.float16), (16, 1)
    )
    (math,) = [each for each in metrics.roofs if each.kind == "pe_math"]
    lanes, exps, adds = 128, 16 * 100 * 4, 16 * 100  # exp takes 4 cycles a group; the tree of the sum is left out
    assert math.least_ps == (exps + adds) * 1000 // lanes


def test_a_block_that_is_faster_than_its_rate_sets_no_roof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PeMath, "least_ps", lambda self, stage_type, params: self.service_ps(params) + 1)
    arguments = np.ones((16, 100), np.float16), (16, 1)
    metrics = launched(load_topology(find("topologies", "one_cube")), adding, [0], *arguments)
    (math,) = [each for each in metrics.roofs if each.kind == "builtin.pe_math"]
    assert (math.least_ps, math.is_beaten, math.node) == (None, True, "sip0.cube0.pe0.pe_math")
    monkeypatch.setattr(PeMath, "least_ps", lambda self, stage_type, params: None)
    metrics = launched(load_topology(find("topologies", "one_cube")), adding, [0], *arguments)
    (math,) = [each for each in metrics.roofs if each.kind == "builtin.pe_math"]
    assert (math.least_ps, math.is_beaten, math.count) == (None, False, 1)


CACHED = """{
    kind: hbm, impl: builtin.cached, count: 1, memory: {space: hbm, size: 1 GiB}, bw_gbs: 100, latency_ns: 100,
    cache_bw_gbs: 400, cache_latency_ns: 20, sets: 64, ways: 4, line_nbytes: 128, multicast: 2 }"""


def cached() -> Topology:
    """one_pe with two PEs, and a cache of 32 KiB before a memory of 100 GB/s."""
    text = find("topologies", "one_pe").read_text()
    fixed = next(line for line in text.splitlines() if "builtin.hbm_fixed" in line)
    for old, new in ((fixed.strip(), f"hbm: {CACHED}"), ("pe_layout: {count: 1}", "pe_layout: {count: 2}")):
        text = text.replace(old, new)
    return loads_topology(text.replace('"pe[0].pe_dma"', '"pe[*].pe_dma"'))


def copying(tl: Language, a: TensorRef, c: TensorRef) -> None:
    row = slice(64 * tl.program_id(0), 64 * tl.program_id(0) + 64)
    tl.store(c[row, :], tl.load(a))


def test_a_cache_and_the_memory_behind_have_a_roof_each() -> None:
    metrics = launched(cached(), copying, [0, 1], np.ones((64, 64), np.float16), (128, 64))
    roofs = {each.kind: each for each in metrics.roofs}
    one = 64 * 64 * 2
    # Both PEs read the same 8,192 bytes at once, which passes the cache once and comes from the memory once. The
    # 16,384 bytes that they write stay in the cache.
    assert roofs["hbm cache"].least_ps == (one + 2 * one) * 1000 // 400
    assert roofs["hbm"].least_ps == one * 1000 // 100
    assert (roofs["hbm cache"].gbs, roofs["hbm"].gbs) == (400.0, 100.0)
    assert metrics.unwritten == Unwritten(nbytes=2 * one, ps=2 * one * 1000 // 100)
    assert metrics.traffic["hbm"].read == one
    assert metrics.traffic["hbm"].write == 0


def filling(tl: Language, c: TensorRef) -> None:
    for row in range(0, 1024, 64):
        tl.store(c[row : row + 64, :], tl.zeros((64, 64), "f16"))


def test_lines_that_leave_after_the_end_are_no_part_of_the_run() -> None:
    metrics = launched(cached(), filling, [0], (1024, 64))
    roofs = {each.kind: each for each in metrics.roofs}
    written = 1024 * 64 * 2  # 128 KiB at 400 GB/s into a cache of 32 KiB, before a memory of 100 GB/s
    assert metrics.unwritten is not None
    assert roofs["hbm"].least_ps is not None
    assert roofs["hbm"].least_ps <= metrics.span_ps
    # What was not written back in the run is left, and the two are all bytes, up to the rounding of each request.
    assert roofs["hbm"].least_ps + metrics.unwritten.ps == pytest.approx(written * 1000 // 100, abs=16)


def test_the_messages_of_a_launch_are_no_work_of_its_links() -> None:
    """A launch of 1 MiB over links of 64 GB/s takes 16 us to come, and its kernel copies 128 bytes."""
    text = find("topologies", "one_sip").read_text()
    assert "impl: builtin.io_cpu" in text
    text = text.replace("impl: builtin.io_cpu", "impl: builtin.io_cpu, launch_nbytes: 1048576")
    metrics = launched(loads_topology(text), copying_a_row, [0], np.ones((1, 64), np.float16), (1, 64))
    assert metrics.span_ps < 2_000_000
    (link,) = [each for each in metrics.roofs if each.kind == "link"]
    assert link.least_ps == 128 * 10_000 // 1024
    assert metrics.uses["link"].busiest == pytest.approx(1250 / metrics.span_ps)


def copying_a_row(tl: Language, a: TensorRef, c: TensorRef) -> None:
    tl.store(c, tl.load(a))


def test_lines_of_one_launch_that_leave_in_the_next_are_work_of_the_next() -> None:
    plans, usage = PlanTally(), Usage()
    engine = Engine(cached(), None, [plans, usage])
    host = Host(engine, Path.cwd())
    c, d = (host.empty(name, (1024, 64), "f16", slices=[0]) for name in "cd")
    results = [host.launch(filling, each, pes=[0]) for each in (c, d)]
    metrics = measure(engine, results, plans, None, usage)
    (hbm,) = [each for each in metrics.roofs if each.kind == "hbm"]
    assert hbm.least_ps is not None
    assert metrics.unwritten is not None
    assert hbm.least_ps <= metrics.span_ps
    assert hbm.least_ps + metrics.unwritten.ps == pytest.approx(2 * 1024 * 64 * 2 * 1000 // 100, abs=32)
