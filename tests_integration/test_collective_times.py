"""Every rank of a collective ends at the picosecond of the recursion by which `auto` chooses.

The recursion knows the acts of the ranks and the costs of their blocks, and simulates nothing. It takes links and
memories as free of others. Where ranks share links, the time is held within a bound.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

from kb_engine.collectives import Sizes, algorithms_of
from kb_messages import DType
from kb_topology import Topology, loads_topology

sys.path.insert(0, str(Path(__file__).parent / "collectives"))
from collective_runs import TOPOLOGIES, Run, chip

SHARED = 0.12
"""The largest part by which a time may be wrong where ranks share links or a memory. Measured: 10.6 %."""


def ends_of(run: Run) -> list[int]:
    """The end of each rank in the simulation, in picoseconds after the begin."""
    ids = list(run.engine.pes)
    return [run.result.pe_end_ps[ids[pe]] - run.result.start_ps for pe in run.pes]


def estimated(run: Run, call: str, algorithm: str, n: int, dtype: str = "f32") -> list[int]:
    """The end of each rank in the recursion."""
    op = "sum" if call in ("all_reduce", "reduce_scatter") else ""
    whole = n * len(run.pes) if call == "all_gather" else n
    found = run.group.estimate(call, algorithm, Sizes(whole, DType(dtype), op))
    assert found is not None
    assert found.n_messages == len(run.log.tables["sends"])
    assert found.nbytes == int(run.log.tables["sends"]["nbytes"].sum())
    return list(found.ends_ps)


def with_depth(depth: int) -> Topology:
    text = (TOPOLOGIES / "one_cube.yaml").read_text()
    return loads_topology(text.replace("depth: 3, doorbell_ns", f"depth: {depth}, doorbell_ns"))


@pytest.mark.parametrize(("ranks", "n"), [(2, 14), (3, 4097), (8, 997), (8, 32768)])
@pytest.mark.parametrize("call", ["all_reduce", "reduce_scatter", "all_gather", "broadcast"])
def test_rings_to_the_picosecond(call: str, ranks: int, n: int) -> None:
    size = min(n, 4096) if call == "all_gather" else n
    run = Run(chip("one_cube"), range(ranks), size, call, "ring")
    assert ends_of(run) == estimated(run, call, "ring", size)


@pytest.mark.parametrize(("call", "algorithm", "ranks", "n"), [
    ("all_reduce", "tree", 8, 56), ("reduce_scatter", "tree", 8, 56),
    ("all_gather", "tree", 5, 100), ("broadcast", "tree", 8, 56), ("broadcast", "tree", 3, 12288),
    ("all_to_all", "ring", 8, 56),
])  # fmt: skip
def test_trees_and_shifts_to_the_picosecond(call: str, algorithm: str, ranks: int, n: int) -> None:
    run = Run(chip("one_cube"), range(ranks), n, call, algorithm)
    assert ends_of(run) == estimated(run, call, algorithm, n)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", ["f16", "i32"])
def test_depths_to_the_picosecond(depth: int, dtype: str) -> None:
    run = Run(with_depth(depth), range(8), 3000, "all_reduce", "ring", dtype=dtype)
    assert ends_of(run) == estimated(run, "all_reduce", "ring", 3000, dtype)


@pytest.mark.parametrize(("call", "n"), [("all_reduce", 56), ("reduce_scatter", 8000), ("all_gather", 56)])
def test_two_writes_under_way_to_the_picosecond(call: str, n: int) -> None:
    """A store to the own memory and a message leave by different links, so they do not hold each other up."""
    text = (TOPOLOGIES / "one_cube.yaml").read_text().replace("setup_ns: 5}", "setup_ns: 5, outstanding: 2}")
    run = Run(loads_topology(text), range(8), n, call, "ring")
    assert ends_of(run) == estimated(run, call, "ring", n)


@pytest.mark.parametrize("seed", range(4))
def test_random_groups_with_a_slow_pe_to_the_picosecond(seed: int) -> None:
    """Ranks in any order, some elements, and a PE that takes 1.5 times as long."""
    rng = np.random.default_rng(seed)
    pes = [int(pe) for pe in rng.permutation(8)[: rng.integers(2, 9)]]
    n, depth = int(rng.integers(1, 5000)), int(rng.integers(1, 5))
    text = (TOPOLOGIES / "one_cube.yaml").read_text().replace("depth: 3, doorbell_ns", f"depth: {depth}, doorbell_ns")
    topology = loads_topology(f"{text}\nslow: {{pe{pes[0]}: 1.5}}\n")
    run = Run(topology, pes, n, "all_reduce", "ring", seed=seed)
    assert ends_of(run) == estimated(run, "all_reduce", "ring", n)


@pytest.mark.parametrize("cubes", [2, 3, 7, 16])
def test_rings_over_cubes_to_the_picosecond(cubes: int) -> None:
    """A PE of each cube: the ring goes around the mesh, over hops of several lengths."""
    run = Run(chip("one_sip"), [8 * cube + 3 for cube in range(cubes)], 64 * cubes, "all_reduce", "ring")
    assert ends_of(run) == estimated(run, "all_reduce", "ring", 64 * cubes)


def test_two_levels_within_the_bound() -> None:
    """The rings of the upper level share the links between cubes."""
    pes = [8 * cube + place for cube in range(4) for place in range(4)]
    run = Run(chip("one_sip"), pes, 4096, "all_reduce", "two_level")
    assert max(estimated(run, "all_reduce", "two_level", 4096)) == pytest.approx(max(ends_of(run)), rel=SHARED)


@pytest.mark.parametrize(("call", "algorithm"), [
    (call, algorithm) for call in ("reduce_scatter", "all_gather", "broadcast", "all_to_all")
    for algorithm in algorithms_of(call)
])  # fmt: skip
def test_large_ones_within_the_bound(call: str, algorithm: str) -> None:
    """Loads and stores of a rank meet at its memory, and messages of two senders at one receiver."""
    n = 4096 if call == "all_gather" else 32768
    run = Run(chip("one_cube"), range(8), n, call, algorithm)
    assert max(estimated(run, call, algorithm, n)) == pytest.approx(max(ends_of(run)), rel=SHARED)


def test_many_segments_continue_the_third_one() -> None:
    run = Run(chip("one_cube"), range(4), 400_000, "all_reduce", "ring")
    assert max(estimated(run, "all_reduce", "ring", 400_000)) == pytest.approx(max(ends_of(run)), rel=SHARED)


def test_a_ring_of_two_by_hand() -> None:
    """All-reduce of 2 elements of f32 on 2 PEs of one_cube: each rank loads both, sends one, adds, sends the sum.

    A load takes 5 ns of set-up, two ways of 2.035 ns, and 45 ns and its bytes at 102.4 GB/s in the HBM. The second one
    begins when the first one ends, and the addition waits for it: the message is there before.
    """
    run = Run(chip("one_cube"), [0, 1], 2, "all_reduce", "ring")
    load_ps = 5_000 + 2 * 2_035 + 45_000 + 40
    message_ps = 4_000 + 8_000 + 5_000 + 2_056 + 63 + 2_000 + 2_000
    add_ps = 4_000 + 8_000 + (2_000 + 16) + 1_000 + (2_000 + 8)
    rung = [int(row["t_rung_ps"]) for row in run.log.tables["sends"]]
    assert rung[:2] == [12_000 + load_ps + message_ps] * 2
    assert rung[2:] == [12_000 + 2 * load_ps + add_ps + message_ps] * 2


def test_auto_takes_the_least_time() -> None:
    """By simulation of all algorithms: the tree for few elements, the ring for many."""
    topology = chip("one_cube")
    for n, wanted in ((8, "tree"), (8192, "ring")):
        names = "ring", "tree", "auto"
        times = {each: Run(topology, range(8), n, "all_reduce", each).result for each in names}
        took = {algorithm: result.end_ps - result.start_ps for algorithm, result in times.items()}
        assert took["auto"] == took[wanted] == min(took.values())
