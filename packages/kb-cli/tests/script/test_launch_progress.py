"""How far a launch of a script is, on the terminal's line, which is there while the launch runs alone."""

from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from kb_cli.run.base.progress import Simulated
from kb_cli.script.launch_progress import LaunchProgress


class Calls:
    """Keeps the calls of a progress line. `is_due` says whether an update is due."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.is_due = False
        self.phase = ""

    def begin(self, phase: str, what: str) -> None:
        self.phase = phase
        self.calls.append(f"{phase}: {what}")

    def simulated(self, far: Simulated) -> None:
        self.calls.append((far.t_ps, far.stages, far.planned))

    def pause(self) -> None:
        self.calls.append("removed")


@pytest.fixture
def chip() -> Any:
    return SimpleNamespace(clock=SimpleNamespace(now_ps=0), servers=[SimpleNamespace(served=0) for _ in range(2)])


def go_on(watch: LaunchProgress, chip: Any) -> None:
    """30 ns, two commands of 5 stages, of which 7 have been served, and a housekeeping."""
    for _ in range(2):
        watch.on_issue(SimpleNamespace(shared_plan=SimpleNamespace(n_stages=5)))  # type: ignore[arg-type]
    chip.clock.now_ps += 30_000
    chip.servers[0].served += 3
    chip.servers[1].served += 4
    watch.on_housekeeping()


def test_a_launch_is_shown_from_its_begin_to_its_end(chip: Any) -> None:
    """Programs may run for ever before the chip is built, or before it begins the launch."""
    line = Calls()
    watch = LaunchProgress(line)  # type: ignore[arg-type]
    with watch.launch(0, is_trial=False):
        assert line.calls == ["pass 1 (time): launch 0000"]
        watch.on_built(chip)
        watch.on_launch()
        go_on(watch, chip)
        assert line.calls == ["pass 1 (time): launch 0000"], "no update is due"
        watch.on_launched()
    assert line.calls[1:] == ["pass 2 (data): launch 0000", "removed"]
    line.is_due = True
    with watch.launch(1, is_trial=False):
        watch.on_launch()
        go_on(watch, chip)
    assert line.calls[3:] == ["pass 1 (time): launch 0001", (30_000, 7, 10), "removed"]


def test_a_trial_is_shown_without_the_time_of_another_chip(chip: Any) -> None:
    line = Calls()
    line.is_due = True
    watch = LaunchProgress(line)  # type: ignore[arg-type]
    watch.on_built(chip)
    with watch.launch(2, is_trial=True):
        watch.on_housekeeping()
    assert line.calls == ["pass 1 (time): a trial before launch 0002", "removed"]


def test_an_interrupt_finds_how_far_the_launch_was(chip: Any) -> None:
    line = Calls()
    watch = LaunchProgress(line)  # type: ignore[arg-type]
    watch.on_built(chip)
    stack = ExitStack()
    stack.enter_context(watch.launch(0, is_trial=False))
    watch.on_launch()
    go_on(watch, chip)
    with pytest.raises(KeyboardInterrupt), stack:
        raise KeyboardInterrupt
    assert line.calls == ["pass 1 (time): launch 0000", (30_000, 7, 10), "removed"]
