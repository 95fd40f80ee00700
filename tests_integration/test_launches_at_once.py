"""Launches of foreseen programs on PEs that another launch reached: no message is sent, and nothing else changes."""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kb_components.cube.m_cpu import MCpu
from kb_dataexec import MemoryLogWriter
from kb_engine import DType, Engine, Host, Language, TensorRef, TileShape
from kb_engine.block.in_flight import CommandInFlight
from kb_engine.fabric.fabric import Fabric
from kb_engine.launch.foreseen_launch import ForeseenLaunch
from kb_messages import KbError, SimulationStuckError
from kb_topology import load_topology

ROOT = Path(__file__).parents[1]
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "tests_integration" / "closed")
    found = import_module("closed_launches").found
PES = (0, 1, 8, 9, 17, 127)
TILE = TileShape(32, 32, 32)
Depths = tuple[int, ...]


def product_of(tl: Language, tensors: list[list[TensorRef]], depths: Depths) -> None:
    """The product of as many columns of a as *depths* says for the program; 0 stands for no product."""
    a, b, c = tensors[tl.program_id()]
    k = depths[tl.program_id()]
    if k:
        tl.wait(tl.composite("gemm", a[:, :k], b[:k, :], out=c, tile=TILE))


def run(launches: list[Depths], exact: Any = "closed", log: bool = True) -> tuple[Any, ...]:
    """What *launches* of `product_of` on the PEs of several cubes leave behind."""
    topology = load_topology(ROOT / "topologies" / "one_sip.yaml")
    engine = Engine(topology, MemoryLogWriter() if log else None, exact=exact, least_closed_stages=1)
    host = Host(engine, ROOT)
    zeros = np.zeros((64, 64), np.float16)
    tensors = [
        [host.tensor(name, zeros, DType.F16, slices=[host.hbm_slice_of(pe)]) for name in ("a", "b", "c")] for pe in PES
    ]
    results = [host.launch(product_of, tensors, depths, pes=PES) for depths in launches]
    pending = [engine.memory.pending.producer(each[2].block(0, 0)) for each in tensors]
    return found(engine, results), pending


def alike(depth: int) -> Depths:
    return (depth,) * len(PES)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Who sent messages."""
    senders: list[str] = []
    send = Fabric.send

    def noted(fabric: Fabric, src: str, *arguments: Any) -> None:
        senders.append(src)
        send(fabric, src, *arguments)

    monkeypatch.setattr(Fabric, "send", noted)
    return senders


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(
    ("launches", "n_sent"),
    [
        ([alike(64), alike(32)], 1),
        ([alike(64), alike(32), alike(48), alike(64)], 1),
        ([(64, 32, 64, 32, 32, 64), alike(32), (32, 64, 48, 64, 32, 64)], 1),
        ([alike(64), (64, 0, 32, 0, 0, 64), alike(48)], 2),
    ],
)
def test_messages_of_the_first_launch_alone_are_sent(
    launches: list[Depths], n_sent: int, log: bool, sent: list[str]
) -> None:
    """A program that does nothing runs, and answers as soon as it begins."""
    run([launches[0]], log=log)
    n_messages = len(sent)
    assert n_messages == 2 * (len(PES) + len({pe // 8 for pe in PES}) + 1)
    sent.clear()
    mine = run(launches, log=log)
    assert len(sent) == n_sent * n_messages
    assert mine == run(launches, "events", log) == run(launches, "check", log)


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("depths", [alike(32), (32, 48, 64, 32, 48, 64)])
@pytest.mark.parametrize("n_taken", [0, 1, 2])
def test_messages_are_sent_after_all_where_a_program_does_what_others_need_not_do(
    depths: Depths, n_taken: int, log: bool, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    launches = [alike(64), depths, alike(48)]
    expected = run(launches, "events", log)
    n_messages = len(sent) // len(launches)
    sent.clear()
    run_apart, results = ForeseenLaunch._run_apart, []

    def alone(launch: ForeseenLaunch, *arguments: Any) -> Any:
        results.append(run_apart(launch, *arguments))
        return None if len(results) == n_taken + 2 else results[-1]

    monkeypatch.setattr(ForeseenLaunch, "_run_apart", alone)
    assert run(launches, log=log) == expected
    assert len(sent) == n_messages * (2 if len(results) >= n_taken + 2 else 1)


def test_a_launch_that_gets_stuck_says_so_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the second launch on, no command is ever completed."""
    complete, errors = CommandInFlight.complete_tile, []
    for exact in ("closed", "events"):
        n_completed = 0

        def lost(command: CommandInFlight, token: Any, component: str) -> None:
            nonlocal n_completed
            n_completed += 1
            if command.submitted.command_seq < len(PES):
                complete(command, token, component)

        monkeypatch.setattr(CommandInFlight, "complete_tile", lost)
        with pytest.raises(SimulationStuckError) as error:
            run([alike(64), alike(32)], exact)
        assert n_completed
        errors.append(str(error.value))
    assert errors[0] == errors[1]


def test_a_check_finds_messages_that_take_another_time(monkeypatch: pytest.MonkeyPatch) -> None:
    overhead_ps, launches = MCpu.overhead_ps, [alike(64), alike(32)]
    asked: list[str] = []

    def slower(block: MCpu) -> int:
        asked.append(block.node_id)
        return overhead_ps(block) + 1000 * (asked.count(block.node_id) > 2)

    monkeypatch.setattr(MCpu, "overhead_ps", slower)
    with pytest.raises(KbError, match="got other messages than those of a launch with the same key"):
        run(launches, "check")
