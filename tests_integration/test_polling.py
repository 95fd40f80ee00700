"""A kernel that computes with the integers that it polls gets no further than one that looks at them."""

from pathlib import Path

import numpy as np
import pytest
from fast_forward import skipper_of

from kb_dataexec import MemoryLogWriter
from kb_engine import Engine, Host
from kb_messages import SimulationStuckError
from kb_topology import load_topology

TOPOLOGIES = Path(__file__).parents[1] / "topologies"
ONE_PE, ONE_CUBE = TOPOLOGIES / "one_pe.yaml", TOPOLOGIES / "one_cube.yaml"
PES, TURNS = 8, 1200


def polls(tl, flag):
    while True:
        found = tl.load(flag)
        more = found + 1
        if more[0, 0] > 1:
            break
        tl.free(found)
        tl.free(more)


def counts(tl, flag):
    for _ in range(2000):
        found = tl.load(flag)
        total = tl.exp(found)
        tl.free(found)
        tl.free(total)


def loads_row_of_pe(tl, rows):
    row = tl.program_id() % PES
    tl.load(rows[row : row + 1, :])


def loads_often(tl, flag):
    for _ in range(600):
        tl.free(tl.load(flag))


def host_and_flag(dtype):
    host = Host(Engine(load_topology(ONE_PE), most_repeated_loads=500), Path(__file__).parent)
    return host, host.tensor("flag", np.zeros((1, 16), np.dtype(dtype)), {"int32": "i32", "float32": "f32"}[dtype])


def test_arithmetic_on_integers_does_not_hide_a_poll():
    host, flag = host_and_flag("int32")
    with pytest.raises(SimulationStuckError) as caught:
        host.launch(polls, flag)
    line = f"test_polling.py:{polls.__code__.co_firstlineno + 2}"
    assert str(caught.value).splitlines()[-1].endswith(f" times at {line}")


def test_arithmetic_on_floats_ends_the_row():
    host, flag = host_and_flag("float32")
    host.launch(counts, flag)


@pytest.mark.speed
@pytest.mark.parametrize("log", [MemoryLogWriter, lambda: None])
def test_loads_that_are_known_to_end_are_no_poll(log):
    """A shift reports all loads that it skips at once; 500 in a row would be a poll."""
    engine = Engine(load_topology(ONE_CUBE), log(), most_repeated_loads=500)
    host = Host(engine, Path(__file__).parent)
    near = {"blocks": (PES, 1), "slices": range(PES)}
    rows = host.tensor("rows", np.ones((PES, 16), np.float32), "f32", **near)
    host.launch(loads_row_of_pe, rows, pes=range(PES), grid=PES * TURNS, schedule="static")
    assert skipper_of(engine).skipped > PES * TURNS // 2
    assert sum(
        block.read_nbytes for block in engine.components.values() if block.node_id.startswith("sip0.cube0.hbm")
    ) == (PES * TURNS * 64)


def test_a_kernel_that_has_ended_polls_no_more():
    """All loads happen before the guard looks, which it does again at the end."""
    host, flag = host_and_flag("int32")
    host.launch(loads_often, flag)
