"""The script that measures Triton kernels checks their numbers, and counts what it ran."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from speed_scripts import speed_script

triton_kernels = speed_script("triton_kernels")


def test_the_script_prints_a_row_for_each_kernel(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["triton_kernels.py", "--quick", "--json"])
    triton_kernels.main()
    softmax, product = json.loads(capsys.readouterr().out)
    assert (softmax["kernel"], softmax["programs"], softmax["records"] % 256) == ("softmax", 256, 0)
    assert (product["kernel"], product["programs"]) == ("product", 4)
    assert 0 < product["native_us"] < product["latency_us"]


def test_sizes_that_do_not_divide_are_right() -> None:
    assert triton_kernels.softmax(37).programs == 37
    assert triton_kernels.product(150, "scoreboard").programs == 4


def test_wrong_numbers_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_kernels.np, "exp", lambda x: np.square(x))
    with pytest.raises(AssertionError):
        triton_kernels.softmax(16)


def test_two_checkouts_are_compared_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here both are this one, which skips no program of so small a product."""
    ran = list[list[str]]()

    def run(command: list[str], **_: object) -> SimpleNamespace:
        ran.append(command)
        return SimpleNamespace(stdout=json.dumps(triton_kernels.simulated(int(command[3]), command[5])))

    monkeypatch.setattr(triton_kernels.subprocess, "run", run)
    found = triton_kernels.against(Path("/other"), 128, "scoreboard", 1).splitlines()
    assert [line[:16].strip() for line in found] == ["product", "no log", "log on disk", "reading it", "log in memory"]
    assert [command[0] == "/other/.venv/bin/python" for command in ran] == [True, False]


def test_checkouts_that_end_at_other_times_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = iter((1, 2))

    def run(*_: object, **__: object) -> SimpleNamespace:
        return SimpleNamespace(stdout=json.dumps({"seconds": {}, "came_to": [[next(ends), ""]]}))

    monkeypatch.setattr(triton_kernels.subprocess, "run", run)
    with pytest.raises(SystemExit, match="the checkouts differ"):
        triton_kernels.against(Path("/other"), 128, "blocking", 1)
