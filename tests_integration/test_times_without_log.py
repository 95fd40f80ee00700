"""A log changes no time: memories with rows, where writes that come slowly are interrupted by other requests."""

import random
from pathlib import Path

import numpy as np
import pytest

from kb_dataexec import MemoryLogWriter
from kb_engine import Engine, Host, Language, TensorRef
from kb_topology import Topology, loads_topology

ROOT = Path(__file__).parents[1]
BANKED = (ROOT / "topologies" / "one_cube_banked.yaml").read_text(encoding="utf-8")
SIDE = 64


def mixed(tl: Language, x: TensorRef, y: TensorRef, steps: list[tuple[bool, int]]) -> None:
    """Reads and writes blocks of one slice. All PEs do so at once, so writes and reads meet."""
    zeros = tl.zeros((SIDE, SIDE), "f32")
    for is_read, number in steps:
        block = slice(SIDE * number, SIDE * number + SIDE)
        if is_read:
            tl.load(x[block, :])
        else:
            tl.store(y[block, :], zeros)


def latencies_ps(topology: Topology, seed: int, has_log: bool) -> list[int]:
    """The times of two launches of random steps, with tensors whose rows are wider than a block."""
    rng = random.Random(seed)
    engine = Engine(topology, MemoryLogWriter() if has_log else None)
    host = Host(engine, ROOT)
    data = np.ones((4 * SIDE, SIDE), np.float32)
    x, y = (host.tensor(name, data, "f32", slices=[0]) for name in "xy")
    for _ in range(2):
        host.launch(mixed, x, y, [(rng.random() < 0.5, rng.randrange(4)) for _ in range(6)])
    return [each.end_ps - each.start_ps for each in host.launches]


@pytest.mark.parametrize("impl", ["builtin.hbm_banked", "builtin.hbm_reordered"])
@pytest.mark.parametrize("seed", range(3))
def test_a_log_changes_no_time(impl: str, seed: int) -> None:
    topology = loads_topology(BANKED.replace("builtin.hbm_banked", impl), "banked.yaml")
    assert latencies_ps(topology, seed, True) == latencies_ps(topology, seed, False)
