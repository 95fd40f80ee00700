"""The reasons why loops and programs are simulated event by event are true: what has no such cause is folded."""

from collections.abc import Callable, Generator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kb_components.pe.pe_math import PeMath
from kb_dataexec import MemoryLogWriter
from kb_engine import Engine, Host, Language, TensorRef
from kb_engine.engine.registry import GROUP, Registry
from kb_engine.engine.simulated_work import PROGRAMS, TURNS, SimulatedWork
from kb_engine.observe import Callbacks
from kb_engine.observe.slow_path import COMMANDS, LAUNCHES
from kb_messages import KbError
from kb_topology import loads_topology

ROOT = Path(__file__).parents[1]
PES, TURNS_EACH = 8, 40
SEEN: list[int] = []
USES_SEEN = "the kernel uses `SEEN`, which may change between programs"


def plain(tl: Language, x: TensorRef, y: TensorRef) -> None:
    first = tl.program_id() * TURNS_EACH
    for row in range(first, first + TURNS_EACH):
        tl.store(y[row : row + 1, :], tl.load(x[row : row + 1, :]) * 2.0)


def summed(tl: Language, x: TensorRef, y: TensorRef) -> None:
    first = tl.program_id() * TURNS_EACH
    s = tl.load(x[first : first + 1, :])
    for row in range(first + 1, first + TURNS_EACH):
        s = s + tl.load(x[row : row + 1, :])
    tl.store(y[first : first + 1, :], s)


def summed_in_each_turn(tl: Language, x: TensorRef, y: TensorRef) -> None:
    first = tl.program_id() * TURNS_EACH
    s = tl.load(x[first : first + 1, :])
    for row in range(first + 1, first + TURNS_EACH):
        s = s + tl.load(x[row : row + 1, :])
        tl.wait(s)
    tl.store(y[first : first + 1, :], s)


def looking(tl: Language, x: TensorRef, y: TensorRef) -> None:
    first = tl.program_id() * TURNS_EACH
    for row in range(first, first + TURNS_EACH):
        part = tl.load(x[row : row + 1, :])
        tl.store(y[row : row + 1, :], part * (2.0 if float(part[0, 0]) >= 0 else 3.0))


def waiting_for_the_turn_before(tl: Language, x: TensorRef, y: TensorRef) -> None:
    first, before = tl.program_id() * TURNS_EACH, None
    for row in range(first, first + TURNS_EACH):
        part = tl.load(x[row : row + 1, :]) * 2.0
        tl.store(y[row : row + 1, :], part)
        if before is not None:
            tl.wait(before)
        before = part


def waiting(tl: Language, x: TensorRef, y: TensorRef) -> None:
    first = tl.program_id() * TURNS_EACH
    for row in range(first, first + TURNS_EACH):
        part = tl.load(x[row : row + 1, :]) * 2.0
        tl.store(y[row : row + 1, :], part)
        tl.wait(part)


def changing(tl: Language, x: TensorRef, y: TensorRef) -> None:
    first = tl.program_id() * TURNS_EACH
    for row in range(first, first + TURNS_EACH):
        SEEN.append(row)
        tl.store(y[row : row + 1, :], tl.load(x[row : row + 1, :]) * 2.0)


def branching(tl: Language, x: TensorRef, y: TensorRef) -> None:
    first = tl.program_id() * TURNS_EACH
    for row in range(first, first + TURNS_EACH):
        tl.store(y[row : row + 1, :], tl.load(x[row : row + 1, :]) * (3.0 if tl.program_id() == 5 else 2.0))


def printing(tl: Language, x: TensorRef, y: TensorRef) -> None:
    first = tl.program_id() * TURNS_EACH
    for row in range(first, first + TURNS_EACH):
        part = tl.load(x[row : row + 1, :])
        tl.print(part[0, 0])
        tl.store(y[row : row + 1, :], part * 2.0)


def warning(tl: Language, x: TensorRef, y: TensorRef) -> None:
    factor = float(np.float32(3e38) * np.float32(10))
    first = tl.program_id() * TURNS_EACH
    for row in range(first, first + TURNS_EACH):
        tl.store(y[row : row + 1, :], tl.load(x[row : row + 1, :]) * min(factor, 2.0))


def growing(tl: Language, x: TensorRef, y: TensorRef) -> None:
    first = tl.program_id() * TURNS_EACH
    for turn in range(TURNS_EACH):
        tl.store(y[first : first + turn + 1, :], tl.load(x[first : first + turn + 1, :]) * 2.0)


def calling(tl: Language, x: TensorRef, y: TensorRef) -> None:
    plain(tl, x, y)


def one_row(tl: Language, x: TensorRef, y: TensorRef) -> None:
    row = slice(tl.program_id(), tl.program_id() + 1)
    tl.store(y[row, :], tl.load(x[row, :]) * 2.0)


def one_row_seen(tl: Language, x: TensorRef, y: TensorRef) -> None:
    SEEN.append(1)
    one_row(tl, x, y)


def one_row_looked_at(tl: Language, x: TensorRef, y: TensorRef) -> None:
    row = slice(tl.program_id(), tl.program_id() + 1)
    part = tl.load(x[row, :])
    tl.store(y[row, :], part * (2.0 if float(part[0, 0]) >= 0 else 3.0))


def line_of(kernel: Callable[..., None], number: int) -> str:
    """The line of *kernel* that is *number* lines below its `def`."""
    return f"tests_integration/test_why_by_event.py:{kernel.__code__.co_firstlineno + number}"


class Unsaid(PeMath):
    """A block whose class changes how long a service takes, and does not say how to fold that."""

    def process(self, _: Any) -> Generator[Any, Any, None]:
        """A nanosecond, whatever the token."""
        yield self.clock.timeout(1000)


class Said(PeMath):
    """A block of another maker that changes nothing of what the base does."""


def work_of(
    kernel: Callable[..., None],
    issue: str = "blocking",
    pes: int = PES,
    grid: int | None = None,
    log: bool = True,
    math: str = "",
    **options: Any,
) -> SimulatedWork:
    """How a launch of *kernel* was simulated, on rows of each PE in its own slice, or on a *grid* of programs."""
    text = (ROOT / "topologies/one_cube.yaml").read_text().replace("issue_ns: 4", f"issue_ns: 4, issue: {issue}")
    points = [*entry_points(group=GROUP)]
    if math:
        text = text.replace("impl: builtin.pe_math", f"impl: own.{math}")
        points.append(EntryPoint(f"own.{math}", f"{__name__}:{math}", GROUP))
    engine = Engine(loads_topology(text), MemoryLogWriter() if log else None, registry=Registry(points), **options)
    host = Host(engine, ROOT)
    n_rows = PES * TURNS_EACH if grid is None else grid
    data = np.ones((n_rows, 512), np.float32)
    slices = [pe * host.num_slices // PES for pe in range(PES)]
    where = {"blocks": (PES, 1), "slices": slices} if grid is None else {}
    x, y = (host.tensor(name, data, "f32", **where) for name in "xy")
    if grid is None:
        host.launch(kernel, x, y, pes=range(pes))
    else:
        host.launch(kernel, x, y, grid=grid)
    return engine.work


REASONS = [
    (summed, {}, "each turn keeps TCM up to the end of the loop, up to 41 values", line_of(summed, 4)),
    (looking, {}, "the kernel looks at a value", line_of(looking, 4)),
    (
        waiting_for_the_turn_before,
        {"issue": "scoreboard"},
        "the kernel waits for a command of an earlier turn",
        line_of(waiting_for_the_turn_before, 6),
    ),
    (changing, {}, USES_SEEN, line_of(changing, 3)),
    (
        branching,
        {},
        "the kernel goes another way in other programs, by a comparison with the number of its program",
        line_of(branching, 3),
    ),
    (printing, {}, "the kernel uses `.print`, which does or tells more than commands do", line_of(printing, 4)),
    pytest.param(warning, {}, "the kernel warns", "", marks=pytest.mark.filterwarnings("ignore:overflow")),
    (growing, {}, "the kernel's calls have no 16 equal turns that are half of all of them", ""),
    (plain, {"pes": 3}, "the launch is on 3 PEs, and loops are folded on 4 or more", ""),
    (plain, {"pes": 1}, "the launch is on 1 PE, and loops are folded on 4 or more", ""),
    (plain, {"exact": "events"}, "`exact` is `events`", ""),
    (plain, {"folds": False}, "the engine was made with `folds=False`", ""),
    (plain, {"templates": False}, "the engine was made with `templates=False`", ""),
    (plain, {"observers": [Callbacks(on_stage=lambda *_: None)]}, "an observer is told of each stage", ""),
    (
        plain,
        {"observers": [Callbacks(on_trace=lambda _: None), Callbacks(on_issue=lambda _: None)]},
        "an observer is told of each event, as `kb run --trace` asks",
        "",
    ),
    (plain, {"observers": [Callbacks(on_allocate=lambda *_: None)]}, "an observer is told of TCM that is given", ""),
    (
        plain,
        {"log": False, "observers": [Callbacks(on_issue=lambda _: None)]},
        "an observer is told of each command, and there is no op log",
        "",
    ),
    (
        plain,
        {"math": "Unsaid"},
        "the block sip0.cube0.pe0.pe_math is of the class Unsaid, which does not say how to fold it",
        "",
    ),
    (plain, {"issue": "decoupled"}, "the chip did not come into a state in which it was before", ""),
    (calling, {}, "the kernel has no loop of its own: those of functions that it calls are not looked for", ""),
]


@pytest.mark.parametrize(("kernel", "options", "cause", "line"), REASONS)
def test_a_loop_that_is_not_folded_has_its_reason(
    kernel: Callable[..., None], options: dict[str, Any], cause: str, line: str
) -> None:
    work = work_of(kernel, **options)
    (found,) = work.slow_path
    assert (found.what, found.kernel, found.commands) == (TURNS, kernel.__name__, work.commands)
    assert (found.why.cause, found.why.line) == (cause, line)
    assert (work.skipped_programs, work.event_commands) == (0, work.commands)


@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        (plain, {}),
        (plain, {"pes": 4}),
        (plain, {"observers": [Callbacks(on_issue=lambda _: None)]}),
        (plain, {"log": False}),
        (summed_in_each_turn, {}),
        (waiting, {"issue": "scoreboard"}),
        (plain, {"math": "Said"}),
        (one_row, {"grid": 400}),
    ],
)
def test_without_the_cause_turns_are_folded(kernel: Callable[..., None], options: dict[str, Any]) -> None:
    work = work_of(kernel, **options)
    assert work.slow_path == ()
    assert work.skipped_programs > 0
    assert work.skipped_commands > work.commands // 4
    assert work.event_commands == work.commands - work.skipped_commands


@pytest.mark.parametrize(
    ("kernel", "grid", "cause", "line"),
    [
        (
            one_row_seen,
            400,
            USES_SEEN,
            line_of(one_row_seen, 1),
        ),
        (one_row_looked_at, 400, "the kernel looks at a value", line_of(one_row_looked_at, 3)),
        (one_row, 24, "each PE has too few programs or turns for a period to show", ""),
    ],
)
def test_a_grid_that_is_not_folded_has_its_reason(
    kernel: Callable[..., None], grid: int, cause: str, line: str
) -> None:
    work = work_of(kernel, grid=grid)
    (found,) = work.slow_path
    assert (found.what, found.kernel, found.commands) == (PROGRAMS, kernel.__name__, work.commands)
    assert (found.why.cause, found.why.line) == (cause, line)


def multiplied(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef) -> None:
    tl.wait(tl.composite("gemm", a, b, out=c, tile=(16, 16, 16)))


def products(kernel: Callable[..., None], size: int, **options: Any) -> SimulatedWork:
    """How three products of *size* were simulated, each on one PE. None has 800 tiles, unless *size* is 160 or more."""
    engine = Engine(loads_topology((ROOT / "topologies/one_cube.yaml").read_text()), MemoryLogWriter(), **options)
    host = Host(engine, ROOT)
    a, b, c = (host.tensor(name, np.ones((size, size), np.float16), "f16", blocks=(1, 1), slices=[0]) for name in "abc")
    for _ in range(3):
        host.launch(kernel, a, b, c, pes=[0])
    return engine.work


def test_what_is_closed_counts_as_closed() -> None:
    """The first product is simulated, because it may be the only one; each other one is closed, or one with it."""
    work = products(multiplied, 64)
    assert (work.launches, work.commands, work.isolated_commands, work.event_commands) == (3, 3, 2, 1)
    assert products(multiplied, 64, exact="events").event_commands == 3


def multiplied_often(tl: Language, a: TensorRef, b: TensorRef, c: TensorRef, fails: bool) -> None:
    for _ in range(20):
        tl.wait(tl.composite("gemm", a, b, out=c, tile=(16, 16, 16)))
    if fails:
        raise ValueError("after all of them")


def test_a_launch_counts_as_a_whole_when_it_has_ended() -> None:
    """Of 20 equal products, the first is simulated. An observer of the launch's end finds all of them; a launch that
    fails behind its products counts none, closed or not."""
    seen: list[SimulatedWork] = []
    watch = Callbacks(on_launched=lambda: seen.append(engine.work))
    engine = Engine(loads_topology((ROOT / "topologies/one_cube.yaml").read_text()), MemoryLogWriter(), [watch])
    host = Host(engine, ROOT)
    tensors = [host.tensor(name, np.ones((64, 64), np.float16), "f16", blocks=(1, 1), slices=[0]) for name in "abc"]
    host.launch(multiplied_often, *tensors, False, pes=[0])
    with pytest.raises(KbError, match="after all of them"):
        host.launch(multiplied_often, *tensors, True, pes=[0])
    for work in (*seen, engine.work):
        assert (work.launches, work.commands, work.isolated_commands, work.event_commands) == (1, 20, 19, 1)
    assert len(seen) == 1


def test_tiles_that_are_skipped_are_counted() -> None:
    assert products(multiplied, 256).skipped_tiles > 1000
    assert products(multiplied, 64).skipped_tiles == 0


@pytest.mark.parametrize("options", [{}, {"templates": False}, {"folds": False}, {"exact": "events"}])
def test_a_kernel_without_a_loop_is_not_said_to_have_one(options: dict[str, Any]) -> None:
    assert {each.what for each in products(multiplied, 64, **options).slow_path} == {COMMANDS, LAUNCHES}
