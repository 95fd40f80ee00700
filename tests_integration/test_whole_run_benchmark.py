"""The script that measures whole runs says what each part of a run costs, and refuses to measure a wrong one."""

import pytest
from speed_scripts import speed_script

from kb_dataexec.backends import NumpyBackend

whole_run = speed_script("whole_run")
SMALL = whole_run.Case("one_cube", 64, 96, 32, 4.0, 1.5)


def test_the_parts_of_a_run_add_up_to_the_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(whole_run, "QUICK", [SMALL])
    monkeypatch.setattr("sys.argv", ["whole_run.py", "--quick"])
    whole_run.main()
    head, *rows, whole, data = capsys.readouterr().out.splitlines()
    assert head.startswith("one_cube, 64 x 96 x 32: plain float32 product ")
    seconds = {row[:46].strip(): float(row[46:].split()[0]) for row in rows}
    assert {whole_run.EXECUTING, "set-up: inputs()", "pass 1 (time): the ops"} < seconds.keys()
    assert float(whole[46:].split()[0]) == pytest.approx(sum(seconds.values()), abs=0.005 * (len(seconds) + 1))
    assert whole.endswith(", aim 4")
    assert data.startswith("  pass 2 alone")
    assert ", aim 1.5; peak of the process " in data


def test_a_part_has_the_seconds_until_the_next_one_begins() -> None:
    clock = iter([0.0, 1.0, 3.0, 6.0, 6.0, 10.0])
    times = whole_run.PartTimes(lambda: next(clock))
    times.begin("set-up", "inputs()")
    times.begin("pass 2 (data)")
    times.mention("set-up", "inputs()")
    times.close()
    assert times.parts == {"set-up: inputs()": 2.0 + 4.0, "pass 2 (data): the ops": 3.0}


def test_a_wrong_result_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = NumpyBackend.matmul
    monkeypatch.setattr(NumpyBackend, "matmul", lambda self, a, b: 1.1 * plain(self, a, b))
    with pytest.raises(SystemExit, match="the result is wrong"):
        whole_run.parts_of(SMALL, "full")
