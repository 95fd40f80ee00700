"""`kb plan` as it is installed: its counts are those of a run."""

import json
from pathlib import Path

import pytest
from python_copies import kb

SIZES = ["-p", "M=200", "-p", "N=136", "-p", "K=264", "-p", "dtype=bf16"]


@pytest.mark.parametrize("tile", ["64x32x128", "96x40x56"])
def test_a_plan_counts_what_a_run_does(tmp_path: Path, tile: str) -> None:
    done = kb(tmp_path, "plan", "gemm", *SIZES, "--tile", tile, "--topology", "one_pe", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    plan = json.loads(done.stdout)
    done = kb(tmp_path, "run", "gemm", *SIZES, "-p", f"tile={tile}", "--topology", "one_pe", "--no-verify", "--json")
    assert done.returncode == 0
    run = json.loads(done.stdout)
    assert run["tile_stages"] == sum(plan["stages"].values())
    assert run["flops"] == 2 * plan["macs"]
    assert (run["bytes"]["hbm"]["read"], run["bytes"]["hbm"]["write"]) == (
        plan["bytes"]["DMA_READ"],
        plan["bytes"]["DMA_WRITE"],
    )
    assert run["bytes"]["reg"]["write"] == plan["bytes"]["FETCH"]


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    done = kb(tmp_path, "plan", "gemm", "-p", "M=512,N=512")
    assert (done.returncode, done.stdout, done.stderr) == (
        2,
        "",
        "error: -p: got 'M=512,N=512', needs one KEY=VALUE, without comma or space; write it like -p M=512 -p N=512\n",
    )
