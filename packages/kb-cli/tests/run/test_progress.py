"""What a run says of itself: on the status line, and in progress.json."""

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from kb_cli.run.base.progress import PASS_1, PASS_2, SET_UP, VERIFY, RunProgress, Simulated
from kb_cli.terminal import status_line


class Seconds:
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Screen(io.StringIO):
    """A terminal that keeps what is written. `line` is the line that stands there."""

    def isatty(self) -> bool:
        return True

    @property
    def frames(self) -> list[str]:
        return [frame.rstrip() for frame in self.getvalue().split("\r") if frame.strip()]

    @property
    def line(self) -> str:
        cells = [" "] * 200
        at = 0
        for character in self.getvalue():
            if character == "\r":
                at = 0
            else:
                cells[at], at = character, at + 1
        return "".join(cells).rstrip()


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    monkeypatch.setenv("TERM", "xterm")
    found = Screen()
    monkeypatch.setattr(status_line, "sys", SimpleNamespace(stderr=found))
    monkeypatch.setattr(status_line, "_columns", lambda: 100)
    return found


def simulated(stages: int, planned: int, t_ps: int = 1_234_567) -> Simulated:
    return Simulated(t_ps=t_ps, stages=stages, planned=planned, pes_done=3, pes=8)


def test_the_line_of_pass_1_has_time_stages_pes_and_seconds_left(screen: Screen) -> None:
    seconds = Seconds()
    with RunProgress(None, seconds) as progress:
        progress.begin(PASS_1)
        assert screen.line == "pass 1 (time)"
        progress.simulated(simulated(1000, 5000))
        assert screen.line == "pass 1 (time)  1.235 us  1,000 of 5,000 stages  3 of 8 PEs done"
        seconds.now += 2  # 500 stages a second, 3000 to go
        progress.simulated(simulated(2000, 5000))
        assert screen.line == "pass 1 (time)  1.235 us  2,000 of 5,000 stages  3 of 8 PEs done  6 s left"
        seconds.now += 2  # 500 stages a second still, and more were planned meanwhile
        progress.simulated(simulated(3000, 6000))
        assert screen.line.endswith("  6 s left or more")
    assert screen.line == ""


def test_a_phase_is_shown_when_it_begins_and_then_four_times_a_second(screen: Screen) -> None:
    seconds = Seconds()
    with RunProgress(None, seconds) as progress:
        for phase in (PASS_2, VERIFY):
            progress.begin(phase)
            for done in range(1000):  # in two seconds
                seconds.now += 0.002
                progress.count(done, 1000)
    assert [frame for frame in screen.frames if "ops" not in frame] == ["pass 2 (data)", "verification"]
    assert 7 * 2 <= len(screen.frames) <= (1 + 8) * 2


def test_short_steps_of_one_phase_are_shown_when_an_update_is_due(screen: Screen) -> None:
    seconds = Seconds()
    progress = RunProgress(None, seconds)
    for number in range(10):
        progress.mention(SET_UP, f"placing t{number}")
        seconds.now += 0.1
    assert screen.frames == [f"set-up: placing t{number}" for number in (0, 3, 6, 9)]


def test_rows_are_named_and_narrow_terminals_lose_the_last_parts(
    monkeypatch: pytest.MonkeyPatch, screen: Screen
) -> None:
    monkeypatch.setattr(status_line, "_columns", lambda: 80)
    progress = RunProgress(None, Seconds())
    progress.row(2, 4)
    progress.begin(PASS_1)
    progress.simulated(simulated(10**9, 10**10))
    assert screen.line == "row 2 of 4, pass 1 (time)  1.235 us  1,000,000,000 of 10,000,000,000 stages"


def test_the_file_says_the_same_and_is_removed(screen: Screen, tmp_path: Path) -> None:
    seconds = Seconds()
    file = tmp_path / "progress.json"
    progress = RunProgress(tmp_path, seconds)
    progress.begin(PASS_1)
    progress.simulated(simulated(1000, 5000))
    seconds.now += 2
    progress.simulated(simulated(2000, 5000))
    found = json.loads(file.read_text())
    assert (found["format"], found["version"], found["state"]) == ("kernbench-progress", 1, "running")
    assert [found[name] for name in ("phase", "done", "total", "t_ps", "pes_done", "pes", "left_s", "elapsed_s")] == [
        "pass 1 (time)", 2000, 5000, 1_234_567, 3, 8, 6.0, 2.0,
    ]  # fmt: skip
    said = progress.interrupted(["pe0: waits"])
    assert said == "in pass 1 (time), 1.235 us, 2,000 of 5,000 stages, 3 of 8 PEs done"
    found = json.loads(file.read_text())
    assert (found["state"], found["kernel_positions"], found["left_s"]) == ("interrupted", ["pe0: waits"], None)
    progress.remove_file(tmp_path / "0000")
    assert file.exists()
    progress.remove_file(tmp_path)
    progress.begin(VERIFY)
    assert list(tmp_path.iterdir()) == []


def test_no_line_on_a_dumb_terminal_or_in_a_pipe(monkeypatch: pytest.MonkeyPatch, screen: Screen) -> None:
    monkeypatch.setenv("TERM", "dumb")
    with RunProgress() as progress:
        progress.begin(PASS_1)
    assert screen.getvalue() == ""
    monkeypatch.setenv("TERM", "xterm")
    pipe = io.StringIO()
    monkeypatch.setattr(status_line, "sys", SimpleNamespace(stderr=pipe))
    with RunProgress() as progress:
        progress.begin(PASS_1)
    assert pipe.getvalue() == ""


def test_a_terminal_that_goes_away_stops_the_line_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, screen: Screen
) -> None:
    progress = RunProgress(None, Seconds())

    def gone(_: str) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(screen, "write", gone)
    progress.begin(PASS_1)
    progress.begin(PASS_2)
    assert screen.getvalue() == ""
