"""A command on its own takes the same times, and leaves the same records and counts, as one that goes through queues.

A sample of random programs and kernels, with the short ways of PE_SCHEDULER and without.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from kb_components.pe.pe_scheduler import PeScheduler
from kb_dataexec import OpLog
from kb_engine import Engine
from kb_engine.block import LoneCommands

ROOT = Path(__file__).parents[1]
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "tests_integration" / "language")
    patch.syspath_prepend(ROOT / "benchmarks" / "validation")
    programs, runs, kernels = (import_module(n) for n in ("language_programs", "language_runs", "random_kernels"))


def counted(engine: Engine) -> list[object]:
    """All that an engine counts, and the time at which it stopped."""
    found: list[object] = [engine.clock.now_ps, engine.session.n_ops]
    found += [(server.node_id, server.stage_type, server.busy_ps, server.served) for server in engine.servers]
    found += [(link.link, link.busy_ps, link.nbytes, link.free_ps) for link in engine.fabric.links]
    for node_id, block in engine.components.items():
        found += [(node_id, name, getattr(block, name, None)) for name in ("busy_ps", "read_nbytes", "written_nbytes")]
        found.append((node_id, block.counts()))
    return found


@pytest.fixture
def both_ways(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], OpLog]], int]:
    """Runs a simulation with and without short ways, and returns how many commands took one."""
    closed: list[list[object]] = []
    close, begin = Engine.close_log, LoneCommands.begin
    alone = []

    def close_and_count(engine: Engine) -> Any:
        closed.append(counted(engine))
        return close(engine)

    def count_alone(self: LoneCommands, *arguments: Any) -> bool:
        is_alone = begin(self, *arguments)
        alone.append(is_alone)
        return is_alone

    monkeypatch.setattr(Engine, "close_log", close_and_count)
    monkeypatch.setattr(LoneCommands, "begin", count_alone)

    def run(simulate: Callable[[], OpLog]) -> int:
        alone.clear()
        monkeypatch.setattr(PeScheduler, "takes_short_ways", True)
        short = simulate()
        n_alone = sum(alone)
        monkeypatch.setattr(PeScheduler, "takes_short_ways", False)
        through_queues = simulate()
        assert n_alone == sum(alone)
        assert short.digest == through_queues.digest
        assert closed[-2] == closed[-1]
        return n_alone

    return run


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_of_tl(seed: int, both_ways: Callable[[Callable[[], OpLog]], int]) -> None:
    case = programs.draw(seed)
    assert both_ways(lambda: runs.simulate(case, "blocking").log) > 0
    issue = ("scoreboard", "decoupled")[seed % 2]
    assert both_ways(lambda: runs.simulate(case, issue).log) == 0


@pytest.mark.parametrize("seed", range(8))
def test_random_kernels_with_composites(seed: int, both_ways: Callable[[Callable[[], OpLog]], int]) -> None:
    both_ways(lambda: kernels.run(seed))
