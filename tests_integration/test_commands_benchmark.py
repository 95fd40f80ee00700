"""The script that measures what a command costs counts commands, records and calls."""

import json
from pathlib import Path

import pytest
from speed_scripts import speed_script

commands = speed_script("commands")


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs in this process, of few commands."""
    monkeypatch.setattr(commands, "in_process", commands.measure)
    monkeypatch.setattr(commands, "COUNTED", (128, 64))


@pytest.mark.usefixtures("at_once")
def test_the_quick_form_counts_what_commands_and_stages_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["commands.py", "--quick", "--json"])
    assert commands.main() == 0
    rows = {row["kind"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert list(rows) == [commands.STAGE, *commands.KERNELS, commands.SOFTMAX]
    # A transfer is one stage; a vector program has FETCH, a MATH for each op, STORE; a product FETCH, GEMM, STORE.
    assert [row["records"] for row in rows.values()][:6] == [1, 1, 1, 3, 9, 3]
    # 16 blocks of four rows: a load, a vector program of seven ops, and a store.
    assert rows[commands.SOFTMAX]["records"] == 16 * (1 + 9 + 1)
    for row in rows.values():
        assert row["stages"] == pytest.approx(row["cpu_us"] / rows[commands.STAGE]["cpu_us"])
        assert row["calls"] > 10


def test_two_counts_of_one_kind_are_equal() -> None:
    session = commands.Session(commands.CHECKOUT)
    commands.ran(session.loop("store", 16))
    first, second = (commands.ran(session.loop("store", 16), count=True) for _ in range(2))
    assert first[1:] == second[1:]
    assert first.calls > 0


def test_a_checkout_without_packages_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.argv", ["commands.py", "--against", str(tmp_path)])
    assert commands.main() == 2
    assert capsys.readouterr().err == (
        f"--against {tmp_path}: got no .venv/bin/python, needs a checkout with its packages in .venv; "
        "make it with `uv sync` there\n"
    )
