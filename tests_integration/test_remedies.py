"""The reasons why work was simulated event by event are true: where what a reason tells to change is changed, the
reason is gone, and more is closed, skipped or repeated."""

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
from kb_engine.engine.simulated_work import PROGRAMS, TURNS, SimulatedWork
from kb_engine.observe import Callbacks
from kb_engine.observe.slow_path import COMMANDS, LAUNCHES
from kb_topology import loads_topology

ROOT = Path(__file__).parents[1]
PES, TURNS_EACH, SIZE = 8, 40, 64
FACTORS = [2.0]
DEPTH = 1
_SKIPPED = {COMMANDS: "isolated_commands", LAUNCHES: "repeated_launches"}


class Costly(PeMath):
    """A block whose class replaces how long a service takes by what is no pure cost."""

    def process(self, _: Any) -> Any:
        """A nanosecond, whatever the token."""
        yield self.clock.timeout(1000)


def product(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, *_: Any) -> None:
    tl.wait(tl.composite("gemm", a, b, out=c, tile=(16, 16, 16)))


def products(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef) -> None:
    for _ in range(4):
        tl.wait(tl.composite("gemm", a, b, out=c, tile=(16, 16, 16)))


def products_at_once(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef) -> None:
    handles = [tl.composite("gemm", a, b, out=c, tile=(16, 16, 16)) for _ in range(4)]
    for each in handles:
        tl.wait(each)


def product_of_few_stages(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef) -> None:
    tl.wait(tl.composite("gemm", a, b, out=c, tile=(64, 64, 64)))


def product_looked_at(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef) -> None:
    product(tl, a, b, c)
    if float(tl.load(c[0:1, 0:1])[0, 0]) < 0:
        product(tl, a, b, c)


def row_by_a_load(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef) -> None:
    tl.store(c[0:1, :], tl.load(a[0:1, :]) * 2.0)


def product_with_a_list(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef) -> None:
    if len(FACTORS) > 0:
        product(tl, a, b, c)


def product_to_a_depth(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef) -> None:
    if DEPTH > 0:
        product(tl, a, b, c)


def rows(tl: Language, x: TensorRef, y: TensorRef) -> None:
    first = tl.program_id() * TURNS_EACH
    for row in range(first, first + TURNS_EACH):
        tl.store(y[row : row + 1, :], tl.load(x[row : row + 1, :]) * 2.0)


def rows_in_a_call(tl: Language, x: TensorRef, y: TensorRef) -> None:
    rows(tl, x, y)


def rows_of_more_and_more(tl: Language, x: TensorRef, y: TensorRef) -> None:
    first = tl.program_id() * TURNS_EACH
    for turn in range(TURNS_EACH):
        tl.store(y[first : first + turn + 1, :], tl.load(x[first : first + turn + 1, :]) * 2.0)


def rows_with_a_warning(tl: Language, x: TensorRef, y: TensorRef) -> None:
    factor = float(np.float32(3e38) * np.float32(10))
    first = tl.program_id() * TURNS_EACH
    for row in range(first, first + TURNS_EACH):
        tl.store(y[row : row + 1, :], tl.load(x[row : row + 1, :]) * min(factor, 2.0))


def rows_by_the_number(tl: Language, x: TensorRef, y: TensorRef) -> None:
    first = tl.program_id() * TURNS_EACH
    for row in range(first, first + TURNS_EACH):
        tl.store(y[row : row + 1, :], tl.load(x[row : row + 1, :]) * (3.0 if tl.program_id() == 5 else 2.0))


def rows_by_an_argument(tl: Language, x: TensorRef, y: TensorRef, number: int = -1) -> None:
    first = tl.program_id() * TURNS_EACH
    for row in range(first, first + TURNS_EACH):
        tl.store(y[row : row + 1, :], tl.load(x[row : row + 1, :]) * (3.0 if number == 5 else 2.0))


def rows_of_a_copy(tl: Language, x: TensorRef, y: TensorRef) -> None:
    first = tl.program_id() * TURNS_EACH
    for row in range(first, first + TURNS_EACH):
        tl.store(y[row : row + 1, :], tl.load(x[0:1, :]) * 2.0)


def one_row(tl: Language, x: TensorRef, y: TensorRef) -> None:
    row = slice(tl.program_id(), tl.program_id() + 1)
    tl.store(y[row, :], tl.load(x[row, :]) * 2.0)


def engine_of(topology: str = "one_cube", issue: str = "blocking", math: str = "", **options: Any) -> Engine:
    """An engine of *topology* with an op log."""
    text = (ROOT / f"topologies/{topology}.yaml").read_text().replace("issue_ns: 4", f"issue_ns: 4, issue: {issue}")
    points = [*entry_points(group=GROUP)]
    if math:
        text = text.replace("impl: builtin.pe_math", f"impl: own.{math}")
        points.append(EntryPoint(f"own.{math}", f"{__name__}:{math}", GROUP))
    return Engine(loads_topology(text), MemoryLogWriter(), registry=Registry(points), **options)


def multiplying(
    kernel: Callable[..., None] = product,
    times: int = 4,
    pes: Sequence[Sequence[int]] = ((0,),),
    slices: Sequence[int] = (0,),
    sizes: Sequence[int] = (SIZE,),
    arguments: Sequence[Sequence[Any]] = ((),),
    mapped: bool = False,
    before: Callable[[int], None] = lambda _: None,
    engine: Callable[[], Engine] = engine_of,
) -> SimulatedWork:
    """How *times* launches were simulated, which take *pes*, *sizes* and *arguments* in turn."""
    made = engine()
    host = Host(made, ROOT)
    tensors = {
        size: [host.tensor(f"{n}{size}", np.ones((size, size), np.float16), "f16", slices=slices) for n in "abc"]
        for size in sizes
    }
    if mapped:
        tensors = {size: [host.map(each) for each in found] for size, found in tensors.items()}
    for number in range(times):
        before(number)
        given = arguments[number % len(arguments)]
        host.launch(kernel, *tensors[sizes[number % len(sizes)]], *given, pes=pes[number % len(pes)])
    return made.work


def side_by_side(slices: Sequence[int]) -> SimulatedWork:
    """Two PEs multiply at once, each with tensors in its own of *slices*."""
    made = engine_of()
    host = Host(made, ROOT)
    shape, data = (2 * SIZE, SIZE), np.ones((2 * SIZE, SIZE), np.float16)
    a, b, c = (host.tensor(name, data, "f16", blocks=(2, 1), slices=slices) for name in "abc")
    assert a.shape == shape

    def kernel(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef) -> None:
        own = slice(tl.program_id() * SIZE, (tl.program_id() + 1) * SIZE)
        tl.wait(tl.composite("gemm", a[own, :], b[own, :], out=c[own, :], tile=(16, 16, 16)))

    host.launch(kernel, a, b, c, pes=[0, 1])
    return made.work


def looping(
    kernel: Callable[..., None] = rows,
    pes: int = PES,
    grid: int | None = None,
    shard: str | None = None,
    times: int = 1,
    engine: Callable[[], Engine] = engine_of,
) -> SimulatedWork:
    """How *times* launches of *kernel* were simulated, on rows of each PE in its own slice, or on a *grid*."""
    made = engine()
    host = Host(made, ROOT)
    data = np.ones((PES * TURNS_EACH if grid is None else grid, 512), np.float32)
    where: dict[str, Any] = {}
    if grid is None:
        where = {"blocks": (PES, 1), "slices": [host.hbm_slice_of(pe) for pe in range(PES)]}
    x = host.tensor("x", data, "f32", **({"shard": shard} if shard else where))
    y = host.tensor("y", data, "f32", **where)
    for _ in range(times):
        if grid is None:
            host.launch(kernel, x, y, pes=range(pes))
        else:
            host.launch(kernel, x, y, grid=grid)
    return made.work


def set_depth(number: int) -> None:
    """Change what a kernel reads of its module, before launch *number*."""
    globals()["DEPTH"] = 1 + number


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


_TEMPLATES, _FOLDS = "the engine was made with `templates=False`", "the engine was made with `folds=False`"
CASES = [
    Case(
        COMMANDS,
        "its program issues commands while another one is under way",
        "`tl.wait` for each command before the next one",
        partial(multiplying, products_at_once, 1),
        partial(multiplying, products, 1),
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
        partial(multiplying, mapped=True, engine=made_with(topology="one_sip")),
        partial(multiplying, engine=made_with(topology="one_sip")),
    ),
    Case(
        COMMANDS,
        "`exact` is `events`",
        "simulate with `exact` as `closed`",
        partial(multiplying, engine=made_with(exact="events")),
        multiplying,
    ),
    Case(
        COMMANDS,
        "an observer is told of each stage",
        "leave the observer out",
        partial(multiplying, engine=heard(on_stage=lambda *_: None)),
        multiplying,
    ),
    Case(
        COMMANDS,
        "the PE_CPU issues commands before earlier ones are done",
        "nothing, unless the chip may have `issue: blocking`",
        partial(multiplying, engine=made_with(issue="scoreboard")),
        multiplying,
    ),
    Case(
        COMMANDS,
        "the block sip0.cube0.pe0.pe_math is of the class Costly, whose times may follow from more than the command",
        "give the class a pure cost",
        partial(multiplying, engine=made_with(math="Costly")),
        multiplying,
    ),
    Case(
        LAUNCHES,
        "its arguments are others than those of an earlier launch",
        "pass equal arguments",
        partial(multiplying, arguments=[(n,) for n in range(4)]),
        partial(multiplying, arguments=[(0,)]),
    ),
    Case(
        LAUNCHES,
        "its tensors have other shapes, lie in other memories",
        "launch with tensors that are made alike",
        partial(multiplying, sizes=(64, 96, 80, 48)),
        multiplying,
    ),
    Case(
        LAUNCHES,
        "it is on other PEs than an earlier launch",
        "launch on the same PEs",
        partial(multiplying, pes=((0,), (1,), (2,), (3,))),
        multiplying,
    ),
    Case(
        LAUNCHES,
        "what the kernel's code uses has changed",
        "pass what changes as an argument of few values",
        partial(multiplying, product_to_a_depth, before=set_depth),
        partial(multiplying, product_to_a_depth),
    ),
    Case(
        LAUNCHES,
        "programs of its kernel do more than issue commands and wait",
        "let the kernel look at no values",
        partial(multiplying, product_looked_at),
        multiplying,
    ),
    Case(
        LAUNCHES,
        "programs of its kernel hold values in TCM",
        "compute with `tl.composite`",
        partial(multiplying, row_by_a_load),
        multiplying,
    ),
    Case(
        LAUNCHES,
        "commands of a launch like it were not closed",
        "issue larger commands",
        partial(multiplying, product_of_few_stages),
        multiplying,
    ),
    Case(
        LAUNCHES,
        "the kernel uses `FACTORS`, which may change between programs",
        "let the kernel use its arguments and names of its own alone",
        partial(multiplying, product_with_a_list),
        multiplying,
    ),
    Case(LAUNCHES, _TEMPLATES, "make it with", partial(multiplying, engine=made_with(templates=False)), multiplying),
    Case(
        LAUNCHES,
        "an observer is told of what programs do, by `on_issue`",
        "give the observer `on_issue_again`",
        partial(multiplying, engine=heard(on_issue=lambda _: None)),
        partial(multiplying, engine=heard(on_issue=lambda _: None, on_issue_again=lambda *_: None)),
    ),
    Case(TURNS, "the launch is on 3 PEs", "launch on 4 PEs or more", partial(looping, pes=3), partial(looping, pes=4)),
    Case(TURNS, _FOLDS, "make it with", partial(looping, engine=made_with(folds=False)), looping),
    Case(
        TURNS,
        "the PEs translate addresses by an MMU",
        "take a chip without MMUs",
        partial(looping, engine=made_with(topology="one_sip")),
        looping,
    ),
    Case(
        TURNS,
        "a tensor has a copy near each PE",
        "shard the tensor, or pass one copy of it",
        partial(looping, rows_of_a_copy, shard="replica"),
        partial(looping, rows_of_a_copy),
    ),
    Case(
        TURNS,
        "the kernel's calls have no 16 equal turns",
        "make the same calls, on blocks of the same shape",
        partial(looping, rows_of_more_and_more),
        looping,
    ),
    Case(TURNS, "the kernel warns", "compute without what is warned", partial(looping, rows_with_a_warning), looping),
    Case(
        TURNS,
        "the kernel has no loop of its own",
        "write the loop in the kernel itself",
        partial(looping, rows_in_a_call),
        looping,
    ),
    Case(
        TURNS,
        "the kernel goes another way in other programs",
        "decide by arguments of the launch",
        partial(looping, rows_by_the_number),
        partial(looping, rows_by_an_argument),
    ),
    Case(
        PROGRAMS,
        "each PE has too few programs or turns",
        "give each PE more of them",
        partial(looping, one_row, grid=24),
        partial(looping, one_row, grid=400),
    ),
]


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.what}: {case.cause}")
def test_what_a_reason_tells_to_change_helps(case: Case) -> None:
    before, after = case.meets(), case.remedied()
    found = [each for each in before.slow_path if each.what == case.what and each.why.cause.startswith(case.cause)]
    assert len(found) == 1, before.slow_path
    assert found[0].why.change.startswith(case.change)
    assert not [each for each in after.slow_path if each.what == case.what and each.why.cause.startswith(case.cause)]
    skipped = _SKIPPED.get(case.what, "skipped_programs")
    assert getattr(after, skipped) > getattr(before, skipped)
    assert (found[0].launches > 0) == (case.what == LAUNCHES)


def test_the_one_command_that_was_the_first_of_its_kind_is_told_so() -> None:
    """Of 4 equal products on one PE, the first is simulated. The launch on one PE is not the reason for that."""
    work = multiplying(products, 1)
    (reason,) = work.slow_path
    assert (reason.what, reason.commands, work.event_commands, work.isolated_commands) == (COMMANDS, 1, 1, 3)
    assert reason.why.cause.startswith("it is the first of its kind")
    assert reason.why.change == "nothing: later commands of the kind are closed"
    line = products.__code__.co_firstlineno + 2
    assert reason.why.line == f"tests_integration/test_remedies.py:{line}"


@pytest.mark.parametrize("engine", [engine_of, made_with(exact="events"), heard(on_issue=lambda _: None)])
def test_a_launch_of_a_grid_is_not_repeated_and_has_no_remedy(engine: Callable[[], Engine]) -> None:
    """Also where launches without a grid would not be repeated for a reason with a remedy."""
    work = looping(one_row, grid=400, times=3, engine=engine)
    (reason,) = [each for each in work.slow_path if each.what == LAUNCHES]
    assert (reason.why.cause, reason.launches) == ("launches of a grid are not repeated", 2)
    assert reason.why.change.startswith("nothing:")


def test_a_launch_of_which_a_loop_is_folded_is_not_repeated_and_has_no_remedy() -> None:
    """It is never watched, so no later launch is repeated."""
    work = looping(times=5)
    (reason,) = [each for each in work.slow_path if each.what == LAUNCHES]
    assert (reason.launches, work.repeated_launches) == (4, 0)
    assert reason.why.cause == "launches of kernels with a loop that may be folded are not repeated"
    assert reason.why.change.startswith("nothing:")


def test_the_second_launch_on_one_pe_is_told_that_later_ones_are_repeated() -> None:
    """The first launch of a kernel has no reason. The second one is watched, and the third one does as it did."""
    work = multiplying(times=3)
    (reason,) = [each for each in work.slow_path if each.what == LAUNCHES]
    assert (reason.launches, work.repeated_launches) == (1, 1)
    assert reason.why.change == "nothing: later launches with equal arguments are repeated"
    assert not [each for each in multiplying(times=1).slow_path if each.what == LAUNCHES]
