"""Two runs of workloads compared op by op: changes add up, missing ops are named, and so is what changed most."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chain_workload import CHAIN, run_chain
from click.testing import Result

Invoke = Callable[..., Result]


def compared(invoke: Invoke, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    done = invoke("compare", before["run_dir"], after["run_dir"], "--json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_changes_of_ops_add_up(invoke: Invoke, tmp_path: Path) -> None:
    before, after = (run_chain(invoke, tmp_path, "-p", f"context={n}", "--no-verify") for n in (16, 48))
    found = compared(invoke, before, after)
    for at, run in enumerate((before, after)):
        assert [op["latency_ps"][at] for op in found["ops"]] == [op["latency_ps"] for op in run["workload_ops"]]
        assert found["model"]["total_ps"][at] == run["model"]["total_ps"]
    assert sum(op["latency_ps"][1] - op["latency_ps"][0] for op in found["ops"]) == found["change_ps"]
    scale = found["ops"][0]
    assert [len(each) for each in scale["launches_ps"]] == scale["launches"] == [2, 2]
    assert [sum(each) for each in scale["launches_ps"]] == scale["latency_ps"]
    said = invoke("compare", before["run_dir"], after["run_dir"]).stdout
    assert "the model " in said
    assert "tokens/s -> " in said
    (line,) = (line for line in said.splitlines() if line.startswith("layer.scale"))
    assert "hbm +" in line or "links +" in line


def test_ops_that_one_model_lacks_are_named(invoke: Invoke, tmp_path: Path) -> None:
    before = run_chain(invoke, tmp_path, "--no-verify")
    other = tmp_path / "other.py"
    other.write_text(CHAIN.replace("class Chain", "class Other").replace('name="head"', 'name="top"'))
    done = invoke("run", other, "--topology", "one_pe", "--out", tmp_path / "runs", "--no-verify", "--json")
    after = json.loads(done.stdout)
    found = compared(invoke, before, after)
    assert [op["name"] for op in found["ops"]] == ["layer.scale", "layer.product", "top", "head"]
    assert found["ops"][2]["latency_ps"][0] is None
    assert found["ops"][3]["repeats"] == [1, None]
    assert found["sentences"][:2] == ["The run before has no op top.", "The run after has no op head."]
    said = invoke("compare", before["run_dir"], after["run_dir"]).stdout
    words = {line.split()[0]: line for line in said.splitlines() if line and line.split()[0] in ("top", "head")}
    assert " new " in words["top"]
    assert " gone " in words["head"]


def test_other_benchmarks_still_need_to_be_the_same(
    invoke: Invoke, bench_file: Callable[..., Path], tmp_path: Path
) -> None:
    before = run_chain(invoke, tmp_path, "--no-verify")
    invoke("run", bench_file(), "--topology", "one_pe", "--out", tmp_path / "small", "--levers", 0)
    done = invoke("compare", before["run_dir"], next((tmp_path / "small").iterdir()))
    assert done.exit_code == 2
    assert "got chain and small, needs runs of one benchmark" in done.stderr
