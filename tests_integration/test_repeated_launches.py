"""Launches that do as an earlier one did are done at once, and leave behind what running them leaves behind."""

import gc
import itertools
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from kb_components.pe.pe_cpu import PeCpu
from kb_components.pe.tile_feeder import TileFeeder
from kb_dataexec import MemoryLogWriter
from kb_engine import Engine, Host, Language, Tensor, TensorRef
from kb_engine.closed.known_outcomes import KnownOutcomes, OutcomesOfKey
from kb_engine.closed.outcome import Outcome
from kb_engine.launch.noted_port import Notes
from kb_engine.observe import Callbacks
from kb_messages import KbError, KernelError
from kb_topology import loads_topology

ROOT = Path(__file__).parents[1]
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "tests_integration" / "closed")
    shared = import_module("closed_launches")
N_PES, built, found, half_product, product, repeated, triples = (
    vars(shared)[name] for name in ("N_PES", "built", "found", "half_product", "product", "repeated", "triples")
)


@pytest.mark.parametrize("log", [True, False])
def test_launches_on_other_tensors_are_repeated(log: bool) -> None:
    """With a log, the first launch tells of the first transfers on each way, which no later one does."""

    def run(exact: Any) -> tuple[Any, Engine]:
        engine, host = built(exact, log)
        sets = [triples(host), triples(host)]
        launches = [host.launch(product, sets[number % 2], pes=range(N_PES)) for number in range(5)]
        return found(engine, launches), engine

    mine, engine = run("closed")
    assert repeated(engine) == 4
    checked, checking = run("check")
    assert checking.repeats is not None
    assert checking.repeats.n_checked == 1
    assert mine == checked == run("events")[0]


def test_the_engine_counts_the_launches_that_were_compared() -> None:
    """Without a log, the first launch of twelve makes the others known. Of these the first and the ninth run, too."""
    engine, host = built("check", log=False)
    tensors = triples(host)
    for _ in range(12):
        host.launch(product, tensors, pes=range(N_PES))
    assert engine.checked[2] == (2, 9)


def test_a_launch_says_which_bytes_it_makes_pending() -> None:
    engine, host = built()
    sets = [triples(host) for _ in range(4)]
    for tensors in sets:
        host.launch(product, tensors, pes=range(N_PES))
    assert repeated(engine) == 3
    producers = {engine.memory.pending.producer(tensors[pe][2].block(0, 0)) for tensors in sets for pe in range(N_PES)}
    assert len(producers) == 1
    assert None not in producers
    host.write(sets[3][0][2], np.zeros((64, 96), np.float16))
    assert engine.memory.pending.producer(sets[3][0][2].block(0, 0)) is None


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[Notes]:
    """The notes of all launches that are watched from now on."""
    found: list[Notes] = []

    class KeptNotes(Notes):
        def __init__(self) -> None:
            super().__init__()
            found.append(self)

    monkeypatch.setattr("kb_engine.launch.watched_launch.Notes", KeptNotes)
    return found


def test_launches_without_commands_are_left(watched: list[Notes]) -> None:
    def nothing(tl: Language, n: int) -> None:
        tl.program_id(n)

    _, host = built(log=False)
    for _ in range(10):
        host.launch(nothing, 0, pes=range(N_PES))
    assert len(watched) == 2


def test_kernels_that_are_never_known_are_forgotten(monkeypatch: pytest.MonkeyPatch, watched: list[Notes]) -> None:
    monkeypatch.setattr("kb_engine.launch.repeats._MOST_KEPT", 4)
    names: dict[str, Any] = {}
    exec("\n".join(f"def loads{n}(tl, x):\n    tl.load(x[:{n + 1}])" for n in range(6)), names)
    _, host = built(log=False)
    tensor = triples(host)[0][0]
    for number in (0, 0, 1, 2, 3, 4, 5, 0):
        host.launch(names[f"loads{number}"], tensor, pes=range(N_PES))
    assert len(watched) == 7


def test_tensors_that_were_freed_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches on new tensors are repeated all the same."""
    monkeypatch.setattr("kb_engine.launch.launch_key._MOST_TENSORS", 24)
    engine, host = built(log=False)
    before = _n_tensors()
    for _ in range(8):
        tensors = triples(host)
        host.launch(product, tensors, pes=range(N_PES))
        for each in itertools.chain.from_iterable(tensors):
            host.free(each)
    assert repeated(engine) == 7
    assert _n_tensors() - before <= 36


def _n_tensors() -> int:
    gc.collect()
    return sum(type(each) is Tensor for each in gc.get_objects())


@pytest.mark.parametrize("n_chunk", [1500, 2500])
def test_a_check_goes_on_where_the_log_is_written(n_chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who is told of chunks has the log written in the middle of some launches."""
    monkeypatch.setattr("kb_engine.observe.recorder._CHUNK_RECORDS", n_chunk)
    monkeypatch.setattr("kb_engine.observe.recorder._CHUNK_RECORDS_A_PE", 1)

    def run(exact: str) -> tuple[Any, ...]:
        engine, host = built(exact, observers=[Callbacks(on_chunk=lambda *_: None)])
        tensors = triples(host)

        def products(tl: Language, tensors: list[list[TensorRef]]) -> None:
            for _ in range(6):
                product(tl, tensors)

        result = found(engine, [host.launch(products, tensors, pes=range(N_PES)) for _ in range(40)])
        assert exact == "events" or repeated(engine) > 20
        return result

    assert run("check") == run("events")


def test_a_kernel_that_looks_at_a_value_runs() -> None:
    def looks(tl: Language, tensors: list[list[TensorRef]]) -> None:
        product(tl, tensors)
        if tl.load(tensors[tl.program_id()][0][:1, :1])[0, 0] > 0:
            product(tl, tensors)

    engine, host = built(log=False)
    tensors = triples(host)
    took = []
    for number in (0, 0, 0, 1):
        host.write(tensors[0][0], np.full((64, 64), number, np.float16))
        took.append(len(host.launch(looks, tensors, pes=range(N_PES)).pe_end_ps) and engine.session.commands_issued)
    assert repeated(engine) == 0
    assert took == [8, 16, 24, 33]


@pytest.mark.parametrize("issue", ["blocking", "scoreboard", "decoupled"])
def test_a_launch_that_is_watched_comes_to_the_same(issue: str) -> None:
    def doubled(tl: Language, tensors: list[list[TensorRef]]) -> None:
        a, b, c = tensors[tl.program_id()]
        tl.store(c[:32, :], tl.load(b[:32, :]) * 2.0)
        product(tl, tensors)
        tl.store(a[:32, :], tl.load(a[32:, :]))

    def run(**options: Any) -> tuple[Any, ...]:
        spec = yaml.safe_load((ROOT / "topologies" / "one_cube.yaml").read_text(encoding="utf-8"))
        spec["cube"]["pe_template"]["nodes"]["pe_cpu"]["issue"] = issue
        engine = Engine(loads_topology(yaml.safe_dump(spec), "issue.yaml"), MemoryLogWriter(), **options)
        host = Host(engine, ROOT)
        tensors = triples(host)
        return found(engine, [host.launch(doubled, tensors, pes=range(N_PES)) for _ in range(3)])

    assert run() == run(templates=False) == run(exact="events")


@pytest.mark.parametrize("observers", [[Callbacks(on_issue=lambda _: None)], [Callbacks(on_program_end=print)]])
def test_who_is_told_of_programs_is_told_of_all(observers: list[Any]) -> None:
    assert built(observers=observers)[0].repeats is None
    assert built(templates=False)[0].repeats is None
    assert built("events")[0].repeats is None


def test_a_wrong_argument_is_the_same_error() -> None:
    engine, host = built(log=False)
    tensors = triples(host)
    for _ in range(3):
        host.launch(half_product, tensors, 64, pes=range(N_PES))
    assert repeated(engine) == 2
    with pytest.raises(KernelError, match="missing a required argument"):
        host.launch(half_product, tensors, pes=range(N_PES))
    host.free(tensors[0][0])
    with pytest.raises(KernelError, match=r"after host\.free"):
        host.launch(half_product, tensors, 64, pes=range(N_PES))


def test_a_check_finds_launches_that_take_another_time(monkeypatch: pytest.MonkeyPatch) -> None:
    _, host = built("check", log=False)
    tensors = triples(host)
    host.launch(product, tensors, pes=range(N_PES))
    monkeypatch.setattr(PeCpu, "startup_ps", lambda _: 1000)
    with pytest.raises(KbError, match=r"launch 1: got other times, commands, .* than those of a launch with the same"):
        host.launch(product, tensors, pes=range(N_PES))
    with pytest.raises(KbError, match="failed or got stuck"):
        host.launch(product, tensors, pes=range(N_PES))


def test_an_interrupt_ends_the_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    engine, host = built(log=False)
    tensors = triples(host)
    host.launch(product, tensors, pes=range(N_PES))
    apply: Callable[..., None] = interrupted
    monkeypatch.setattr("kb_engine.launch.known_launch.KnownLaunch.apply", apply)
    with pytest.raises(KeyboardInterrupt):
        host.launch(product, tensors, pes=range(N_PES))
    with pytest.raises(KbError, match="failed or got stuck"):
        host.launch(product, tensors, pes=range(N_PES))
    assert engine.clock.is_broken


@pytest.mark.parametrize("error", [KeyboardInterrupt(), KbError("block", "no work", "some")])
def test_an_error_of_a_command_that_runs_once_more_ends_the_simulation(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command has left its work half done, and nobody runs another one behind it."""

    def fails(*_: object) -> None:
        raise error

    _, host = built()
    tensors = triples(host)
    host.launch(product, tensors, pes=range(N_PES))
    with monkeypatch.context() as failing:
        failing.setattr(TileFeeder, "wake", fails)
        with pytest.raises(type(error)):
            host.launch(product, tensors, pes=range(N_PES))
    with pytest.raises(KbError, match="failed or got stuck"):
        host.launch(product, tensors, pes=range(N_PES))


def test_launches_whose_outcomes_are_dropped_run() -> None:
    """There is room for the outcomes of a launch, and none for those of its commands that run once more."""
    sizes: list[int] = []

    class KeptOutcomes(KnownOutcomes):
        def keep(self, known: OutcomesOfKey, outcome: Outcome) -> None:
            assert outcome.rows is not None
            sizes.append(outcome.rows.nbytes)
            super().keep(known, outcome)

    def products(tl: Language, tensors: list[list[TensorRef]]) -> None:
        product(tl, tensors)
        half_product(tl, tensors, 32)

    def run(exact: str, times: int, known: KnownOutcomes | None = None) -> tuple[Any, ...]:
        engine, host = built(exact)
        if known is not None:
            engine.closed.known = known
        tensors = triples(host)
        return found(engine, [host.launch(products, tensors, pes=range(N_PES)) for _ in range(times)])

    run("closed", 1, KeptOutcomes())
    known = KnownOutcomes(sum(sizes))
    assert run("closed", 4, known) == run("events", 4)
    assert known.n_dropped > 1


@pytest.mark.parametrize("n_before", [1, 3])
def test_a_new_log_has_launches_that_were_known_before(n_before: int) -> None:
    """The first product of the new log has rows of its transfers, and the second one of the same launch has none."""

    def twice(tl: Language, tensors: list[list[TensorRef]]) -> None:
        product(tl, tensors)
        product(tl, tensors)

    def run(exact: str) -> str:
        engine, host = built(exact)
        for _ in range(n_before):
            host.launch(twice, triples(host), pes=range(N_PES))
        engine.rebase(engine.memory.store.snapshot(), MemoryLogWriter())
        host = Host(engine, ROOT)
        for _ in range(3):
            host.launch(twice, triples(host), pes=range(N_PES))
        assert exact == "events" or repeated(engine) > 1
        log = engine.close_log()
        assert log is not None
        return str(log.digest)

    assert run("closed") == run("events")
