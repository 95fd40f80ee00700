"""Tiles of a command that reach a steady state are skipped, and a run shows what a run of every event shows."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from fast_forward import tiles_of

from kb_dataexec import MemoryLogWriter
from kb_engine import DType, Engine, Host, Language, TensorRef, TileShape
from kb_engine.observe import Callbacks
from kb_engine.timing.clock import Clock
from kb_topology import load_topology

pytestmark = pytest.mark.speed


ROOT = Path(__file__).parents[1]
TILE = TileShape(128, 128, 128)

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "benchmarks/validation")
    both_ways = import_module("folding")

SKIPPING = (0, 5, 7, 14)
"""Random cases in which tiles are skipped, of which two have several commands and two several transfers under way."""


def kernel(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef) -> None:
    tl.wait(tl.composite("gemm", a, b, out=c, tile=TILE))


def product(sizes: tuple[int, int, int], log: bool, **options: Any) -> Engine:
    m, n, k = sizes
    engine = Engine(load_topology(ROOT / "topologies/one_pe.yaml"), MemoryLogWriter() if log else None, **options)
    host = Host(engine, ROOT)
    shapes = {"a": (m, k), "b": (k, n), "c": (m, n)}
    host.launch(kernel, *(host.empty(name, shape, DType.F16) for name, shape in shapes.items()))
    return engine


@pytest.mark.parametrize("seed", SKIPPING)
def test_a_run_that_skips_tiles_is_that_of_every_event(seed: int) -> None:
    found = both_ways.compare(seed)
    assert (found.differs, found.is_refused) == ([], False)
    assert found.skipped > 100


def test_the_comparison_sees_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """A jump of one picosecond too many changes the log, the launch and the end."""
    skip = Clock.skip
    monkeypatch.setattr("kb_engine.timing.clock.Clock.skip", lambda clock, ps: skip(clock, ps + 1))
    assert {"end", "launch", "log"} <= set(both_ways.compare(SKIPPING[0]).differs)


@pytest.mark.parametrize("log", [False, True], ids=["without a log", "with a log"])
def test_of_a_product_of_4096_cubed_a_few_tiles_are_simulated(log: bool) -> None:
    """32 x 32 x 32 tiles, of which those of some output tiles are simulated. A log makes no difference."""
    skipping, simulated = product((4096, 4096, 4096), log=log), product((4096, 4096, 4096), log=False, exact="events")
    assert tiles_of(skipping) is not None
    assert 32 * 32 * 32 - tiles_of(skipping).skipped < 20 * 32
    assert skipping.clock.now_ps == simulated.clock.now_ps


@pytest.mark.parametrize("sizes", [(2000, 1900, 2100), (256, 5000, 3000)])
def test_ragged_products_have_the_log_of_every_event(sizes: tuple[int, int, int]) -> None:
    skipping, simulated = product(sizes, log=True), product(sizes, log=True, exact="events")
    assert tiles_of(skipping) is not None
    assert tiles_of(simulated) is None
    assert tiles_of(skipping).skipped > 200
    assert skipping.close_log().digest == simulated.close_log().digest


def test_an_observer_of_stages_is_told_of_every_one() -> None:
    stages: list[object] = []
    engine = Engine(load_topology(ROOT / "topologies/one_pe.yaml"), observers=[Callbacks(on_stage=stages.append)])
    host = Host(engine, ROOT)
    host.launch(kernel, *(host.empty(name, (1024, 1024), DType.F16) for name in "abc"))
    assert tiles_of(engine) is None
    assert len(stages) == 8 * 8 * 8 * 4 + 8 * 8 * 2
