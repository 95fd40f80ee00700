"""A kernel under `kernbench.run` and its Triton twin under `kb exec` have the same PEs and issue by default."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import kernbench as kb
from kb_cli.main import kb as command

ROWS, COLS = 256, 64
SCRIPT = f"""
import numpy as np
import triton
import triton.language as tl


@triton.jit
def double(x, y, COLS: tl.constexpr):
    at = tl.program_id(0) * COLS + tl.arange(0, COLS)
    tl.store(y + at, tl.load(x + at) * 2)


x = np.ones(({ROWS}, {COLS}), np.float32)
double[({ROWS},)](x, np.empty_like(x), {COLS})
"""


def double(tl: Any, x: Any, y: Any) -> None:
    at = tl.program_id()
    tl.store(y[at : at + 1, :], tl.load(x[at : at + 1, :]) * 2)


def flat(name: str) -> str:
    """The file of the chip *name*, which interleaves nothing."""
    return kb.chip(name).source.text.replace("hbm_interleave_nbytes: 256", "hbm_interleave_nbytes: 0")


def both(chip: str) -> list[dict[str, Any]]:
    """The results of `kernbench.run` and of `kb exec`, as `--json` prints them."""
    x = np.ones((ROWS, COLS), np.float32)
    run = kb.run(double, x, kb.empty(x.shape, "f32"), grid=ROWS, chip=chip, folder="kb-runs")
    assert run.folder is not None
    first = json.loads((run.folder / "run.json").read_text())["results"]
    Path("double.py").write_text(SCRIPT)
    done = CliRunner().invoke(command, ["exec", "--json", "--topology", chip, "double.py"])
    assert done.exit_code == 0, done.output
    return [first, json.loads(done.stdout)["launches"][0]]


@pytest.mark.parametrize(("chip", "used", "pes"), [("one_cube", 8, 8), ("one_sip", 128, 128), ("four_sip", 128, 512)])
def test_both_work_on_all_pes_of_a_sip(
    chip: str, used: int, pes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for found in both(chip):
        frame = {"pes_used": used, "pes": pes, "issue": "blocking", "replicas": {}, "replica_nbytes": 0}
        assert found["frame"] == frame
        assert found["launches"][0]["grid"] == [ROWS, 1, 1]


def test_both_work_on_all_pes_where_tensors_lie_whole_in_a_slice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("flat.yaml").write_text(flat("one_sip"))
    assert [found["frame"]["pes_used"] for found in both("flat.yaml")] == [128, 128]


def test_a_stream_uses_the_slices_of_all_cubes() -> None:
    """Each of 128 PEs reads and writes 16 rows of 1 KiB: pages of 4 KiB, spread over 16 times the slices of a cube."""
    x = np.ones((2048, 256), np.float32)
    times = [
        kb.run(blocks, x, kb.empty(x.shape, "f32"), chip=chip, compute=False).latency_ps
        for chip in ("one_cube", "one_sip")
    ]
    assert times[1] < times[0] / 4


def blocks(tl: Any, x: Any, y: Any) -> None:
    for at in range(16 * tl.program_id(), x.shape[0], 16 * tl.num_programs()):
        tl.store(y[at : at + 16, :], tl.load(x[at : at + 16, :]) * 2)
