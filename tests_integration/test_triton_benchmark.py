"""The script that measures Triton kernels checks their numbers, and counts what it ran."""

import json

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
