"""Turns of a kernel's loop are folded, and nothing can be told from a run of every event."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from kb_dataexec import Executor, MemoryLogWriter
from kb_engine import Engine, Host, Language, TensorRef, read_tensor
from kb_messages import KbError
from kb_topology import loads_topology

ROOT = Path(__file__).parents[1]
PES, TURNS = 8, 40
COUNTED = []

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "benchmarks/validation")
    folding, copying = import_module("loop_folding"), import_module("copying_kernels")

FOLDED = (1010, 1036)
"""Random cases under a scoreboard that are folded: a turn loads what the one before has stored, or what all load."""
SHORT_TCM = "784 KiB"
"""16 KiB beside the tile buffers: loads of rows of 2 KiB that run ahead get the same bytes again after some turns."""
NOT_FOLDED = (copying.known_and_pending, copying.columns, copying.masked)
"""Programs that meet at one place, and commands of pieces and constants of the log, which no rehearsal goes through."""
AT_ONCE = (copying.copied, copying.spread, copying.behind, copying.ragged, copying.in_rounds)


def doubled(tl: Language, x: TensorRef, y: TensorRef) -> None:
    m = x.shape[0]
    first, last = (number * m // tl.num_programs() for number in (tl.program_id(), tl.program_id() + 1))
    for row in range(first, last):
        tl.store(y[row : row + 1, :], tl.load(x[row : row + 1, :]) * 2.0)


def counted(tl: Language, x: TensorRef, y: TensorRef) -> None:
    COUNTED.append(1)
    doubled(tl, x, y)


def looking(tl: Language, x: TensorRef, y: TensorRef) -> None:
    first = tl.program_id() * TURNS
    for row in range(first, first + TURNS):
        part = tl.load(x[row : row + 1, :])
        tl.store(y[row : row + 1, :], part * (2.0 if float(part[0, 0]) >= 0 else 3.0))


def beyond(tl: Language, x: TensorRef, y: TensorRef) -> None:
    first = tl.program_id() * TURNS
    for turn in range(TURNS):
        tl.store(y[first + turn : first + turn + 1, :], tl.load(x[first + 9 * turn : first + 9 * turn + 1, :]) * 2.0)


def too_much(tl: Language, x: TensorRef, y: TensorRef) -> None:
    first, kept = tl.program_id() * TURNS, []
    for turn in range(TURNS):
        kept.append(tl.load(x[first : first + TURNS, :]) * 2.0)
        tl.wait(kept[turn])


def again(tl: Language, x: TensorRef, y: TensorRef) -> None:
    first = tl.program_id() * TURNS
    rows = range(first, first + TURNS)
    for _ in range(2):
        for row in rows:
            tl.store(y[row : row + 1, :], tl.load(x[row : row + 1, :]) * 2.0)


def in_pairs(tl: Language, x: TensorRef, y: TensorRef) -> None:
    first = tl.program_id() * TURNS
    rows = range(first, first + TURNS)
    for row, same in zip(rows, rows, strict=True):
        tl.store(y[row : row + 1, :], tl.load(x[same : same + 1, :]) * 2.0)


def none_of(tl: Language, x: TensorRef, y: TensorRef) -> None:
    first = tl.program_id() * TURNS
    factor = 3.0 if range(first, first) else 2.0
    for row in range(first, first + TURNS):
        tl.store(y[row : row + 1, :], tl.load(x[row : row + 1, :]) * factor)


def warning(tl: Language, x: TensorRef, y: TensorRef) -> None:
    factor = float(np.float32(3e38) * np.float32(10))
    first = tl.program_id() * TURNS
    for row in range(first, first + TURNS):
        tl.store(y[row : row + 1, :], tl.load(x[row : row + 1, :]) * min(factor, 2.0))


def awaited(tl: Language, x: TensorRef, y: TensorRef) -> None:
    first = tl.program_id() * TURNS
    for row in range(first, first + TURNS):
        tl.store(y[row : row + 1, :], tl.load(x[row : row + 1, :]))
        part = tl.load(x[row : row + 1, :]) * 2.0
        tl.store(y[row : row + 1, :], part)
        tl.wait(part)


def awaited_later(tl: Language, x: TensorRef, y: TensorRef) -> None:
    first, before = tl.program_id() * TURNS, None
    for row in range(first, first + TURNS):
        part = tl.load(x[row : row + 1, :]) * 2.0
        tl.store(y[row : row + 1, :], part)
        if before is not None:
            tl.wait(before)
        before = part


def launched(
    kernel: Callable[..., None] = doubled,
    issue: str = "blocking",
    pes: int = PES,
    columns: int = 512,
    tcm: str = "2 MiB",
    **options: Any,
) -> tuple[Engine, np.ndarray[Any, Any], str]:
    """A launch of *kernel*, rows of each PE in its own slice: the engine, what it computed, and the digest."""
    text = (ROOT / "topologies/one_cube.yaml").read_text().replace("issue_ns: 4", f"issue_ns: 4, issue: {issue}")
    text = text.replace("space: tcm, size: 2 MiB", f"space: tcm, size: {tcm}")
    engine = Engine(loads_topology(text), MemoryLogWriter(), **options)
    host = Host(engine, ROOT)
    slices = [pe * host.num_slices // pes for pe in range(pes)]
    data = np.arange(pes * TURNS * columns, dtype=np.float32).reshape(-1, columns)
    x, y = (host.tensor(name, data, "f32", blocks=(pes, 1), slices=slices) for name in "xy")
    host.launch(kernel, x, y, pes=range(pes))
    log = engine.close_log()
    assert log is not None
    after = Executor(log, engine.initial_memory).run()
    return engine, np.array(read_tensor(after, y)), log.digest


def skipped(engine: Engine) -> int:
    return 0 if engine.grid_folding is None else engine.grid_folding.skipped


@pytest.mark.parametrize("seed", FOLDED)
def test_a_folded_loop_is_that_of_every_event(seed: int) -> None:
    found = folding.compare(seed)
    assert (found.differs, found.refusal) == ([], "")
    assert found.skipped > 30


@pytest.mark.parametrize("kernel", [again, in_pairs, none_of])
def test_a_range_that_a_kernel_keeps_has_all_its_numbers(kernel: Callable[..., None]) -> None:
    (_, computed, digest), (_, expected, every_digest) = launched(kernel), launched(kernel, exact="events")
    assert digest == every_digest
    np.testing.assert_array_equal(computed, expected)


@pytest.mark.parametrize("kernel", [each for each in copying.COPIES if each not in NOT_FOLDED])
@pytest.mark.parametrize("exact", ["closed", "check"])
def test_turns_that_store_what_was_loaded_leave_the_same_bytes(kernel: Callable[..., None], exact: str) -> None:
    spec = yaml.safe_load((ROOT / "topologies/one_cube.yaml").read_text())
    is_local = kernel is not copying.to_others
    if is_local:
        spec["hbm_interleave_nbytes"] = 0
    case = folding.Case(spec, kernel, PES, TURNS, 2, 128, is_local)
    topology = loads_topology(yaml.safe_dump(spec))
    folded, every = (folding.run(case, topology, each) for each in (exact, "events"))
    assert folding.compared(0, folded, every).differs == []
    assert folded.skipped > PES * TURNS // 2
    assert "refusal" not in folded.found


def differing(kernel: Callable[..., None], issue: str = "blocking") -> list[str]:
    """What differs between *kernel* folded, rows of each PE in its own slice, and event by event."""
    spec = yaml.safe_load((ROOT / "topologies/one_cube.yaml").read_text()) | {"hbm_interleave_nbytes": 0}
    spec["cube"]["pe_template"]["nodes"]["pe_cpu"]["issue"] = issue
    case = folding.Case(spec, kernel, PES, TURNS, 2, 128, True)
    topology = loads_topology(yaml.safe_dump(spec))
    folded, every = (folding.run(case, topology, each) for each in ("closed", "events"))
    assert folded.skipped > PES * TURNS // 2
    found: list[str] = folding.compared(0, folded, every).differs
    return found


@pytest.mark.parametrize("kernel", AT_ONCE)
def test_copies_that_meet_no_others_are_made_at_once(
    kernel: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kb_engine.launch.program_period.Period._tell_in_order", lambda *_: pytest.fail("in order"))
    assert differing(kernel) == []


def test_copies_that_meet_others_are_wrong_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kb_engine.launch.copies_at_once.CopiesAtOnce._meet", lambda *_: False)
    assert differing(copying.handed_on) == ["bytes"]


def test_copies_of_what_is_computed_are_wrong_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kb_engine.launch.copies_at_once.CopiesAtOnce._meet", lambda *_: False)
    monkeypatch.setattr("kb_engine.launch.copies_at_once.Spread.is_known", lambda *_: True)
    assert "pending" in " ".join(differing(copying.copied_result))


def _kept_of_the_first_turn(copies: Any, number: int) -> Any:
    return copies._loaded[number]


def _load_of_the_same_turn(copies: Any, program: int, slot: int) -> Any:
    return copies._loads[program % copies._by, copies._origin(slot).slot], 0


@pytest.mark.parametrize(
    ("name", "wrong"), [("_kept_by", _kept_of_the_first_turn), ("_load_of", _load_of_the_same_turn)]
)
def test_what_is_stored_at_once_is_what_its_turn_loaded(
    name: str, wrong: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"kb_engine.launch.copies_at_once.CopiesAtOnce.{name}", wrong)
    assert differing(copying.behind) == ["bytes"]


def test_what_a_jump_leaves_of_loads_is_what_later_turns_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kb_engine.template.steps.Repetition.become", _become_without_loads)
    assert differing(copying.behind) == ["bytes"]


def _become_without_loads(run: Any, number: int, numbers: Any, _: Any) -> None:
    run.number, run.numbers = number, numbers


def test_warnings_of_a_kernel_are_those_of_every_event() -> None:
    with pytest.warns(RuntimeWarning) as seen:
        launched(warning)
    assert len(seen) == PES


def test_settings_of_numpy_around_a_launch_are_not_those_of_its_kernel() -> None:
    """A program begins with numpy's own settings, and a rehearsal with those too: a kernel warns in both or in none."""
    with np.errstate(over="ignore"), pytest.warns(RuntimeWarning) as seen:
        launched(warning)
    assert len(seen) == PES


def test_turns_are_skipped_and_computed() -> None:
    (folded, computed, digest), (_, _, every_digest) = launched(), launched(exact="events")
    assert skipped(folded) > PES * TURNS // 2
    assert digest == every_digest
    assert np.array_equal(computed, 2 * np.arange(PES * TURNS * 512, dtype=np.float32).reshape(-1, 512))


@pytest.mark.parametrize(("issue", "tcm"), [("scoreboard", "2 MiB"), ("decoupled", SHORT_TCM)])
def test_turns_of_pes_that_issue_ahead_are_skipped_and_computed(
    issue: str, tcm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kb_engine.launch.grid_folding._FREE_LOOKS", 1 << 20)
    engine, computed, digest = launched(awaited, issue, tcm=tcm, exact="check")
    assert skipped(engine) > PES * TURNS // 2
    assert engine.checked[1][0] > 0
    assert digest == launched(awaited, issue, tcm=tcm, exact="events")[2]
    assert np.array_equal(computed, 2 * np.arange(PES * TURNS * 512, dtype=np.float32).reshape(-1, 512))


def test_turns_that_wait_for_earlier_ones_run_the_kernel() -> None:
    engine, _, digest = launched(awaited_later, "scoreboard")
    assert skipped(engine) == 0
    assert digest == launched(awaited_later, "scoreboard", exact="events")[2]


def test_turns_that_meet_other_bytes_are_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody compares which bytes meet, commands do not wait for others that they meet in later turns alone."""
    assert differing(folding.at_times_the_same, "scoreboard") == []
    monkeypatch.setattr("kb_engine.launch.program_period.Period.n_with_equal_conflicts", lambda _, n: n)
    assert {"end", "launch", "log"} <= set(differing(folding.at_times_the_same, "scoreboard"))


def test_check_compares_turns_and_sees_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _, digest = launched(exact="check")
    assert skipped(engine) > 0
    assert engine.checked[1][0] > 0
    assert digest == launched(templates=False)[2]
    skip = engine.clock.__class__.skip
    monkeypatch.setattr(engine.clock.__class__, "skip", lambda clock, ps: skip(clock, ps + 1))
    with pytest.raises(KbError, match="other"):
        launched(exact="check")


@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        (counted, {}),  # it keeps something between programs
        (looking, {}),  # it steers by what it loads
        (doubled, {"pes": 3}),
        (doubled, {"exact": "events"}),
        (doubled, {"templates": False}),
    ],
)
def test_other_launches_run_the_kernel_on_each_pe(kernel: Callable[..., None], options: dict[str, Any]) -> None:
    COUNTED.clear()
    engine, computed, digest = launched(kernel, **options)
    pes = options.get("pes", PES)
    assert skipped(engine) == 0
    assert len(COUNTED) == (PES if kernel is counted else 0)
    assert np.array_equal(computed, 2 * np.arange(pes * TURNS * 512, dtype=np.float32).reshape(-1, 512))
    assert digest == launched(kernel, **{**options, "templates": False})[2]


@pytest.mark.parametrize("kernel", [beyond, too_much])
def test_an_error_is_that_of_the_kernel(kernel: Callable[..., None]) -> None:
    said = []
    for templates in (True, False):
        with pytest.raises(KbError) as error:
            launched(kernel, templates=templates)
        said.append(str(error.value))
    assert said[0] == said[1]
