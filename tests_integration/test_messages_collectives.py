"""Collectives on each kind of PE and in each way of simulation; with KB_ALL_CASES on whole chips, up to 512 PEs."""

import random
import re
import sys
from functools import cache
from pathlib import Path

import pytest
from sampled_cases import IS_SAMPLED, sampled

from kb_engine.collectives import Sizes, algorithms_of
from kb_messages import DType
from kb_topology import Topology, loads_topology

sys.path.insert(0, str(Path(__file__).parent / "collectives"))
from collective_runs import TOPOLOGIES, Run, chip

CALLS = "all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all"
EVERY = [(call, algorithm) for call in CALLS for algorithm in algorithms_of(call)]


def took(run: Run) -> int:
    return run.result.end_ps - run.result.start_ps


def estimated(run: Run, algorithm: str, n: int) -> int:
    return run.group.estimate("all_reduce", algorithm, Sizes(n, DType.F32, "sum")).total_ps


@pytest.mark.parametrize("issue", ["scoreboard", "decoupled"])
@pytest.mark.parametrize(("call", "algorithm"), sampled(EVERY, 3))
def test_pes_that_issue_ahead(issue: str, call: str, algorithm: str) -> None:
    """The data are right. The time is the recursion's, which knows blocking PEs, within a twentieth or an issue."""
    text = (TOPOLOGIES / "one_cube.yaml").read_text().replace("issue_ns: 4}", f"issue_ns: 4, issue: {issue}}}")
    for in_tcm in (False, True):
        run = Run(loads_topology(text), range(6), 600, call, algorithm, in_tcm=in_tcm)
        run.check()
        if call == "all_reduce" and not in_tcm:
            assert took(run) == pytest.approx(estimated(run, algorithm, 600), rel=0.06)


def test_one_digest_in_each_way_of_simulation() -> None:
    ways = "isolated", "events", "check"
    runs = [Run(chip("one_cube"), range(8), 3000, "all_reduce", "ring", exact=way) for way in ways]
    assert len({run.log.digest for run in runs}) == 1


def test_a_ring_of_64_cubes_to_the_picosecond() -> None:
    """A PE of each cube of four SIPs: the ring crosses the cables between SIPs four times."""
    run = Run(chip("four_sip"), range(0, 512, 64 if IS_SAMPLED else 8), 640, "all_reduce", "ring")
    assert took(run) == estimated(run, "ring", 640)


def ends_of(run: Run) -> list[int]:
    """The end of each rank, in picoseconds after the begin."""
    ids = list(run.engine.pes)
    return [run.result.pe_end_ps[ids[pe]] - run.result.start_ps for pe in run.pes]


@cache
def wide(name: str) -> Topology:
    """The chip *name* with links so wide that messages never hold each other up. Latencies and costs stay."""
    text = (TOPOLOGIES / f"{name}.yaml").read_text()
    return loads_topology(re.sub(r"bw_gbs: [\d.]+, length_mm", "bw_gbs: 1000000, length_mm", text))


@pytest.mark.parametrize(("call", "algorithm"), sampled(EVERY, 4))
def test_every_rank_of_every_collective_on_wide_links(call: str, algorithm: str) -> None:
    """On four cubes, and on random PEs of 16 in any order: each rank ends at the picosecond of the recursion."""
    drawn = random.Random(f"{call} {algorithm}").sample(range(128), 12)
    for pes in (range(32), drawn) if call == "all_reduce" else (range(32),):
        n = 2 * len(pes)
        run = Run(wide("one_sip"), pes, n, call, algorithm)
        whole = n * len(pes) if call == "all_gather" else n
        op = "sum" if call in ("all_reduce", "reduce_scatter") else ""
        assert ends_of(run) == list(run.group.estimate(call, algorithm, Sizes(whole, DType.F32, op)).ends_ps)


@pytest.mark.parametrize("algorithm", ["ring", "tree", "two_level"])
def test_every_rank_over_the_cubes_of_four_sips(algorithm: str) -> None:
    """A PE of each cube, with the links of the chip: 64 cubes, in CI 8."""
    run = Run(chip("four_sip"), range(0, 512, 64 if IS_SAMPLED else 8), 512, "all_reduce", algorithm)
    assert ends_of(run) == list(run.group.estimate("all_reduce", algorithm, Sizes(512, DType.F32, "sum")).ends_ps)


if not IS_SAMPLED:

    @pytest.mark.timeout(1800)
    def test_128_pes_to_the_picosecond() -> None:
        """64 KiB of f32 a rank, in a flat ring of 32,512 messages and in two levels of 5,632."""
        run = Run(chip("one_sip"), range(128), 16384, "all_reduce", "ring")
        assert (took(run), len(run.log.tables["sends"])) == (estimated(run, "ring", 16384), 2 * 127 * 128)
        run.check()
        levels = Run(chip("one_sip"), range(128), 16384, "all_reduce", "auto")
        assert len(levels.log.tables["sends"]) == 44 * 128
        assert took(levels) == pytest.approx(estimated(levels, "two_level", 16384), rel=0.05)
        assert 3 * took(levels) < took(run)
        levels.check()

    @pytest.mark.timeout(1800)
    @pytest.mark.parametrize("call", ["all_reduce", "reduce_scatter", "all_gather"])
    def test_512_pes(call: str) -> None:
        run = Run(chip("four_sip"), range(512), 64 if call == "all_gather" else 512 * 8 + 3, call, "two_level")
        run.check()

    @pytest.mark.parametrize(("call", "algorithm"), EVERY)
    @pytest.mark.parametrize("dtype", ["f8e4m3", "f16", "bf16", "i8", "i32", "u16"])
    def test_every_dtype(call: str, algorithm: str, dtype: str) -> None:
        for ranks, n in ((2, 3), (5, 40), (8, 1009)):
            whole = n * ranks if call == "all_to_all" else n
            op = "max" if dtype in ("f8e4m3", "u16") else "sum"
            Run(chip("one_cube"), range(ranks), whole, call, algorithm, dtype=dtype, op=op).check()
