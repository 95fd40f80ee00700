"""A kernel that computes with the integers that it polls gets no further than one that looks at them."""

from pathlib import Path

import numpy as np
import pytest

from kb_engine import Engine, Host
from kb_messages import SimulationStuckError
from kb_topology import load_topology

ONE_PE = Path(__file__).parents[1] / "topologies" / "one_pe.yaml"


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
