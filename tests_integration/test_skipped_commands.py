"""Observers that take skipped commands together are told of as much as those of a run of every event."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kb_dataexec import MemoryLogWriter
from kb_engine import Engine, Host, Language, TensorRef
from kb_engine.block import CommandInFlight
from kb_engine.observe import Callbacks, Observer
from kb_messages import KernelError
from kb_topology import load_topology

pytestmark = pytest.mark.speed


ROOT = Path(__file__).parents[1]
ROWS = 320


class Tally(Observer):
    """Counts commands by PE, line and stages."""

    def __init__(self) -> None:
        self.told: Counter[Any] = Counter()
        self.n_again = 0

    def on_issue(self, command: CommandInFlight) -> None:
        """As `Observer.on_issue`."""
        self._add(command, 1)

    def on_issue_again(self, command: CommandInFlight, n: int) -> None:
        """As `Observer.on_issue_again`."""
        self.n_again += n
        self._add(command, n)

    def _add(self, command: CommandInFlight, n: int) -> None:
        self.told[command.submitted.pe, command.submitted.line, command.shared_plan.n_stages] += n


def doubled(tl: Language, x: TensorRef, y: TensorRef) -> None:
    row = slice(tl.program_id(), tl.program_id() + 1)
    tl.store(y[row, :], tl.load(x[row, :]) * 2.0)


def launched(has_log: bool, observers: Sequence[Observer], **options: Any) -> Engine:
    """A chip that has doubled all rows, seen by *observers*."""
    topology, writer = load_topology(ROOT / "topologies/one_cube.yaml"), MemoryLogWriter() if has_log else None
    engine = Engine(topology, writer, observers, **options)
    host = Host(engine, ROOT)
    x = host.tensor("x", np.ones((ROWS, 512), np.float32), "f32")
    host.launch(doubled, x, host.empty("y", x.shape, "f32"), grid=ROWS)
    return engine


@pytest.mark.parametrize("has_log", [True, False])
@pytest.mark.parametrize("exact", ["isolated", "check"])
def test_observers_hear_of_skipped_programs_together(has_log: bool, exact: Any) -> None:
    tally, every = Tally(), Tally()
    work = launched(has_log, [tally], exact=exact).work
    assert work.skipped_commands == tally.n_again > 3 * ROWS / 2, "a load, a vector program and a store of each"
    launched(has_log, [every], exact="events")
    assert (every.n_again, every.told.total()) == (0, 3 * ROWS)
    assert tally.told == every.told


@pytest.mark.parametrize("has_log", [True, False])
def test_who_takes_commands_one_by_one_is_told_of_each(has_log: bool) -> None:
    """With a log they are made anyway. Without one they are not, so none is skipped."""
    tally, seqs = Tally(), list[int]()
    observers = [tally, Callbacks(on_issue=lambda each: seqs.append(each.submitted.command_seq))]
    engine = launched(has_log, observers)
    assert sorted(seqs) == list(range(3 * ROWS))
    assert tally.told.total() == 3 * ROWS
    assert (engine.work.skipped_commands > 0) == (tally.n_again > 0) == has_log


def test_few_commands_are_kept_of_a_launch_without_a_period(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kb_engine.fastforward.steady_state.program_skipper._MOST_COMMANDS", 8)
    most = [0]
    engines: list[Engine] = []

    def looked(_: CommandInFlight) -> None:
        most.append(len(engines[0].session.kept or ()))

    engines.append(
        Engine(
            load_topology(ROOT / "topologies/one_cube.yaml"), None, [Callbacks(on_issue=looked, on_issue_again=print)]
        )
    )
    host = Host(engines[0], ROOT)
    x = host.tensor("x", np.ones((ROWS, 512), np.float32), "f32")
    host.launch(doubled, x, host.empty("y", x.shape, "f32"), grid=ROWS)
    assert engines[0].work.skipped_commands == 0
    assert 8 < max(most) <= 3 * 8 * 3, "three rounds of programs on 8 PEs: the last two are not looked at"
    assert engines[0].session.kept is None


def test_no_command_is_kept_of_a_launch_that_failed() -> None:
    """Program ROWS has no row."""
    kept = list[bool]()
    engine = Engine(
        load_topology(ROOT / "topologies/one_cube.yaml"),
        None,
        [Callbacks(on_issue=lambda _: kept.append(engine.session.kept is not None), on_issue_again=print)],
    )
    host = Host(engine, ROOT)
    x = host.tensor("x", np.ones((ROWS, 512), np.float32), "f32")
    with pytest.raises(KernelError, match=f"empty slice {ROWS}:{ROWS + 1}"):
        host.launch(doubled, x, host.empty("y", x.shape, "f32"), grid=ROWS + 1)
    assert kept[0]
    assert engine.session.kept is None
