"""Random programs that send messages and signals to each other, and wait at barriers, without deadlocks.

The steps of all programs stand in one list, in an order in which each step can end when those before it have ended.
Each program makes its own steps of the list in that order, so no circle of waits is possible.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kb_dataexec import MemoryLogWriter, OpLog
from kb_engine import Engine, Host, Tensor
from kb_topology import loads_topology

TOPOLOGIES = Path(__file__).parents[2] / "topologies"
SIZES = ((8, 8), (16, 16), (64, 64))
LOCAL = "load", "store", "store_async", "math", "composite"


class Talk(NamedTuple):
    """The number of programs, the sides of their values, and the steps: the program, and what it does."""

    programs: int
    size: tuple[int, int]
    steps: list[tuple[int, tuple[Any, ...]]]


def draw(seed: int, programs: int, depth: int, steps: int = 40) -> Talk:
    """A talk of *programs* over channels of *depth* slots."""
    rng = random.Random(seed)
    size = rng.choice(SIZES)
    found: list[tuple[int, tuple[Any, ...]]] = [(me, ("load",)) for me in range(programs)]
    under_way: dict[tuple[int, int, int], int] = {}
    signals: dict[tuple[int, int], int] = {}
    for _ in range(steps):
        me, other = rng.sample(range(programs), 2)
        tag = rng.randrange(2)
        channel = me, other, tag
        match rng.choice(("send", "send", "send", "recv", "signal", "wait", "barrier", *LOCAL)):
            case "send":
                if under_way.get(channel, 0) == depth:
                    found.append((other, ("recv", me, tag, False)))
                    under_way[channel] -= 1
                found.append((me, ("send", other, tag)))
                under_way[channel] = under_way.get(channel, 0) + 1
            case "recv" if under_way:
                channel = rng.choice(sorted(under_way))
                found.append((channel[1], ("recv", channel[0], channel[2], rng.random() < 0.5)))
                under_way[channel] -= 1
            case "signal":
                found.append((me, ("signal", other, tag)))
                signals[other, tag] = signals.get((other, tag), 0) + 1
            case "wait" if signals:
                program, flag = rng.choice(sorted(signals))
                found.append((program, ("wait_for", flag, rng.randint(1, signals[program, flag]))))
            case "barrier" if rng.random() < 0.5:
                found += [(each, ("barrier",)) for each in range(programs)]
            case name if name in LOCAL:
                found.append((me, (name,)))
        under_way = {each: count for each, count in under_way.items() if count}
    for (source, to, tag), count in under_way.items():
        found += [(to, ("recv", source, tag, False))] * count
    return Talk(programs, size, found)


def kernel(tl: Any, x: Any, y: Any, talk: Talk) -> None:
    """Makes the steps of this program."""
    me, value = tl.program_id(), None
    rows, cols = talk.size
    for program, (name, *arguments) in talk.steps:
        if program != me:
            continue
        match name:
            case "load":
                value = tl.load(x[me, 0:rows, 0:cols])
            case "store" | "store_async":
                getattr(tl, name)(y[me, 0:rows, 0:cols], value)
            case "math":
                value = tl.exp(value)
            case "composite":
                tl.composite("gemm", x[me], x[me], out=y[me], tile=(32, 32, 32))
            case "send":
                tl.send(value, *arguments)
            case "recv":
                taken = tl.recv(*arguments[:2])
                value = tl.exp(taken) if arguments[2] else value
                del taken
            case _:
                getattr(tl, name)(*arguments)


def launch(host: Host, talk: Talk, launches: int = 1) -> Tensor:
    """Launches *talk* *launches* times, on PEs over the whole chip. Returns the output."""
    x = host.tensor("x", np.ones((talk.programs, 64, 64), np.float32), "f32")
    y = host.empty("y", (talk.programs, 64, 64), "f32")
    pes = [number * host.num_pes // talk.programs for number in range(talk.programs)]
    for _ in range(launches):
        host.launch(kernel, x, y, talk, pes=pes)
    return y


def log_of(text: str, talk: Talk, launches: int = 1) -> OpLog:
    """The log of *launches* launches of *talk* on the chip *text*."""
    host = Host(Engine(loads_topology(text, "x.yaml"), MemoryLogWriter()), Path(__file__).parent)
    launch(host, talk, launches)
    log = host.engine.close_log()
    assert isinstance(log, OpLog)
    return log
