"""Isolated commands come to what they come to event by event. Those that others meet are simulated after all, and the
rest runs as ever."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chip_specs import changed_chip, chip_spec, nodes_of_pe
from fast_forward import isolated_of
from sampled_cases import sampled

from kb_components.pe.pe_dma import PeDma
from kb_components.pe.pe_gemm import PeGemm
from kb_dataexec import MemoryLogWriter
from kb_engine import DType, Engine, Host, Language, TensorRef, TileShape
from kb_engine.fastforward.isolated import isolated_commands
from kb_engine.observe import Callbacks
from kb_messages import KbError, StageParams

ROOT = Path(__file__).parents[1]
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "tests_integration" / "isolated")
    cases, fuzz = (import_module(name) for name in ("isolated_cases", "isolated_fuzz"))

TILE = TileShape(32, 32, 32)
Change = Callable[[dict[str, Any]], None]
LEAST_STAGES = isolated_commands.LEAST_ISOLATED_STAGES


@pytest.fixture(autouse=True)
def isolates_small_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products are worth isolating, and commands of one stage are not."""
    monkeypatch.setattr("kb_engine.fastforward.isolated.isolated_commands.LEAST_ISOLATED_STAGES", 8)


def chip(change: Change | None = None, base: str = "one_cube") -> dict[str, Any]:
    spec = chip_spec(base)
    if change is not None:
        change(spec)
    return spec


def run(
    kernel: Callable[..., None],
    spec: dict[str, Any],
    exact: Any = "isolated",
    n_pes: int = 4,
    slices: Callable[[int], int] = lambda pe: pe,
    virtual: bool = False,
    observers: Any = (),
) -> tuple[Any, Engine]:
    """The digest of a launch of *kernel* with a matrix triple for each PE, in the HBM slice that *slices* gives."""
    topology = changed_chip(spec)
    engine = Engine(topology, MemoryLogWriter(), observers, exact=exact)
    host = Host(engine, Path(__file__).parent)
    zeros = np.zeros((64, 96), np.float16)
    tensors = [
        [host.tensor(name, zeros, DType.F16, slices=[host.hbm_slice_of(slices(pe))]) for name in "abc"]
        for pe in range(n_pes)
    ]
    if virtual:
        tensors = [[host.map(tensor) for tensor in triple] for triple in tensors]
    result = host.launch(kernel, tensors, pes=range(n_pes))
    log = engine.close_log()
    assert log is not None
    return (log.digest, result, cases.counts_of(engine)), engine


def product(tl: Language, tensors: list[list[TensorRef]], **named: Any) -> Any:
    a, b, c = tensors[tl.program_id()]
    return tl.composite("gemm", a[:, :64], b, out=c, tile=TILE, **named)


def one(tl: Language, tensors: list[list[TensorRef]]) -> None:
    tl.wait(product(tl, tensors))


def counts(engine: Engine) -> tuple[int, int, int] | None:
    isolated = isolated_of(engine)
    return None if isolated is None else (isolated.n_simulated, isolated.n_reused, isolated.n_undone)


@pytest.mark.parametrize("seed", sampled([*range(12), 141], 5))
def test_random_kernels_come_to_the_same(seed: int) -> None:
    assert fuzz.compare(seed)[:2] == (seed, "")


def test_equal_commands_run_once() -> None:
    found, engine = run(one, chip())
    assert counts(engine) == (1, 3, 0)
    assert found == run(one, chip(), "events")[0]
    assert isolated_of(run(one, chip(), "events")[1]) is None


def test_a_program_on_one_pe_takes_what_it_did_before() -> None:
    def thrice(tl: Language, tensors: list[list[TensorRef]]) -> None:
        for _ in range(3):
            one(tl, tensors)

    found, engine = run(thrice, chip(), n_pes=1)
    assert counts(engine) == (1, 1, 0)
    assert found == run(thrice, chip(), "events", n_pes=1)[0]


def later_loads(tl: Language, tensors: list[list[TensorRef]]) -> None:
    """The second PE reads the memory of the first one, when the product there has long begun."""
    if tl.program_id() == 0:
        one(tl, tensors)
    else:
        for _ in range(8):
            tl.load(tensors[1][0][:8, :8])
        tl.load(tensors[0][0][:32, :32])


def test_a_command_that_another_one_meets_is_simulated_after_all() -> None:
    found, engine = run(later_loads, chip(), n_pes=2)
    assert counts(engine) == (1, 0, 1)
    assert found == run(later_loads, chip(), "events", n_pes=2)[0]


def test_where_commands_meet_none_is_isolated_again() -> None:
    def twice(tl: Language, tensors: list[list[TensorRef]]) -> None:
        one(tl, tensors)
        one(tl, tensors)

    found, engine = run(twice, chip(), slices=lambda _: 0)
    assert counts(engine) == (1, 0, 1)
    assert found == run(twice, chip(), "events", slices=lambda _: 0)[0]


def test_a_value_that_is_computed_meanwhile_ends_all_isolation() -> None:
    def asks(tl: Language, tensors: list[list[TensorRef]]) -> None:
        if tl.program_id() == 0:
            one(tl, tensors)
        else:
            tl.materialize(tl.load(tensors[1][0][:8, :8]) + 1.0)

    found, engine = run(asks, chip(), n_pes=2)
    assert counts(engine) == (1, 0, 1)
    assert found == run(asks, chip(), "events", n_pes=2)[0]


def streams(tl: Language, tensors: list[list[TensorRef]]) -> None:
    tl.wait(product(tl, tensors, b_stream=True))


def scales_each_tile(tl: Language, tensors: list[list[TensorRef]]) -> None:
    tl.wait(product(tl, tensors, epilogue=(tl.scale(0.5, scope="k_tile"), tl.relu())))


@pytest.mark.parametrize("kernel", [streams, scales_each_tile])
def test_streams_and_epilogues_can_be_isolated(kernel: Callable[..., None]) -> None:
    found, engine = run(kernel, chip())
    assert counts(engine) == (1, 3, 0)
    assert found == run(kernel, chip(), "events")[0]


def several_reads(spec: dict[str, Any]) -> None:
    nodes_of_pe(spec)["pe_dma"]["outstanding"] = 2


def scoreboard(spec: dict[str, Any]) -> None:
    nodes_of_pe(spec)["pe_cpu"]["issue"] = "scoreboard"


def decoupled(spec: dict[str, Any]) -> None:
    nodes_of_pe(spec)["pe_cpu"]["issue"] = "decoupled"


def with_mmu(spec: dict[str, Any]) -> None:
    nodes_of_pe(spec)["pe_mmu"] = {
        "kind": "pe_mmu",
        "impl": "builtin.pe_mmu",
        "tlb_entries": 4,
        "levels": 2,
        "level_ns": 50,
    }
    spec["cube"]["pe_template"]["wires"].append("pe_dma -> pe_mmu")


@pytest.mark.parametrize(
    ("change", "base", "virtual"),
    [
        (several_reads, "one_cube", False),
        (scoreboard, "one_cube", False),
        (decoupled, "one_cube", False),
        (with_mmu, "one_cube", True),
        (lambda _: None, "one_cube_banked", False),
    ],
)
def test_what_cannot_be_isolated_runs_as_ever(change: Change, base: str, virtual: bool) -> None:
    found, engine = run(one, chip(change, base), virtual=virtual)
    assert counts(engine) == (0, 0, 0)
    assert found == run(one, chip(change, base), "events", virtual=virtual)[0]


def test_physical_addresses_beside_an_mmu_can_be_isolated() -> None:
    found, engine = run(one, chip(with_mmu))
    assert counts(engine) == (1, 3, 0)
    assert found == run(one, chip(with_mmu), "events")[0]


@pytest.mark.parametrize("hook", ["on_stage", "on_wait", "on_trace"])
def test_an_observer_of_events_sees_them_at_their_times(hook: str) -> None:
    heard: list[Any] = []
    found, engine = run(one, chip(), observers=[Callbacks(**{hook: lambda *what: heard.append(what)})])
    assert isolated_of(engine) is None
    assert heard or hook == "on_wait"  # nothing may wait here
    assert found == run(one, chip(), "events")[0]


def test_a_dma_of_somebody_else_has_to_say_that_it_needs_no_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PeDma, "needs_no_queue", False)
    assert isolated_of(run(one, chip())[1]) is None


def test_the_check_finds_a_cost_that_is_not_pure(monkeypatch: pytest.MonkeyPatch) -> None:
    service_ps = PeGemm.service_ps

    def slower_each_time(self: PeGemm, params: StageParams) -> int:
        slower_each_time.n += 1000  # type: ignore[attr-defined]
        return service_ps(self, params) + slower_each_time.n  # type: ignore[attr-defined]

    slower_each_time.n = 0  # type: ignore[attr-defined]
    monkeypatch.setattr(PeGemm, "service_ps", slower_each_time)
    with pytest.raises(
        KbError, match=r"launch 0: end_ps: got \d+ where parts were skipped, needs \d+, the result of every event"
    ):
        run(one, chip(), "check")


def test_a_comparison_notices_a_key_that_lacks_something(monkeypatch: pytest.MonkeyPatch) -> None:
    def own_tile(tl: Language, tensors: list[list[TensorRef]]) -> None:
        a, b, c = tensors[tl.program_id()]
        tl.wait(tl.composite("gemm", a[:, :64], b, out=c, tile=TileShape(32, 32, 16 << tl.program_id() % 2)))

    assert run(own_tile, chip())[0] == run(own_tile, chip(), "events")[0]
    monkeypatch.setattr("kb_engine.fastforward.isolated.isolated_commands.form_of", lambda plan: plan.kind)
    with pytest.raises(KbError, match="got 432 rows of 336 ops that were issued, needs a row for each op"):
        run(own_tile, chip())  # a command of fewer tiles is to have the rows of one of more


def test_a_failed_run_has_the_records_and_the_counts_up_to_its_end() -> None:
    def fails(tl: Language, tensors: list[list[TensorRef]]) -> None:
        if tl.program_id() == 0:
            one(tl, tensors)
        tl.wait(tl.load(tensors[1][0][:8, :8]))
        raise ZeroDivisionError  # while the product is under way

    def left(exact: Any) -> tuple[Any, list[object]]:
        topology, writer = changed_chip(chip()), MemoryLogWriter()
        engine = Engine(topology, writer, exact=exact)
        host = Host(engine, Path(__file__).parent)
        tensors = [
            [host.tensor(n, np.zeros((64, 96), np.float16), DType.F16, slices=[pe]) for n in "abc"] for pe in range(2)
        ]
        with pytest.raises(KbError):
            host.launch(fails, tensors, pes=range(2))
        engine.flush_log()
        return writer.close().ops, cases.counts_of(engine)

    (events, counted), (isolated, found) = left("events"), left("isolated")
    assert len(events)
    assert np.array_equal(events, isolated)
    assert counted == found


def test_small_commands_are_not_worth_it() -> None:
    assert LEAST_STAGES > 8
