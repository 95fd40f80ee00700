"""Reasons of the slow path are true: where the advice of a reason is followed, the reason is gone and more is
skipped."""

from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from kb_components.pe.pe_math import PeMath
from kb_dataexec import MemoryLogWriter
from kb_engine import Engine, Host, Language, TensorRef
from kb_engine.engine.registry import GROUP, Registry
from kb_engine.engine.simulated_work import PROGRAMS, SimulatedWork
from kb_engine.observe import COMMANDS, Callbacks
from kb_messages import KbError
from kb_topology import loads_topology

pytestmark = pytest.mark.speed


ROOT = Path(__file__).parents[1]
SIZE, MANY = 64, 200
SEEN: list[int] = []
_SKIPPED = {COMMANDS: "isolated_commands", PROGRAMS: "skipped_programs"}


class Costly(PeMath):
    """A block whose class replaces how long a service takes by what is no pure cost, and does not state its state."""

    def process(self, _: Any) -> Any:
        """A nanosecond, whatever the token."""
        yield self.clock.timeout(1000)


class Equal(PeMath):
    """A block of another maker that changes nothing of what its base does."""


def product(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef) -> None:
    tl.wait(tl.composite("gemm", a, b, out=c, tile=(16, 16, 16)))


def products(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef) -> None:
    for _ in range(4):
        product(tl, a, b, c)


def products_under_way(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef) -> None:
    handles = [tl.composite("gemm", a, b, out=c, tile=(16, 16, 16)) for _ in range(4)]
    for each in handles:
        tl.wait(each)


def row(tl: Language, x: TensorRef, y: TensorRef) -> None:
    own = slice(tl.program_id(), tl.program_id() + 1)
    tl.store(y[own, :], tl.load(x[own, :]) * 2.0)


def row_seen(tl: Language, x: TensorRef, y: TensorRef) -> None:
    SEEN.append(1)
    row(tl, x, y)


def row_looked_at(tl: Language, x: TensorRef, y: TensorRef) -> None:
    own = slice(tl.program_id(), tl.program_id() + 1)
    part = tl.load(x[own, :])
    tl.store(y[own, :], part * (2.0 if float(part[0, 0]) >= 0 else 3.0))


def row_printed(tl: Language, x: TensorRef, y: TensorRef) -> None:
    own = slice(tl.program_id(), tl.program_id() + 1)
    part = tl.load(x[own, :])
    tl.print(part[0, 0])
    tl.store(y[own, :], part * 2.0)


def row_of_a_copy(tl: Language, x: TensorRef, y: TensorRef) -> None:
    own = slice(tl.program_id(), tl.program_id() + 1)
    tl.store(y[own, :], tl.load(x[0:1, :]) * 2.0)


def engine_of(topology: str = "one_cube", issue: str = "blocking", math: str = "", **options: Any) -> Engine:
    """An engine of *topology* with an op log, and with the block *math* of this file in the place of the math unit."""
    text = (ROOT / f"topologies/{topology}.yaml").read_text().replace("issue_ns: 4", f"issue_ns: 4, issue: {issue}")
    points = [*entry_points(group=GROUP)]
    if math:
        text = text.replace("impl: builtin.pe_math", f"impl: own.{math}")
        points.append(EntryPoint(f"own.{math}", f"{__name__}:{math}", GROUP))
    return Engine(loads_topology(text), MemoryLogWriter(), registry=Registry(points), **options)


def multiplied(
    kernel: Callable[..., None] = product,
    times: int = 4,
    size: int = SIZE,
    mapped: bool = False,
    engine: Callable[[], Engine] = engine_of,
) -> SimulatedWork:
    """How *times* launches of *kernel* on one PE were simulated."""
    made = engine()
    host = Host(made, ROOT)
    tensors = [host.tensor(name, np.ones((size, size), np.float16), "f16", slices=[0]) for name in "abc"]
    for _ in range(times):
        host.launch(kernel, *([host.map(each) for each in tensors] if mapped and not _ else tensors), pes=[0])
    return made.work


def side_by_side(slices: Sequence[int]) -> SimulatedWork:
    """How two PEs multiply at once, each with tensors in its own of *slices*."""
    made = engine_of()
    host = Host(made, ROOT)
    data = np.ones((2 * SIZE, SIZE), np.float16)
    tensors = [host.tensor(name, data, "f16", blocks=(2, 1), slices=slices) for name in "abc"]

    def kernel(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef) -> None:
        own = slice(tl.program_id() * SIZE, (tl.program_id() + 1) * SIZE)
        tl.wait(tl.composite("gemm", a[own, :], b[own, :], out=c[own, :], tile=(16, 16, 16)))

    host.launch(kernel, *tensors, pes=[0, 1])
    return made.work


def rows(
    kernel: Callable[..., None] = row,
    grid: int = MANY,
    shard: str | None = None,
    engine: Callable[[], Engine] = engine_of,
) -> SimulatedWork:
    """How a launch of *kernel* on the rows of a matrix was simulated, a program for each row."""
    made = engine()
    host = Host(made, ROOT)
    data = np.ones((grid, 512), np.float32)
    x = host.tensor("x", data, "f32", shard=shard)
    host.launch(kernel, x, host.tensor("y", data, "f32"), grid=grid)
    return made.work


def rows_beside_mmus(mapped: bool) -> SimulatedWork:
    """How a launch on a PE with an MMU was simulated; the kernel gets one of two matrices at virtual addresses if it
    is *mapped*."""
    made = engine_of("one_sip")
    host = Host(made, ROOT)
    x, y = (host.tensor(name, np.ones((MANY, 512), np.float32), "f32", slices=[0]) for name in "xy")
    host.launch(row, host.map(x) if mapped else x, y, grid=MANY, pes=[0])
    return made.work


class Case(NamedTuple):
    """Work that is not skipped because of `cause`, of which `change` says what `remedied` does."""

    what: str
    cause: str
    change: str
    meets: Callable[[], SimulatedWork]
    remedied: Callable[[], SimulatedWork]


def heard(**callbacks: Any) -> Callable[[], Engine]:
    """An engine that an observer watches."""
    return lambda: engine_of(observers=[Callbacks(**callbacks)])


def made_with(**options: Any) -> Callable[[], Engine]:
    """An engine that was made with *options*."""
    return partial(engine_of, **options)


USES_SEEN = "the kernel uses `SEEN`, which may change between programs"
CASES = [
    Case(
        COMMANDS,
        "its program issues commands while another one is under way",
        "`tl.wait` for each command before the next one",
        partial(multiplied, products_under_way, 1),
        partial(multiplied, products, 1),
    ),
    Case(
        COMMANDS,
        "another program, or an earlier write, uses a memory or a link of the command at the same time",
        "place what each PE loads and stores in the memory near it",
        partial(side_by_side, (0, 0)),
        partial(side_by_side, (0, 4)),
    ),
    Case(
        COMMANDS,
        "the command has virtual addresses",
        "pass tensors that are not mapped",
        partial(multiplied, times=1, mapped=True, engine=made_with(topology="one_sip")),
        partial(multiplied, engine=made_with(topology="one_sip")),
    ),
    Case(
        COMMANDS,
        "`exact` is `events`",
        "simulate with `exact` as `isolated`",
        partial(multiplied, engine=made_with(exact="events")),
        multiplied,
    ),
    Case(
        COMMANDS,
        "an observer listens to each stage",
        "leave the observer out",
        partial(multiplied, engine=heard(on_stage=lambda *_: None)),
        multiplied,
    ),
    Case(
        COMMANDS,
        "the PE_CPU issues commands before earlier ones are done",
        "nothing, unless the chip may have `issue: blocking`",
        partial(multiplied, engine=made_with(issue="scoreboard")),
        multiplied,
    ),
    Case(
        COMMANDS,
        "the block sip0.cube0.pe0.pe_math is of the class Costly, whose times may follow from more than the command",
        "give the class a pure cost",
        partial(multiplied, engine=made_with(math="Costly")),
        partial(multiplied, engine=made_with(math="Equal")),
    ),
    Case(
        PROGRAMS,
        "the block sip0.cube0.pe0.pe_math is of the class Costly",
        "give the class",
        partial(rows, engine=made_with(math="Costly")),
        partial(rows, engine=made_with(math="Equal")),
    ),
    Case(
        PROGRAMS,
        "the kernel uses virtual addresses",
        "map nothing, and pass the tensors themselves",
        partial(rows_beside_mmus, True),
        partial(rows_beside_mmus, False),
    ),
    Case(PROGRAMS, USES_SEEN, "let the kernel use only its arguments", partial(rows, row_seen), rows),
    Case(PROGRAMS, "the kernel looks at a value", "decide by `tl.where`", partial(rows, row_looked_at), rows),
    Case(
        PROGRAMS,
        "the kernel uses `.print`, which does or shows more than commands do",
        "let the kernel use only its arguments",
        partial(rows, row_printed),
        rows,
    ),
    Case(
        PROGRAMS,
        "a tensor has a copy near each PE",
        "shard the tensor, or pass one copy of it",
        partial(rows, row_of_a_copy, shard="replica"),
        partial(rows, row_of_a_copy),
    ),
    Case(PROGRAMS, "each PE has too few programs", "give each PE more of them", partial(rows, grid=24), rows),
    Case(
        PROGRAMS,
        "the engine was made with `templates=False`",
        "make it with",
        partial(rows, engine=made_with(templates=False)),
        rows,
    ),
    Case(
        PROGRAMS,
        "an observer listens to each allocation of TCM",
        "leave the observer out",
        partial(rows, engine=heard(on_allocate=lambda *_: None)),
        rows,
    ),
    Case(
        PROGRAMS,
        "an observer listens to each event, as `kb run --trace` asks",
        "leave the observer out",
        partial(rows, engine=heard(on_trace=lambda _: None)),
        rows,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.what}: {case.cause}")
def test_the_advice_of_a_reason_helps(case: Case) -> None:
    before, after = case.meets(), case.remedied()
    found = [each for each in before.slow_path if each.what == case.what and each.why.cause.startswith(case.cause)]
    assert len(found) == 1, before.slow_path
    assert found[0].why.change.startswith(case.change)
    assert not [each for each in after.slow_path if each.what == case.what and each.why.cause.startswith(case.cause)]
    assert getattr(after, _SKIPPED[case.what]) > getattr(before, _SKIPPED[case.what])


def test_a_reason_names_the_line_of_the_kernel() -> None:
    for kernel, below in ((row_seen, 1), (row_looked_at, 3), (row_printed, 3)):
        (found,) = rows(kernel).slow_path
        line = f"tests_integration/test_slow_path.py:{kernel.__code__.co_firstlineno + below}"
        assert (found.kernel, found.why.line) == (kernel.__name__, line)


def test_without_a_reason_programs_are_skipped() -> None:
    work = rows()
    assert work.slow_path == ()
    assert work.skipped_commands > work.commands // 4
    assert work.event_commands == work.commands - work.skipped_commands


def test_the_first_command_of_a_kind_is_simulated() -> None:
    """Of 4 equal products on one PE, the first is simulated. That there is one PE is not the reason for it."""
    work = multiplied(products, 1)
    (reason,) = work.slow_path
    assert (reason.what, reason.commands, work.event_commands, work.isolated_commands) == (COMMANDS, 1, 1, 3)
    assert reason.why.cause.startswith("it is the first of its kind")
    assert reason.why.change.startswith("nothing: later commands of the kind are ")
    line = product.__code__.co_firstlineno + 1
    assert reason.why.line == f"tests_integration/test_slow_path.py:{line}"


def test_a_launch_that_fails_counts_none_of_its_commands() -> None:
    def fails(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef) -> None:
        products(tl, a, b, c)
        raise ValueError("behind all of them")

    seen: list[SimulatedWork] = []
    made = engine_of(observers=[Callbacks(on_launched=lambda: seen.append(made.work))])
    host = Host(made, ROOT)
    tensors = [host.tensor(name, np.ones((SIZE, SIZE), np.float16), "f16", slices=[0]) for name in "abc"]
    host.launch(products, *tensors, pes=[0])
    with pytest.raises(KbError, match="behind all of them"):
        host.launch(fails, *tensors, pes=[0])
    for work in (*seen, made.work):
        assert (work.launches, work.commands, work.isolated_commands, work.event_commands) == (1, 4, 3, 1)
    assert len(seen) == 1


def test_tiles_that_are_skipped_are_counted() -> None:
    assert multiplied(size=256).skipped_tiles > 1000
    assert multiplied().skipped_tiles == 0
