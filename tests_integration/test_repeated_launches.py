"""Launches that do as an earlier one did are done at once, and leave behind what running them leaves behind."""

import gc
import itertools
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest
import yaml

from kb_components.pe.pe_cpu import PeCpu
from kb_dataexec import MemoryLogWriter
from kb_engine import DType, Engine, Host, Language, Tensor, TensorRef, TileShape
from kb_engine.launch.noted_port import Notes
from kb_engine.observe import Callbacks
from kb_messages import KbError, KernelError
from kb_topology import load_topology, loads_topology

ROOT = Path(__file__).parents[1]
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "tests_integration" / "closed")
    cases = import_module("closed_cases")

Triples = list[list[Tensor]]
N_PES = 4
TILE = TileShape(32, 32, 32)
K = 64


def product(tl: Language, tensors: list[list[TensorRef]]) -> None:
    a, b, c = tensors[tl.program_id()]
    tl.wait(tl.composite("gemm", a[:, :K], b, out=c, tile=TILE))


def half_product(tl: Language, tensors: list[list[TensorRef]], k: int) -> None:
    a, b, c = tensors[tl.program_id()]
    tl.wait(tl.composite("gemm", a[:, :k], b[:k, :], out=c, tile=TILE))


def built(exact: Any = "closed", log: bool = True, **options: Any) -> tuple[Engine, Host]:
    topology = load_topology(ROOT / "topologies" / "one_cube.yaml")
    engine = Engine(topology, MemoryLogWriter() if log else None, exact=exact, least_closed_stages=1, **options)
    return engine, Host(engine, ROOT)


def triples(host: Host, of: str = "") -> Triples:
    """For each PE, matrices a of 64 x 64, b of 64 x 96 and c of 64 x 96 in its memory. Names end with *of*."""
    shapes = {"a": (64, 64), "b": (64, 96), "c": (64, 96)}
    return [
        [host.tensor(name + of, np.zeros(shape, np.float16), DType.F16, slices=[pe]) for name, shape in shapes.items()]
        for pe in range(N_PES)
    ]


def found(engine: Engine, launches: list[Any]) -> tuple[Any, ...]:
    log = engine.close_log()
    return None if log is None else str(log.digest), cases.counts_of(engine), launches


def repeated(engine: Engine) -> int:
    assert engine.repeats is not None
    return engine.repeats.n_repeated


@pytest.mark.parametrize(("log", "expected"), [(True, 3), (False, 4)])
def test_launches_on_other_tensors_are_repeated(log: bool, expected: int) -> None:
    """With a log, the first launch tells of the first transfers on each way, which no later one does."""

    def run(exact: str) -> tuple[Any, Engine]:
        engine, host = built(exact, log)
        sets = [triples(host), triples(host)]
        launches = [host.launch(product, sets[number % 2], pes=range(N_PES)) for number in range(5)]
        return found(engine, launches), engine

    mine, engine = run("closed")
    assert repeated(engine) == expected
    assert mine == run("events")[0]


def test_a_launch_says_which_bytes_it_makes_pending() -> None:
    engine, host = built()
    sets = [triples(host) for _ in range(4)]
    for tensors in sets:
        host.launch(product, tensors, pes=range(N_PES))
    assert repeated(engine) == 2
    producers = {engine.memory.pending.producer(tensors[pe][2].block(0, 0)) for tensors in sets for pe in range(N_PES)}
    assert len(producers) == 1
    assert None not in producers
    host.write(sets[3][0][2], np.zeros((64, 96), np.float16))
    assert engine.memory.pending.producer(sets[3][0][2].block(0, 0)) is None


def test_other_arguments_are_another_launch() -> None:
    engine, host = built(log=False)
    tensors = triples(host)
    for k in (32, 64, 32, 64):
        host.launch(half_product, tensors, k, pes=range(N_PES))
    assert repeated(engine) == 2


def test_tensors_of_other_names_are_another_place_for_the_same_launch() -> None:
    def run(exact: str) -> tuple[Any, Engine]:
        engine, host = built(exact)
        launches = [host.launch(product, triples(host, f" of layer {layer}"), pes=range(N_PES)) for layer in range(4)]
        return found(engine, launches), engine

    mine, engine = run("closed")
    assert repeated(engine) == 2
    assert mine == run("events")[0]


def test_a_kernel_that_reads_the_name_of_a_tensor_runs() -> None:
    def for_first_layer(tl: Language, tensors: list[list[TensorRef]]) -> None:
        k = K if "first" in str(tensors[tl.program_id()][0]) else K // 2
        half_product(tl, tensors, k)

    def run(exact: str) -> list[int]:
        engine, host = built(exact, log=False)
        sets = [triples(host, f" of the {name} layer") for name in ("first", "first", "next", "last")]
        launches = [host.launch(for_first_layer, tensors, pes=range(N_PES)) for tensors in sets]
        assert exact == "events" or repeated(engine) == 0
        return [each.end_ps - each.start_ps for each in launches]

    took = run("closed")
    assert took[0] > took[2]
    assert took == run("events")


def test_one_reference_in_two_places_is_another_launch() -> None:
    def alike(tl: Language, first: TensorRef, second: TensorRef, tensors: list[list[TensorRef]]) -> None:
        half_product(tl, tensors, K if first is second else K // 2)

    def run(exact: str) -> list[int]:
        _, host = built(exact, log=False)
        tensors = triples(host)
        one, other = tensors[0][0].ref, tensors[0][0].ref
        pairs = (one, one), (one, one), (one, other), (one, one)
        launches = [host.launch(alike, *pair, tensors, pes=range(N_PES)) for pair in pairs]
        return [each.end_ps - each.start_ps for each in launches]

    assert run("closed") == run("events")


def test_another_constant_of_the_module_is_another_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(exact: str) -> list[int]:
        engine, host = built(exact, log=False)
        tensors, took = triples(host), []
        for k in (64, 64, 32, 64):
            with monkeypatch.context() as patch:
                patch.setitem(globals(), "TILE", TileShape(k, k, 32))
                launch = host.launch(product, tensors, pes=range(N_PES))
            took.append(launch.end_ps - launch.start_ps)
        assert exact == "events" or repeated(engine) == 2
        return took

    assert run("closed") == run("events")


def _step(k: int) -> Callable[..., None]:
    def step(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef) -> None:
        tl.wait(tl.composite("gemm", a[:, :k], b[:k, :], out=c, tile=TILE))

    return step


FIRST, SECOND = _step(32), _step(64)
LAST = FIRST


def three_steps(tl: Language, tensors: list[list[TensorRef]]) -> None:
    for step in (FIRST, SECOND, LAST):
        step(tl, *tensors[tl.program_id()])


def by_name(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, *, k: int = 32, n: int = 64) -> None:
    tl.wait(tl.composite("gemm", a[:, :k], b[:k, :n], out=c[:, :n], tile=TILE))


def named_step(tl: Language, tensors: list[list[TensorRef]]) -> None:
    by_name(tl, *tensors[tl.program_id()])


def largest_or_least(tl: Language, tensors: list[list[TensorRef]]) -> None:
    a, b, c = tensors[tl.program_id()]
    k = max(64, min(64, 80))
    tl.wait(tl.composite("gemm", a[:, :k], b[:k, :], out=c, tile=TILE))


def thirty_two(*_: int) -> int:
    return 32


class Scaled(np.float64):
    k = 32


def scaled(tl: Language, tensors: list[list[TensorRef]], x: Scaled) -> None:
    a, b, c = tensors[tl.program_id()]
    tl.wait(tl.composite("gemm", a[:, : x.k], b[: x.k, :], out=c, tile=TILE))


@pytest.mark.parametrize(
    ("kernel", "arguments", "owner", "before", "after"),
    [
        (three_steps, [], globals(), {}, {"LAST": SECOND}),
        (named_step, [], by_name, {"k": 32, "n": 64}, {"n": 32, "k": 64}),
        (largest_or_least, [], globals(), {"max": thirty_two}, {"min": thirty_two}),
        (scaled, [Scaled(1)], Scaled, {"k": 32}, {"k": 64}),
    ],
)
def test_what_a_kernel_uses_has_its_name(
    monkeypatch: pytest.MonkeyPatch,
    kernel: Callable[..., None],
    arguments: list[Any],
    owner: Any,
    before: dict[str, Any],
    after: dict[str, Any],
) -> None:
    """Functions of one code that exchange their places, defaults by name, names of builtins, attributes of a class."""

    def run(exact: str) -> tuple[Any, ...]:
        engine, host = built(exact)
        tensors, launches = triples(host), []
        for values in (before, before, before, after, after):
            with monkeypatch.context() as patch:
                if isinstance(owner, FunctionType):
                    patch.setattr(owner, "__kwdefaults__", values)
                    values = {}
                for name, value in values.items():
                    if owner is globals():
                        patch.setitem(owner, name, value)
                    else:
                        patch.setattr(owner, name, value)
                launches.append(host.launch(kernel, tensors, *arguments, pes=range(N_PES)))
        return found(engine, launches)

    assert run("closed") == run("events")


def test_one_reference_twice_is_another_launch_than_two_equal_ones() -> None:
    def chosen(tl: Language, tensors: list[list[TensorRef]], x: TensorRef, y: TensorRef, z: Any) -> None:
        a, b, c = tensors[tl.program_id()]
        k = 32 if x is y or z["x"] is z["y"] else 64
        tl.wait(tl.composite("gemm", a[:, :k], b[:k, :], out=c, tile=TILE))

    def run(exact: str) -> tuple[Any, ...]:
        engine, host = built(exact)
        tensors = triples(host)
        x, y = tensors[0][0].ref, tensors[0][0].ref
        pair, apart = {"x": x, "y": x}, {"x": x, "y": y}
        cases = [(x, x, apart)] * 3 + [(x, y, apart)] * 3 + [(x, y, pair)] * 3
        return found(engine, [host.launch(chosen, tensors, *each, pes=range(N_PES)) for each in cases])

    assert run("closed") == run("events")


def test_a_kernel_whose_parts_cannot_be_told_runs() -> None:
    """A name of the author's without a value yet, and a dict that holds itself."""

    def run(exact: str) -> tuple[Any, ...]:
        def unfinished(tl: Language, tensors: list[list[TensorRef]], n_more: dict[str, Any]) -> None:
            product(tl, tensors)
            if len(n_more) > 1:
                later()

        engine, host = built(exact)
        tensors = triples(host)
        itself: dict[str, Any] = {}
        itself["itself"] = itself
        launches = [host.launch(unfinished, tensors, {}, pes=range(N_PES)) for _ in range(3)]
        launches += [host.launch(takes_all, tensors, itself, pes=range(N_PES)) for _ in range(3)]
        result = found(engine, launches)
        later = None
        return result

    def takes_all(tl: Language, tensors: list[list[TensorRef]], _: dict[str, Any]) -> None:
        product(tl, tensors)

    assert run("closed") == run("events")


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[Notes]:
    """The notes of all launches that are watched from now on."""
    found: list[Notes] = []

    class KeptNotes(Notes):
        def __init__(self) -> None:
            super().__init__()
            found.append(self)

    monkeypatch.setattr("kb_engine.launch.repeats.Notes", KeptNotes)
    return found


def test_launches_without_commands_are_left(watched: list[Notes]) -> None:
    def nothing(tl: Language, n: int) -> None:
        tl.program_id(n)

    _, host = built(log=False)
    for _ in range(10):
        host.launch(nothing, 0, pes=range(N_PES))
    assert len(watched) == 3


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


def test_a_tensor_in_the_place_of_two_is_another_launch() -> None:
    def run(exact: str) -> tuple[Any, ...]:
        engine, host = built(exact)
        apart = triples(host)
        joined = [[a, b, b] for a, b, _ in apart]
        return found(engine, [host.launch(product, each, pes=range(N_PES)) for each in (apart, apart, joined, apart)])

    assert run("closed") == run("events")


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


def test_a_new_log_has_launches_that_were_known_before() -> None:
    def run(exact: str) -> str:
        engine, host = built(exact)
        for _ in range(3):
            host.launch(product, triples(host), pes=range(N_PES))
        engine.rebase(engine.memory.store.snapshot(), MemoryLogWriter())
        host = Host(engine, ROOT)
        for _ in range(3):
            host.launch(product, triples(host), pes=range(N_PES))
        assert exact == "events" or repeated(engine) > 1
        log = engine.close_log()
        assert log is not None
        return str(log.digest)

    assert run("closed") == run("events")
