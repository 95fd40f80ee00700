"""The script that measures pass 2 on logs that mix shapes checks their outputs, and says how many records a second."""

import json
from typing import Any

import pytest
from speed_scripts import speed_script

mixed_log = speed_script("mixed_log")
SMALL = {
    "ragged_softmax": {"rows": 9},
    "layer_norm": {"rows": 9, "width": 40, "block": 1},
    "attention": {"tokens": 40, "heads": 2, "head_dim": 8, "block": 16, "block_k": 16},
    "mixture_of_experts": {"tokens": 5, "width": 48, "hidden": 40, "block_m": 2, "block_n": 32, "block_k": 32},
    "split_k_gemm": {"M": 5, "N": 40, "K": 300, "splits": 3, "block_n": 32, "block_k": 64},
    "embedding": {"tokens": 40, "width": 8, "block": 3},
    "cross_entropy": {"tokens": 5, "vocabulary": 100, "block": 2, "words": 32},
}


def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    monkeypatch.setattr("sys.argv", ["mixed_log.py", "--quick", *options])
    mixed_log.main()
    return capsys.readouterr().out


def test_every_log_is_measured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert set(SMALL) == set(mixed_log.CASES)
    monkeypatch.setattr(mixed_log, "CASES", {case: (params, params) for case, params in SMALL.items()})
    rows = json.loads(printed(monkeypatch, capsys, "--json"))["rows"]
    assert [row["case"] for row in rows] == list(SMALL)
    # A row of the softmax: two loads, FETCH, a cast, max, sub, exp, sum, div, a cast, STORE and DMA_WRITE.
    assert rows[0]["records"] == 9 * 12
    assert all(row["fused_k"] > 0 < row["tile_k"] for row in rows)


def test_a_wrong_result_is_not_measured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(mixed_log, "CASES", {"layer_norm": (SMALL["layer_norm"],) * 2})
    values: Any = mixed_log.values
    modes = iter((1.0, 1.01))
    monkeypatch.setattr(mixed_log, "values", lambda *where: next(modes) * values(*where))
    with pytest.raises(SystemExit, match="layer_norm: the modes differ by"):
        printed(monkeypatch, capsys)
