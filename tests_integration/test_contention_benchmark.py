"""The script that measures what contention costs counts stages, events and calls, and says what takes too long."""

import json
from pathlib import Path
from typing import Any

import pytest
from speed_scripts import speed_script

contention = speed_script("contention")


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the script on one small chip; gives the exit code and what it printed."""

    def run(*options: str) -> tuple[int, str, str]:
        monkeypatch.setattr(contention, "CASES", (("one_cube", "replicated"), ("one_cube", "one_slice")))
        monkeypatch.setattr("sys.argv", ["contention.py", "--quick", *options])
        code = contention.main()
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_shared_operands_cost_events(main: Any) -> None:
    code, printed, _ = main("--json")
    local, shared = json.loads(printed)["rows"]
    assert code == 0
    # 128 x 256 of C in tiles of 32 x 32 are 32 tiles. K is one tile: two reads, FETCH, GEMM, STORE and a write each.
    assert local["stages"] == shared["stages"] == 32 * 6
    assert shared["latency_ps"] > local["latency_ps"]
    assert 0 <= local["calls_a_stage"] < shared["calls_a_stage"]
    assert 1 <= local["events_a_stage"] < shared["events_a_stage"]
    for row in (local, shared):
        assert row["ns_a_stage"] == pytest.approx(row["cpu_s"] / row["stages"] * 1e9)


def test_a_run_past_the_limit_says_so(main: Any) -> None:
    code, printed, said = main("--limit", "0.01")
    assert code == 0
    assert printed.count("more than 0.01 s; raise --limit to wait for it\n") >= 1
    assert said.count("more than 0.01 s") == 2


def test_a_checkout_without_packages_is_refused(main: Any, tmp_path: Path) -> None:
    code, _, said = main("--against", str(tmp_path))
    assert code == 2
    assert said == (
        f"--against {tmp_path}: got no .venv/bin/python, needs a checkout with its packages in .venv; "
        "make it with `uv sync` there\n"
    )
