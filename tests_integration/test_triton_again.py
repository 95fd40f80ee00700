"""The script that measures launches that repeat others checks their results, and that they are repeated."""

import json
from typing import Any

import numpy as np
import pytest
from speed_scripts import speed_script

import kb_triton as triton
import kb_triton.language as tl
from kb_triton import uninstall

triton_again = speed_script("triton_again")


def test_the_script_prints_a_row_for_each_kernel(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["triton_again.py", "--quick", "--json"])
    monkeypatch.setattr("sys.path", list(triton_again.sys.path))
    try:
        triton_again.main()
    finally:
        uninstall()
    rows = {row["kernel"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["row softmax"]["records"] == 64 * 9
    assert all(row["repeated_ms"] < row["simulated_ms"] for row in rows.values())


@triton.jit
def says_kernel(x_ptr: Any) -> None:
    tl.device_print("here")
    tl.store(x_ptr, 1.0)


def test_launches_that_are_not_repeated_are_not_measured() -> None:
    x = np.zeros(1, np.float32)

    def launch() -> object:
        says_kernel[(1,)](x)
        return x

    with pytest.raises(AssertionError, match="says: 0 of 5 launches were repeated"):
        triton_again.measured("says", launch, "one_pe")
