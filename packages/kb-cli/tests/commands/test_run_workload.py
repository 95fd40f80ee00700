"""`kb run` of workloads: options that set parameters, `--list`, and sentences where the benchmark is no workload."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from chain_workload import write_chain
from click.testing import Result

Invoke = Callable[..., Result]


def test_options_set_parameters(invoke: Invoke, tmp_path: Path) -> None:
    chain = write_chain(tmp_path)
    done = invoke("run", "--workload", chain, "--topology", "one_pe", "--context", 24, "--phase", "prefill",
                  "--layers", 3, "--json")  # fmt: skip
    assert done.exit_code == 0, done.output
    params = json.loads(done.stdout)["params"]
    assert params == {"context": 24, "dtype": "f32", "layers": 3, "phase": "prefill", "wrong": False}


def test_ops_are_listed_and_nothing_runs(invoke: Invoke, tmp_path: Path) -> None:
    chain = write_chain(tmp_path)
    done = invoke("run", chain, "--topology", "one_pe", "--list")
    assert done.exit_code == 0, done.output
    lines = [" ".join(line.split()) for line in done.stdout.splitlines() if line and "─" not in line]
    assert lines == [
        "chain on one_pe",
        "op kind result layout FLOPs bytes in the model",
        "layer.product linear 16x16 f32 whole 8.192 kFLOP 3.072 kB 4 x",
        "the run: 1 op, 8.192 kFLOP, 3.072 kB",
        "the model: 4 ops, 32.77 kFLOP, 12.29 kB",
    ]
    assert not Path("kb-runs").exists()
    found = json.loads(invoke("run", chain, "--topology", "one_pe", "--list", "--json").stdout)
    assert found == [
        {
            "name": "layer.product", "kind": "linear", "flops": 8192, "nbytes": 3072, "repeats": 4, "reads": [],
            "writes": [{"name": "product", "shape": [16, 16], "dtype": "f32", "layout": "whole"}],
        }
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("gemm", "--batch", 8), "--batch: got the benchmark gemm, needs a workload, such as a model that kb list nam"),
        (("gemm", "--list"), "--list: got the benchmark gemm, needs a workload, such as a model that kb list names"),
        (("--workload", "gemm"), "--workload: got the benchmark gemm, needs a workload, such as a model that kb list"),
        (("CHAIN", "--batch", 8), "--batch: got chain, which has no such parameter, needs one of context, layers, "),
        (("CHAIN", "--context", 8, "-p", "context=9"), "--context 8: got -p context=9 too, needs one of the two"),
        (("CHAIN", "--phase", "train"), "-p phase: got 'train', needs one of decode, prefill, pass"),
        (("CHAIN", "--workload", "CHAIN"), "kb run: got BENCH "),
        (("--json",), "kb run: got neither, needs BENCH or --workload; kb list names benchmarks and models"),
        (("CHAIN", "--list", "--shapes", "SHAPES"), "--list: got the many runs of --shapes, needs one run; leave out"),
    ],
)  # fmt: skip
def test_a_wrong_use_gets_a_sentence(invoke: Invoke, tmp_path: Path, arguments: tuple[object, ...], text: str) -> None:
    (tmp_path / "shapes.csv").write_text("context\n8\n")
    named = {"CHAIN": write_chain(tmp_path), "SHAPES": tmp_path / "shapes.csv"}
    done = invoke("run", *(named.get(each, each) for each in arguments))  # type: ignore[call-overload]
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: {text}")


def test_an_option_holds_for_every_row_of_a_file(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "shapes.csv").write_text("context\n8\n24\n")
    done = invoke("run", write_chain(tmp_path), "--topology", "one_pe", "--layers", 2, "--shapes",
                  tmp_path / "shapes.csv", "--json")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert [(row["params"]["context"], row["params"]["layers"]) for row in json.loads(done.stdout)] == [(8, 2), (24, 2)]


def test_models_of_other_packages_are_named(invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = write_chain(tmp_path)

    def find(text: str) -> tuple[Path, bytes] | None:
        return (Path("/no/folder/chain_of_ops.py"), chain.read_bytes()) if text == "chain_of_ops" else None

    find.names = lambda: ["chain_of_ops"]  # type: ignore[attr-defined]
    point = SimpleNamespace(name="chains", load=lambda: find)
    monkeypatch.setattr(sys.modules["kb_cli.benchmark.workloads"], "entry_points", lambda group: [point])
    found = json.loads(invoke("list", "--json").stdout)["models"]
    described = "A chain of three ops: the layer stands `layers` times in the model, the head once."
    assert found == [{"name": "chain_of_ops", "description": described, "pes": None}]
    assert "chain_of_ops   A chain of three ops" in invoke("list").stdout
    assert invoke("run", "chain_of_ops", "--topology", "one_pe", "--list").exit_code == 0
    refused = invoke("run", "chain_of_op")
    assert (refused.exit_code, "did you mean 'chain_of_ops'?" in refused.stderr) == (2, True)


def test_no_table_of_models_without_models(invoke: Invoke) -> None:
    assert json.loads(invoke("list", "--json").stdout)["models"] == []
    assert not [line for line in invoke("list").stdout.splitlines() if line.startswith("model ")]
