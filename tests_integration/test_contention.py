"""The fabric against the reference that sends burst after burst, over random chips with random traffic.

A hundred cases here, none of which takes long; `nox -s contention` compares ten thousand. Case number N is the same
every time.
"""

from collections import Counter
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np
import pytest

from kb_dataexec import MemoryLogWriter
from kb_engine import Engine, Host, TileShape
from kb_topology import load_topology

ROOT = Path(__file__).parents[1]

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(Path(__file__).parent / "contention")
    contention = import_module("contention")
    cases, chips, comparison, engine, multicast = (
        import_module(f"contention_{n}") for n in ("cases", "chips", "compare", "engine", "multicast")
    )

SAMPLE, BATCH = range(200, 400), 10
MOST_BURST_HOPS = 6000
READ_THROUGH_A_PORT = 50_963
"""A case whose fourth read is the only one on a link and a port of 32 GB/s, behind a shared link of 64 GB/s."""
TINY_CASES = 5
"""Cases of few bytes, which tiny bursts do not make long."""


@pytest.mark.parametrize("first", SAMPLE[:: 4 * BATCH])
def test_the_fabric_agrees_with_bursts_in_turn(first: int) -> None:
    verdicts = [contention.judge(seed, MOST_BURST_HOPS) for seed in range(first, first + BATCH)]
    print(contention.summary(verdicts))
    assert [each for each in verdicts if each.failed] == []
    assert sum(each.transfers for each in verdicts) > 5 * BATCH


def test_the_fabric_agrees_where_there_are_headers_ports_and_interleaved_memories() -> None:
    verdicts = [contention.judge(seed, MOST_BURST_HOPS, networks=True) for seed in range(BATCH)]
    assert [each for each in verdicts if each.failed] == []
    assert any(job.dst == chips.ALL for seed in range(BATCH) for job in cases.networked_case(seed).jobs)
    drawn = [cases.networked_case(seed).chip for seed in range(BATCH)]
    kinds = {(each.packet is None, each.port is None) for each in drawn}
    assert kinds == {(False, True), (True, False), (False, False)}


def test_a_port_as_wide_as_the_link_before_it_holds_reads_up() -> None:
    found = contention.judge(READ_THROUGH_A_PORT, MOST_BURST_HOPS, networks=True)
    assert (found.failed, found.transfers) == ("", 6)


def test_the_fabric_agrees_where_reads_of_the_same_bytes_are_one() -> None:
    found = [multicast.judge_multicast(seed) for seed in range(BATCH)]
    assert [case.disagreeing for case in found if case.disagreeing] == []
    assert sum(case.n_joined for case in found) > 2 * BATCH


def test_the_difference_goes_to_rounding_when_bursts_become_tiny() -> None:
    small = [case for case in map(cases.random_case, SAMPLE) if len(case.jobs) > 4 and nbytes(case) < 1500]
    assert len(small) >= TINY_CASES
    for case in small[:TINY_CASES]:
        coarse, fine = (comparison.compare(case, burst) for burst in (Fraction(8), Fraction(1, 32)))
        assert abs(fine.largest.ps) <= max(fine.rounding_ps, abs(coarse.largest.ps) / 32)


@pytest.mark.parametrize("part", [0.0, 0.3])
def test_no_end_depends_on_when_links_watch_rates(part: float, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = log_of_shared_operands()
    monkeypatch.setattr("kb_engine.fabric.sharing.shared_link._ROOM", part)
    assert log_of_shared_operands() == usual


def log_of_shared_operands() -> str:
    """The digest of a GEMM whose operands 128 PEs share."""
    kb = Engine(load_topology(ROOT / "topologies/one_sip.yaml"), MemoryLogWriter())
    host = Host(kb, ROOT / "benchmarks")
    gemm = run_path(str(ROOT / "benchmarks/gemm.py"))["Gemm"]()
    params = gemm.Params(M=128, N=128, K=64, tile=TileShape(32, 32, 64), operands="one_slice")
    gemm.launch(host, params, gemm.inputs(params, np.random.default_rng(0)))
    return kb.close_log().digest


def nbytes(case: Any) -> int:
    return sum(job.nbytes for job in case.jobs)


def test_the_cases_are_of_all_kinds() -> None:
    drawn = [cases.random_case(seed) for seed in SAMPLE]
    assert drawn[:20] == [cases.random_case(seed) for seed in SAMPLE[:20]]
    assert all(case.jobs for case in drawn)
    kinds = Counter(job.kind for case in drawn for job in case.jobs)
    assert min(kinds[kind] for kind in ("read", "write", "message")) > 300
    assert {case.chip.n_pes for case in drawn} == {1, 2, 3, 4, 5, 6, 8, 10, 12}
    assert {memory.space for case in drawn for memory in case.chip.memories} == {"hbm", "sram"}
    sizes = [job.nbytes for case in drawn for job in case.jobs]
    assert min(sizes) == 1
    assert max(sizes) > 32 << 10
    assert sum(size % 2 for size in sizes) > 300


def chip(memory: Any, *links: tuple[str, str, float]) -> Any:
    """Two PEs without latencies, and *links* as (from, to, GB/s) both ways."""
    forwarders = tuple(chips.Forwarder(name, "noc", 0) for name in ("n0", "n1"))
    both = (chips.ChipLink(*pair, bw, 0) for a, b, bw in links for pair in ((a, b), (b, a)))
    return chips.Chip(0, 0, 2, forwarders, (memory,), tuple(both))


FIRST, SECOND = "pe0.pe_dma", "pe1.pe_dma"
Job = engine.Job
BY_HAND = {
    # 20 ps a byte. The write's bytes come at 10 GB/s, from 0 to 100 ns. The read comes at 500 ps and goes first.
    "a write does not hold a memory before its bytes are there": (
        chip(chips.Memory("hbm_fixed", 1, 50, 0), (FIRST, "n0", 100), ("n0", "hbm0", 10)),
        (Job("write", FIRST, "hbm0", 1000, 0), Job("read", FIRST, "hbm0", 100, 500)),
        (100_000, 10_500),
    ),
    # 40 GB/s shared until 10 ns, when the second is through. The first comes at 25 GB/s, has 100 bytes left, and leaves
    # at the 30 GB/s of the link into its DMA.
    "a flow that catches up behind a wide link is held by a narrow one": (
        chip(
            chips.Memory("hbm_fixed", 2, 1000, 0),
            *(("hbm0", "n0", 25), ("hbm1", "n0", 1000), ("n0", "n1", 40), ("n1", FIRST, 30), ("n1", SECOND, 1000)),
        ),
        (Job("read", FIRST, "hbm0", 300, 0), Job("read", SECOND, "hbm1", 200, 0)),
        (13_333, 10_000),
    ),
    # The write comes at 10 GB/s until 100 ns and is served at 20; the read holds the memory from 90 to 110 ns.
    "a read parts a write, which loses no time that it had": (
        chip(chips.Memory("hbm_fixed", 1, 20, 0), (FIRST, "hbm0", 10), (SECOND, "hbm0", 1000)),
        (Job("write", FIRST, "hbm0", 1000, 0), Job("read", SECOND, "hbm0", 400, 90_000)),
        (115_000, 110_000),
    ),
    # 8 ps a byte on the link to the memory, 10 in it. Half the link is slower than the memory, which idles meanwhile:
    # of the write, 400 bytes are there and served at 6400. The other 1600 come faster than they are served.
    "a memory does not make up for time in which no bytes came": (
        chip(chips.Memory("hbm_fixed", 1, 100, 0), (FIRST, "n0", 1000), (SECOND, "n0", 1000), ("n0", "hbm0", 125)),
        (Job("message", SECOND, "hbm0", 400, 0), Job("write", FIRST, "hbm0", 2000, 0)),
        (6400, 6400 + 1600 * 10),
    ),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_both_agree_with_arithmetic_by_hand(name: str) -> None:
    chip, jobs, expected = BY_HAND[name]
    found = comparison.compare(cases.Case(chip, jobs))
    near = 4 * float(found.burst_ps)
    assert [each.outcome.end_ps for each in found.differences] == pytest.approx(expected, abs=near)
    assert [float(each.expected_ps) for each in found.differences] == pytest.approx(expected, abs=near)


def test_reads_share_the_link_behind_banks() -> None:
    # 4 KiB need 410 ns on the link. The second read's 64 bytes are there before, and pass between.
    links = ("hbm0", "n0", 10), ("n0", FIRST, 1000), ("n0", SECOND, 1000)
    banked = chips.Memory("hbm_banked", 1, 0, 10, mapping="3R-1B-5C-2B-2BG-2PC")
    jobs = Job("read", FIRST, "hbm0", 4096, 0), Job("read", SECOND, "hbm0", 64, 3000, 4096)
    found = comparison.examine(cases.Case(chip(banked, *links), jobs))
    assert found.disagreeing == []
    long, short = (each.outcome for each in found.comparison.differences)
    assert short.end_ps < long.end_ps
    assert short.end_ps - short.transfer.start_ps > 64 * 100


def late(seed: int, monkeypatch: pytest.MonkeyPatch, by_ps: int) -> Any:
    """Case *seed* on an engine that ends every write of more than 100 bytes later by *by_ps*."""
    run = engine.EngineRun.run

    def wrong(self: Any) -> list[Any]:
        return [
            each._replace(end_ps=each.end_ps + by_ps * (each.job.kind == "write" and each.job.nbytes > 100))
            for each in run(self)
        ]

    monkeypatch.setattr(engine.EngineRun, "run", wrong)
    return cases.random_case(seed)


def test_a_write_that_ends_too_late_is_found_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = 130
    monkeypatch.setattr(comparison, "REFINEMENTS", 1)  # bursts of any size show an error of five nanoseconds
    assert len(cases.random_case(seed).jobs) > 4
    case = late(seed, monkeypatch, 5000)
    assert contention.judge(seed, MOST_BURST_HOPS).failed
    small = contention.small(case)
    assert [job.kind for job in small.jobs] == ["write"]
    assert 100 < small.jobs[0].nbytes < 200
    assert small.chip.n_pes == 1
    assert {(link.length_mm, link.bw_gbs) for link in small.chip.links} == {(0, 1000)}
    found = comparison.compare(small)
    assert float(found.largest.ps) == pytest.approx(5000, abs=float(8 * found.burst_ps))
    assert "pe0.pe_dma write " in contention.text_of(small, found)


def test_errors_of_an_engine_are_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Any) -> None:
        raise AssertionError("broken")

    monkeypatch.setattr(engine.EngineRun, "run", broken)
    verdict = contention.judge(3)
    assert "broken" in verdict.failed
    assert contention.fails(cases.random_case(3))
