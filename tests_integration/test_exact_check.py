"""`exact="check"` finds what a means of speed changes: rows, times, counters, traffic, states of blocks, errors."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from chip_specs import changed_chip, chip_spec, nodes_of_pe
from fast_forward import isolated_of

from kb_components.pe.pe_gemm import PeGemm
from kb_dataexec import MemoryLogWriter
from kb_engine import DType, Engine, Host, Language, TensorRef, TileShape
from kb_engine.block import COUNT, SAME, State, StateVisitor, TileToken
from kb_engine.engine import Registry
from kb_messages import KbError, StageParams

GROUP, SIDE, LONG_SIDE = "kb.components", 64, 192
"""A product of the long side has tiles enough to be skipped."""


class HidesState(PeGemm):
    """Counts its stages in an attribute that no `state` names. No time depends on the count."""

    state: ClassVar[State] = {}

    def __init__(self, spec: Any, context: Any) -> None:
        super().__init__(spec, context)
        self.n = 0

    def service_ps(self, params: StageParams) -> int:
        self.n += 1
        return super().service_ps(params)


class CallsItACount(PeGemm):
    """Says that no time depends on the number of its tiles. One of 701 tiles takes longer."""

    state: ClassVar[State] = {"n": COUNT}

    def __init__(self, spec: Any, context: Any) -> None:
        super().__init__(spec, context)
        self.n = 0

    def begin(self, token: TileToken, finish: Callable[[TileToken], None]) -> None:
        self.n += 1
        more = 500 if self.n % 701 == 0 else 0
        cost_ps = self.service_ps(token.stages[token.index].params)
        self.clock.call_at(self.clock.now_ps + cost_ps + more, finish, token)


class HandsOverNothing(CallsItACount):
    """Hands over n % 1, which is always 0."""

    state: ClassVar[State] = {"n": SAME}

    def visit_state(self, over: StateVisitor) -> None:
        over.same(self.n % 1)


LIARS = (HidesState, CallsItACount, HandsOverNothing)


def product(tl: Language, tensors: list[list[TensorRef]]) -> None:
    a, b, c = tensors[tl.program_id()]
    tl.wait(tl.composite("gemm", a, b, out=c, tile=TileShape(16, 16, 16)))


def host_of(gemm: type[PeGemm] | None = None, side: int = SIDE) -> tuple[Host, list[list[Any]]]:
    """A host of `one_cube`, with *gemm* as the matrix engine of each PE, and three tensors for each of four PEs."""
    spec = chip_spec("one_cube")
    points = [*entry_points(group=GROUP)]
    if gemm is not None:
        nodes_of_pe(spec)["pe_gemm"]["impl"] = f"own.{gemm.__name__}"
        points.append(EntryPoint(f"own.{gemm.__name__}", f"{__name__}:{gemm.__name__}", GROUP))
    engine = Engine(changed_chip(spec), MemoryLogWriter(), registry=Registry(points), exact="check")
    host = Host(engine, Path(__file__).parent)
    ones = np.ones((side, side), np.float16)
    return host, [[host.tensor(name, ones, DType.F16, slices=[pe]) for name in "abc"] for pe in range(4)]


def launch_twice(host: Host, tensors: list[list[Any]], pes: int = 4) -> None:
    for _ in range(2):
        host.launch(product, tensors, pes=range(pes))
    host.engine.close_log()


@pytest.fixture
def isolates_small_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """And skips tiles of short commands, whatever the search costs."""
    fastforward = "kb_engine.fastforward"
    monkeypatch.setattr(f"{fastforward}.isolated.isolated_commands.LEAST_ISOLATED_STAGES", 8)
    monkeypatch.setattr(f"{fastforward}.steady_state.tile_skipper.LEAST_TILES", 100)
    monkeypatch.setattr(f"{fastforward}.steady_state.tile_skipper._SHARE", 1e-6)


@pytest.mark.speed
@pytest.mark.usefixtures("isolates_small_commands")
@pytest.mark.parametrize(("gemm", "side", "pes"), [(HidesState, SIDE, 4), *((each, LONG_SIDE, 1) for each in LIARS)])
def test_a_block_with_a_hidden_state_is_found(gemm: type[PeGemm], side: int, pes: int) -> None:
    host, tensors = host_of(gemm, side)
    with pytest.raises(KbError, match=r"launch \d: .*where parts were skipped, needs .*, the result of every event"):
        launch_twice(host, tensors, pes)
    isolated, work = isolated_of(host.engine), host.engine.work
    assert isolated.n_reused or work.skipped_tiles


@pytest.mark.speed
@pytest.mark.usefixtures("isolates_small_commands")
def test_the_hidden_attribute_is_named() -> None:
    host, tensors = host_of(HidesState)
    with pytest.raises(KbError, match=r"launch 0: state of sip0\.cube0\.pe\d\.pe_gemm of n: got \d+ where parts"):
        launch_twice(host, tensors)


def test_bundled_blocks_pass() -> None:
    host, tensors = host_of()
    launch_twice(host, tensors)
    assert host.engine.n_checked == 2


def more_bytes_of_a_link(engine: Engine) -> None:
    engine.fabric.links[0].nbytes += 64


def longer_busy_link(engine: Engine) -> None:
    engine.fabric.links[0].busy_ps += 1


def more_bytes_of_a_memory(engine: Engine) -> None:
    engine.components["sip0.cube0.hbm0"].written_nbytes += 2


def a_longer_busy_queue(engine: Engine) -> None:
    engine.servers[0].busy_ps += 1


def a_later_free_memory(engine: Engine) -> None:
    engine.components["sip0.cube0.hbm0"].free_ps = engine.clock.now_ps + 1


FAULTS = {
    more_bytes_of_a_link: r"traffic of sip0\.cube0.*\[1\]",
    longer_busy_link: r"traffic of sip0\.cube0.*\[0\]",
    more_bytes_of_a_memory: r"counts of sip0\.cube0\.hbm0\[2\]\[1\]\[0\]\[2\]",
    a_longer_busy_queue: r"counts of sip0\.cube0\.pe0\.pe_dma\[1\]\[0\]\[0\]",
    a_later_free_memory: r"state of sip0\.cube0\.hbm0 of state",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_engine_that_skips_is_found(
    fault: Callable[[Engine], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Engine._run

    def wrong(engine: Engine, *request: Any) -> Any:
        found = run(engine, *request)
        if engine.n_checked == 0 and engine._check is not None:
            fault(engine)
        return found

    monkeypatch.setattr(Engine, "_run", wrong)
    host, tensors = host_of()
    with pytest.raises(KbError, match=rf"launch 0: {FAULTS[fault]}.*: got .* where parts were skipped, needs "):
        launch_twice(host, tensors)


@pytest.mark.parametrize(
    ("failing", "said"),
    [
        ((1,), "got the error .*wrong value.* where parts were skipped, needs no error, the result of every event"),
        ((2,), "got no error where parts were skipped, needs the error .*wrong value.*, the result of every event"),
    ],
)
def test_an_error_of_one_engine_alone_is_found(failing: tuple[int, ...], said: str) -> None:
    runs = list[int]()

    def kernel(tl: Language, tensors: list[list[TensorRef]]) -> None:
        runs.append(1)
        product(tl, tensors)
        if len(runs) in failing:
            raise ValueError("wrong value")

    host, tensors = host_of()
    with pytest.raises(KbError, match=rf"launch 0: {said}"):
        host.launch(kernel, tensors, pes=[0])


def test_an_error_of_both_engines_is_the_error_of_the_kernel() -> None:
    def kernel(tl: Language, tensors: list[list[TensorRef]]) -> None:
        product(tl, tensors)
        raise ValueError("wrong value")

    host, tensors = host_of()
    with pytest.raises(KbError, match="wrong value") as caught:
        host.launch(kernel, tensors, pes=[0])
    assert "where parts were skipped" not in str(caught.value)
