"""Launches of whose programs one of each kind is run: they leave behind what running all of them does."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from kb_components.pe.pe_cpu import PeCpu
from kb_engine import Engine, Language, TensorRef
from kb_engine.closed.known_outcomes import KnownOutcomes
from kb_engine.language.held_back import HeldBackCalls
from kb_engine.launch.foreseen_programs import foreseen_programs
from kb_engine.program.kernel_lines import kernel_lines
from kb_engine.program.runner import KernelCall, KernelRunner
from kb_messages import KbError, KernelError

ROOT = Path(__file__).parents[1]
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "tests_integration" / "closed")
    shared = import_module("closed_launches")
N_PES, TILE, built, found, product, triples = (
    vars(shared)[name] for name in ("N_PES", "TILE", "built", "found", "product", "triples")
)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The PEs on which kernels have run."""
    pe_ids: list[str] = []
    start = KernelRunner.start

    def noted(runner: KernelRunner, _: object = None) -> None:
        pe_ids.append(runner.pe.pe_id[-1])
        start(runner)

    monkeypatch.setattr(KernelRunner, "start", noted)
    return pe_ids


def run(kernel: Any, *arguments: Any, exact: str = "closed", log: bool = False, times: int = 1) -> tuple[Any, Engine]:
    """What *kernel* leaves behind that was launched some *times*, and which bytes are pending."""
    engine, host = built(exact, log)
    tensors = triples(host)
    result = found(engine, [host.launch(kernel, tensors, *arguments, pes=range(N_PES)) for _ in range(times)])
    pending = [engine.memory.pending.producer(tensors[pe][2].block(0, 0)) for pe in range(N_PES)]
    return (result, pending), engine


def foreseen(engine: Engine) -> int:
    assert engine.repeats is not None
    return engine.repeats.n_foreseen


def product_of(tl: Language, tensors: list[list[TensorRef]], depths: tuple[int, ...]) -> None:
    """The product of as many columns of a as *depths* says for the program; 0 stands for no product."""
    a, b, c = tensors[tl.program_id()]
    k = depths[tl.program_id()]
    if k:
        tl.wait(tl.composite("gemm", a[:, :k], b[:k, :], out=c, tile=TILE))


@pytest.mark.parametrize(
    ("depths", "expected"),
    [((64, 64, 64, 64), "0"), ((64, 32, 32, 64), "01"), ((64, 0, 64, 0), "013"), ((0, 0, 64, 64), "012")],
)
@pytest.mark.parametrize("log", [False, True])
def test_one_program_of_each_kind_runs(depths: tuple[int, ...], expected: str, log: bool, begun: list[str]) -> None:
    """A program without a command runs, because there is nothing to take over."""
    mine, engine = run(product_of, depths, log=log)
    assert "".join(begun) == expected
    assert foreseen(engine) == 1
    for exact in ("check", "events"):
        assert mine == run(product_of, depths, exact=exact, log=log)[0]


def test_programs_take_an_outcome_that_was_dropped_since() -> None:
    """There is room for the outcome of one kind of programs, and the launch has two."""
    results = []
    for exact in ("closed", "check", "events"):
        engine, host = built(exact, True)
        if engine.closed is not None:
            engine.closed.known = KnownOutcomes(1)
        tensors = triples(host)
        launches = [host.launch(product_of, tensors, (64, 32, 32, 64), pes=range(N_PES)) for _ in range(3)]
        results.append(found(engine, launches))
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("log", [False, True])
def test_later_launches_repeat_one_that_was_foreseen(log: bool, begun: list[str]) -> None:
    mine, engine = run(product, times=5, log=log)
    assert "".join(begun) == "0"
    assert engine.repeats is not None
    assert (engine.repeats.n_foreseen, engine.repeats.n_repeated) == (1, 4)
    checked, checking = run(product, times=5, exact="check", log=log)
    assert checking.repeats is not None
    assert checking.repeats.n_checked == 1
    assert mine == checked == run(product, times=5, exact="events", log=log)[0]


def first_alone(tl: Language, tensors: list[list[TensorRef]], times: int) -> None:
    """Program 0 multiplies; the others do so where *times* is 2."""
    if times == 2 or not tl.program_id():
        product(tl, tensors)


def test_a_program_of_whose_transfers_the_log_knows_less_runs_too(begun: list[str]) -> None:
    """The first launch tells the log how long transfers of PE 0 take. So in the second one, programs 0 and 1 run."""
    results = []
    for exact in ("closed", "check", "events"):
        engine, host = built(exact, True)
        tensors = triples(host)
        begun.clear()
        results.append(found(engine, [host.launch(first_alone, tensors, n, pes=range(N_PES)) for n in (1, 2)]))
        if exact == "closed":
            assert foreseen(engine) == 2
            assert "".join(begun) == "0123" + "01"
    assert results[0] == results[1] == results[2]


def shares(tl: Language, tensors: list[list[TensorRef]]) -> None:
    a, b, _ = tensors[0]
    tl.wait(tl.composite("gemm", a, b, out=tensors[tl.program_id()][2], tile=TILE))


def does_not_wait(tl: Language, tensors: list[list[TensorRef]]) -> None:
    a, b, c = tensors[tl.program_id()]
    tl.composite("gemm", a, b, out=c, tile=TILE)


def loads(tl: Language, tensors: list[list[TensorRef]]) -> None:
    product(tl, tensors)
    tl.store(tensors[tl.program_id()][0], tl.load(tensors[tl.program_id()][0]))


def multiplies_twice(tl: Language, tensors: list[list[TensorRef]]) -> None:
    product(tl, tensors)
    product(tl, tensors)


@pytest.mark.parametrize("kernel", [shares, does_not_wait, loads, multiplies_twice])
def test_other_programs_run(kernel: Any, begun: list[str]) -> None:
    mine, engine = run(kernel)
    assert len(begun) == N_PES
    assert foreseen(engine) == 0
    assert mine == run(kernel, exact="events")[0]


def decides_by_name(tl: Language, tensors: list[list[TensorRef]], pe: int) -> None:
    """Program *pe* multiplies half as many columns of a tensor whose name begins with "ax"."""
    a, b, c = tensors[tl.program_id()]
    k = 32 if tl.program_id() == pe and str(a).startswith("ax") else 64
    tl.wait(tl.composite("gemm", a[:, :k], b[:k, :], out=c, tile=TILE))


@pytest.mark.parametrize("pe", [0, 2])
@pytest.mark.parametrize("log", [False, True])
def test_a_launch_whose_kernel_asks_for_a_name_is_not_repeated(pe: int, log: bool) -> None:
    """Names are no part of a key. So the second launch has to run, also if just program 2 asks for one."""
    results = []
    for exact in ("closed", "events"):
        engine, host = built(exact, log)
        launches = [host.launch(decides_by_name, triples(host, of), pe, pes=range(N_PES)) for of in ("", "x")]
        ends_ps = {after - launches[1].call_ps for after in launches[1].pe_end_ps.values()}
        assert len(ends_ps) == 2
        results.append(found(engine, launches))
    assert results[0] == results[1]


def test_a_kernel_that_fails_fails_in_its_launch() -> None:
    def too_deep(tl: Language, tensors: list[list[TensorRef]]) -> None:
        a, b, c = tensors[tl.program_id()]
        tl.wait(tl.composite("gemm", a, b[:32, :], out=c, tile=TILE))

    errors = []
    for exact in ("closed", "events"):
        with pytest.raises(KernelError) as error:
            run(too_deep, exact=exact)
        errors.append(str(error.value))
    assert errors[0] == errors[1]


def test_a_check_finds_programs_that_take_another_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = iter([1000] * N_PES + [2000, 3000, 4000, 5000])
    monkeypatch.setattr(PeCpu, "issue_ps", lambda *_: next(asked))
    with pytest.raises(KbError, match=r"pe1: got another time or outcome than those of an equal program of the launch"):
        run(product, exact="check")


@pytest.mark.parametrize("is_in_kernel", [True, False])
def test_an_interrupt_before_the_launch_says_where_the_kernel_ran(
    is_in_kernel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted = eval("lambda *_: (each for each in ()).throw(KeyboardInterrupt)")  # of no file of an author
    engine, host = built(log=False)
    tensors = triples(host)
    place = "_ForeseenPort.submit" if is_in_kernel else "_program_of"
    monkeypatch.setattr(f"kb_engine.launch.foreseen_programs.{place}", interrupted)
    with pytest.raises(KeyboardInterrupt):
        host.launch(product, tensors, pes=range(N_PES))
    line = f"tests_integration/closed/closed_launches.py:{product.__code__.co_firstlineno + 2}"
    assert engine.standing() == [
        f"the kernel ran at {line}, before its launch" if is_in_kernel else "the launch had not begun"
    ]
    monkeypatch.undo()
    host.launch(product, tensors, pes=range(N_PES))
    assert engine.standing() == [f"{N_PES} of {N_PES} kernels have ended"]


def test_a_program_that_would_hold_a_command_back_is_not_foreseen() -> None:
    def holds_back(tl: Language, tensors: list[list[TensorRef]]) -> None:
        product(tl, tensors)
        HeldBackCalls(tl._port).add(None)  # type: ignore[arg-type]  # nobody asks

    engine, host = built(log=False)
    tensors = [[each.ref for each in of_pe] for of_pe in triples(host)]
    pes = list(engine.pes.values())[:N_PES]
    for kernel, is_foreseen in ((product, True), (holds_back, False)):
        call = KernelCall(kernel, [tensors], ROOT, Language, kernel_lines(ROOT))
        assert (foreseen_programs(call, pes, 0, keeps_log=False) is not None) == is_foreseen
