"""Programs of a grid that reach a steady state are skipped, and a run shows what a run of every event shows.

A hundred random runs; `nox -s cases` tries 300, and `nox -s program_folding` 10,000.
"""

from importlib import import_module
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fast_forward import skipper_of
from sampled_cases import sampled

from kb_dataexec import Executor, FolderLogWriter, MemoryLogWriter, read_log
from kb_dataexec.log.compressed import LogRows
from kb_engine import Engine, Host, Language, TensorRef, read_tensor
from kb_engine.observe import Callbacks
from kb_engine.observe.recorder import Recorder
from kb_engine.timing.clock import Clock
from kb_messages import KbError
from kb_topology import Topology, loads_topology

pytestmark = pytest.mark.speed


ROOT = Path(__file__).parents[1]

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(ROOT / "benchmarks/validation")
    both_ways = import_module("program_folding")

SKIPPING = (60, 80, 110, 240, 380, 1075)
"""Random cases in which programs are skipped: under blocking issue, under a scoreboard and decoupled, on two PEs and on
eight, with links that streams share."""
BATCHES, BATCH = 15, 20
"""So many batches of random cases, and the cases of a batch."""
MEETING = 2810
"""A random case under a scoreboard whose programs meet the bytes of others at times."""

PROGRAMS, COLUMNS = 320, 1024
"""Of eight PEs, forty programs each: some rounds are simulated, and more than a third are skipped."""


def doubled(tl: Language, x: TensorRef, y: TensorRef) -> None:
    row = slice(tl.program_id(), tl.program_id() + 1)
    tl.store(y[row, :], tl.load(x[row, :]) * 2.0)


def mirrored(tl: Language, x: TensorRef, y: TensorRef) -> None:
    row, columns = tl.program_id(), tl.arange(64)
    tl.store(y[row, 0:64], tl.load(x[row, 63 - columns]))
    tl.store(y[row, 127 - columns], tl.load(x[row, 64:128]))


def topology(issue: str, interleave: int = 256) -> Topology:
    """`one_cube`."""
    text = (ROOT / "topologies/one_cube.yaml").read_text().replace("issue_ns: 4", f"issue_ns: 4, issue: {issue}")
    return loads_topology(text.replace("hbm_interleave_nbytes: 256", f"hbm_interleave_nbytes: {interleave}"))


def launched(
    rows: int,
    issue: str = "blocking",
    columns: int = 512,
    kernel: Any = doubled,
    shard: Any = None,
    interleave: int = 256,
    **options: Any,
) -> tuple[Engine, np.ndarray[Any, Any], str]:
    """A launch of *kernel*: the engine, what it computed, and the digest."""
    engine = Engine(topology(issue, interleave), MemoryLogWriter(), **options)
    host = Host(engine, ROOT)
    x = host.tensor("x", np.arange(rows * columns, dtype=np.float32).reshape(rows, columns), "f32", shard=shard)
    y = host.empty("y", x.shape, "f32")
    host.launch(kernel, x, y, grid=rows)
    log = engine.close_log()
    assert log is not None
    after = Executor(log, engine.initial_memory).run()
    return engine, np.array(read_tensor(after, y)), log.digest


@pytest.mark.parametrize("issue", ["blocking", "scoreboard"])
def test_commands_that_are_skipped_are_columns_up_to_the_log_on_disk(issue: str, tmp_path: Path) -> None:
    """And an observer that asks for no more than their number is told of them together, whatever others are told."""
    counted, told = list[int](), list[int]()
    watching = (
        Callbacks(on_issue=lambda _: counted.append(1), on_issue_again=lambda _, n: counted.append(n)),
        Callbacks(on_issue=lambda command: told.append(command.submitted.command_seq)),
    )
    logs = {}
    for name, observers in (("columns", watching[:1]), ("each", watching)):
        engine = Engine(topology(issue), FolderLogWriter(tmp_path / name), observers=observers)
        host = Host(engine, ROOT)
        x = host.tensor("x", np.ones((PROGRAMS, COLUMNS), np.float32), "f32")
        host.launch(doubled, x, host.empty("y", x.shape, "f32"), grid=PROGRAMS)
        assert skipper_of(engine) is not None
        assert skipper_of(engine).skipped > 100
        recorder = engine.session.recorder
        assert recorder is not None
        assert (recorder.rows.n_commands < 2 * PROGRAMS) is (name == "columns")
        assert sum(counted) == 3 * PROGRAMS
        counted.clear()
        engine.close_log()
        logs[name] = read_log(tmp_path / name).digest
    assert sorted(told) == list(range(3 * PROGRAMS))
    assert {*logs.values()} == {launched(PROGRAMS, issue, COLUMNS, exact="events")[2]}


@pytest.mark.parametrize("seed", SKIPPING)
def test_a_launch_that_skips_programs_is_that_of_every_event(seed: int) -> None:
    found = both_ways.compare(seed)
    assert (found.differs, found.refusal) == ([], "")
    assert found.skipped > 15


@pytest.mark.parametrize("batch", sampled(range(BATCHES), 2))
def test_random_runs_that_skip_work_are_those_of_every_event(batch: int) -> None:
    """Grids of drawn kernels: loops, held sums, composites, small register files, several launches in one run."""
    found = [both_ways.compare(seed) for seed in range(batch * BATCH, (batch + 1) * BATCH)]
    assert [each for each in found if each.differs] == []
    assert sum(each.is_refused for each in found) < BATCH // 2
    assert any(each.skipped for each in found)


def test_the_random_runs_have_every_kind() -> None:
    cases = [both_ways.draw(seed) for seed in range(BATCHES * BATCH)]
    launches = [launch for case in cases for launch in case.launches]
    pes = [case.spec["cube"]["pe_template"]["nodes"] for case in cases]
    assert {pe["pe_cpu"]["issue"] for pe in pes} == {"blocking", "scoreboard", "decoupled"}
    assert any("slow" in case.spec for case in cases)
    assert {"4 KiB", "8 KiB", "512 KiB"} <= {pe["pe_fetch_store"]["memory"]["size"] for pe in pes}
    assert {len(case.launches) for case in cases} == {1, 2, 3}
    assert {case.least_isolated for case in cases} == {1, both_ways.LEAST_ISOLATED_STAGES}
    assert {case.checks for case in cases} == {case.in_one_slice for case in cases} == {False, True}
    assert {len(launch.grid) for launch in launches} == {1, 2}
    assert any(launch.writes for launch in launches)
    changed = [
        (one.values.factor != two.values.factor, one.values.scale != two.values.scale)
        for case in cases
        for one, two in pairwise(case.launches)
        if one.kernel == two.kernel
    ]
    assert {True, False} == {closure for closure, _ in changed} == {of_globals for _, of_globals in changed}
    text = "".join(source for case in cases for source in case.sources)
    for kind in ("load_async", "held = tl.dot", "tl.composite", "for _ in range(turns)", "if p ", "atomic", "COUNTS"):
        assert kind in text, kind


def test_what_a_program_put_into_tl_is_called_by_each_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """A load that makes each third program load twice."""
    load, digests, found = Language.load, [], []
    for options in ({}, {"templates": False}):
        calls = count()

        def counted(tl: Language, ref: TensorRef, calls: Any = calls) -> Any:
            if next(calls) % 3 == 0:
                load(tl, ref)
            return load(tl, ref)

        monkeypatch.setattr(Language, "load", counted)
        _, data, digest = launched(160, **options)
        digests.append(digest)
        found.append((data.tolist(), next(calls)))
    assert digests[0] == digests[1]
    assert found[0] == found[1]
    assert found[0][1] == 160


def test_the_comparison_sees_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """A jump of one picosecond too many changes the log, the launch and the end."""
    skip = Clock.skip
    monkeypatch.setattr("kb_engine.timing.clock.Clock.skip", lambda clock, ps: skip(clock, ps + 1))
    assert {"end", "launch", "log"} <= set(both_ways.compare(SKIPPING[1]).differs)


def test_the_comparison_sees_programs_that_meet_other_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody compares which bytes meet, commands do not wait for others that they meet in later periods alone."""
    assert both_ways.compare(MEETING).differs == []
    monkeypatch.setattr(
        "kb_engine.fastforward.steady_state.program_period.Period.n_with_equal_conflicts", lambda _, n: n
    )
    assert {"end", "launch", "log"} <= set(both_ways.compare(MEETING).differs)


@pytest.mark.parametrize(("issue", "columns"), [("blocking", 512), ("scoreboard", 4096)])
def test_skipped_programs_compute_what_they_would_compute(issue: str, columns: int) -> None:
    engine, y, digest = launched(PROGRAMS, issue, columns)
    assert skipper_of(engine) is not None
    assert skipper_of(engine).skipped > PROGRAMS // 3
    np.testing.assert_array_equal(y, np.arange(PROGRAMS * columns, dtype=np.float32).reshape(PROGRAMS, columns) * 2)
    assert digest == launched(PROGRAMS, issue, columns, exact="events")[2]


def test_looks_leave_transfers_in_pieces_as_they_are() -> None:
    engine, y, digest = launched(60, columns=128, kernel=mirrored, interleave=0)
    assert skipper_of(engine) is not None
    np.testing.assert_array_equal(y[7], 7 * 128 + np.r_[63:-1:-1, 127:63:-1])
    assert digest == launched(60, columns=128, kernel=mirrored, interleave=0, exact="events")[2]


def test_observers_are_told_of_every_command() -> None:
    told: list[tuple[int, int]] = []
    engine, _, _ = launched(
        PROGRAMS, observers=[Callbacks(on_issue=lambda each: told.append((each.submitted.command_seq, each.first_op)))]
    )
    assert skipper_of(engine) is not None
    assert skipper_of(engine).skipped > PROGRAMS // 3
    seqs, ops = zip(*sorted(told), strict=True)
    assert seqs == tuple(range(3 * PROGRAMS)), "a load, a vector program and a store of each"
    assert list(ops) == sorted(ops)


def test_programs_without_a_period_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch of a million programs does not keep a million of them."""
    monkeypatch.setattr("kb_engine.fastforward.steady_state.program_skipper._MOST_PROGRAMS", 8)
    engine, _, digest = launched(PROGRAMS)
    assert skipper_of(engine) is not None
    assert skipper_of(engine).skipped == 0
    assert skipper_of(engine).kept < 40
    assert digest == launched(PROGRAMS, exact="events")[2]


def test_programs_that_read_the_copy_near_their_pe_are_not_kept() -> None:
    """They differ by their PE, so none of them is skipped, and nothing else needs what they did."""
    engine, _, _ = launched(40, shard="replica")
    assert skipper_of(engine) is None or not skipper_of(engine).kept


def test_a_check_simulates_the_launch_on_a_second_engine() -> None:
    engine, _, digest = launched(PROGRAMS, exact="check")
    assert engine.n_checked == 1
    assert skipper_of(engine).skipped > PROGRAMS // 3
    assert digest == launched(PROGRAMS, exact="events")[2]


def test_a_check_finds_rows_that_a_jump_loses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorder that repeats one period too few, which the log notices itself, and which a check notices, too."""
    repeat, lost = Recorder.repeat, list[int]()

    def loses(recorder: Recorder, mark: Any, n: int, ps: int, ops: int) -> None:
        lost.append(ops)
        repeat(recorder, mark, n - 1, ps, ops)

    monkeypatch.setattr(Recorder, "repeat", loses)
    with pytest.raises(KbError, match=rf"got \d+ rows of {5 * PROGRAMS} ops that were issued, needs a row for each op"):
        launched(PROGRAMS)
    assert lost
    monkeypatch.setattr(LogRows, "n_rows", 5 * PROGRAMS)
    with pytest.raises(KbError, match="op log: number of rows"):
        launched(PROGRAMS, exact="check")


@pytest.mark.parametrize(
    ("what", "otherwise"),
    [
        ("kb_engine.timing.clock.Clock.skip", lambda clock, ps, skip=Clock.skip: skip(clock, ps + 1)),
        ("kb_engine.fastforward.steady_state.state_snapshot.StateShift.moment", lambda _, t_ps: t_ps),
        ("kb_engine.fastforward.steady_state.program_snapshot.ProgramShift.count", lambda _, count: count),
    ],
)
def test_a_check_refuses_a_jump_that_moves_a_part_too_far_or_not_at_all(
    monkeypatch: pytest.MonkeyPatch, what: str, otherwise: Any
) -> None:
    monkeypatch.setattr(what, otherwise)
    with pytest.raises(KbError, match=r"where parts were skipped, needs .*, the result of every event"):
        launched(PROGRAMS, "scoreboard", 4096, exact="check")


@pytest.mark.parametrize("options", [{"exact": "events"}, {"templates": False}])
def test_every_program_is_simulated_where_that_is_asked_for(options: dict[str, Any]) -> None:
    engine, _, _ = launched(100, **options)
    assert skipper_of(engine) is None or not skipper_of(engine).skipped
