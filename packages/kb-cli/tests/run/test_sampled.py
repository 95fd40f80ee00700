"""Runs whose outputs are checked by sample: what they report, what they store, and what they refuse."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

import kernbench
from kb_cli.benchmark import sampled
from kb_cli.run.records.manifest_check import claims
from kb_cli.run.records.run_json import write_run
from kb_dataexec.backends import NumpyBackend
from kb_dataexec.verify import product_sample
from kb_messages import BenchmarkError

Invoke = Callable[..., Result]
Write = Callable[..., Path]
SMALL = ["-p", "M=70", "-p", "N=24", "-p", "K=72", "-p", "tile=16x16x32", "--topology", "one_pe"]
TEXT = "by sample: 64 rows in full, and 8 random sums of each row and 24 columns, "
TEXT += "which miss an error 40 times the allowed one with probability 1.3e-08"


def result(invoke: Invoke, *options: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(invoke("run", "gemm", *SMALL, *options, "--json").stdout)
    return found


def test_the_report_and_the_folder_say_that_it_was_a_sample(invoke: Invoke) -> None:
    found = result(invoke, "--verify", "sample")
    (check,) = found["outputs"]
    assert check["text"].startswith(f"c: ok, {64 * 24} elements, largest error ")
    assert check["text"].endswith(f"; {TEXT}")
    assert (check["sample"]["rows"], check["sample"]["weights"], check["sample"]["miss_factor"]) == (64, 8, 40)
    folder = Path(found["run_dir"])
    stored = json.loads((folder / "run.json").read_text())
    assert stored["flags"] == {"verify": True, "log": True, "check": "sample"}
    assert stored["results"]["outputs"] == found["outputs"]
    assert sorted(file.name for file in (folder / "expected").iterdir()) == [
        "000000.a.npy",
        "000000.b.npy",
        "index.json",
    ]
    done = invoke("verify", folder)
    assert done.exit_code == 0
    assert TEXT in done.stdout


def test_auto_samples_above_its_limit_alone(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    flops = 2 * 70 * 24 * 72
    monkeypatch.setattr(sampled, "SAMPLED_ABOVE", flops)
    assert "sample" not in result(invoke)["outputs"][0]
    monkeypatch.setattr(sampled, "SAMPLED_ABOVE", flops - 1)
    found = result(invoke)
    assert "sample" in found["outputs"][0]
    assert "check" not in json.loads((Path(found["run_dir"]) / "run.json").read_text())["flags"]
    assert "sample" in result(invoke, "--verify", "auto")["outputs"][0]
    assert "sample" not in result(invoke, "--verify", "full")["outputs"][0]
    fp8 = result(invoke, "-p", "dtype=f8e4m3")["outputs"][0]
    assert ("sample" in fp8, fp8["n_elements"]) == (False, 70 * 24)


@pytest.mark.parametrize("rows", [1, 64])
def test_a_wrong_result_fails(invoke: Invoke, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    plain = NumpyBackend.matmul
    monkeypatch.setattr(NumpyBackend, "matmul", lambda self, a, b: 1.01 * plain(self, a, b))
    monkeypatch.setattr(product_sample, "ROWS", rows)
    done = invoke("run", "gemm", *SMALL, "--verify", "sample")
    assert done.exit_code == 1
    assert "FAILED" in done.stdout
    assert "that is the tolerance of a product; by sample: " in " ".join(done.stdout.split())


def test_shapes_say_it_too(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "shapes.csv").write_text("M,N,K\n8,8,8\n")
    done = invoke("run", "gemm", "--shapes", "shapes.csv", "--topology", "one_pe", "--verify", "sample")
    assert "ok, by sample" in done.stdout
    assert "ok, by sample" in invoke("runs").stdout


def test_the_list_and_the_page_of_a_run_say_it_too(invoke: Invoke) -> None:
    folder = result(invoke, "--verify", "sample")["run_dir"]
    assert [run["by_sample"] for run in json.loads(invoke("runs", "--json").stdout)] == [True]
    assert "ok, by sample" in invoke("runs").stdout
    assert invoke("report", folder, "-o", "page.html").exit_code == 0
    assert "<dd>ok, by sample</dd>" in Path("page.html").read_text()


def test_a_stored_factor_that_changed_is_not_verified(invoke: Invoke) -> None:
    folder = Path(result(invoke, "--verify", "sample")["run_dir"])
    path = folder / "expected" / "000000.b.npy"
    right = np.load(path)

    def verdict(b: np.ndarray) -> tuple[int, str]:
        np.save(path, b)
        write_run(folder, {**json.loads((folder / "run.json").read_text()), "files": claims(folder)})
        done = invoke("verify", folder)
        return done.exit_code, done.stdout

    assert verdict(right)[0] == 0
    assert verdict(np.roll(right, 2))[0] == 1
    code, text = verdict(right[:-2])
    assert (code, "000000.b.npy: got 3454 bytes, needs the bytes of f16 (72, 24)" in text) == (1, True)
    nan = right.copy()
    nan[:2] = np.float16([np.nan]).view(np.uint8)
    code, text = verdict(nan)
    assert (code, "got factors with NaN or infinities, needs a product that can be sampled" in text) == (1, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("gemm", *SMALL, "--verify", "sample", "--no-verify"),
         "--verify sample: got --no-verify, which leaves nothing to verify, needs one of the two options"),
        (("gemm", *SMALL, "--verify", "full", "--no-log"),
         "--verify full: got --no-log, which leaves nothing to verify, needs one of the two options"),
        (("gemm", *SMALL, "--verify", "sample", "-p", "dtype=f8e5m2"),
         ("gemm: a check by sample: got an output of f8e5m2, whose roundings hide errors in sums, needs outputs that "
          "are products; check in full")),
        (("softmax", "--verify", "sample"),
         ("softmax: a check by sample: got a benchmark that states no products(), needs outputs that are products; "
          "check in full")),
    ],
)  # fmt: skip
def test_runs_that_cannot_be_sampled_are_refused(invoke: Invoke, options: tuple[str, ...], message: str) -> None:
    done = invoke("run", *options)
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"error: {message}\n")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("[]", "got list, needs a dict of the two factors by output"),
        ("{'c': 1}", "got int for c, needs a tuple of two matrices, A and B"),
        (
            "{'c': (np.ones((2, 3)), np.ones((2, 3)))}",
            "got shapes (2, 3) and (2, 3) for c, needs (M, K) and (K, N)",
        ),
        ("{'other': (np.ones((2, 3)), np.ones((3, 2)))}", "got an output 'other', needs some of ['c']"),
    ],
)
def test_wrong_products_are_refused(invoke: Invoke, bench_file: Write, answer: str, message: str) -> None:
    path = bench_file("    def flops", f"    def products(self, p, inputs):\n        return {answer}\n\n    def flops")
    done = invoke("run", path, "--verify", "sample")
    assert done.exit_code == 2
    assert f"products(): {message}" in done.stderr


def test_python_takes_the_same_words() -> None:
    sizes = {"M": 70, "N": 24, "K": 72}
    found = kernbench.run("gemm", chip="one_pe", verify="sample", **sizes)
    assert found.verified
    assert TEXT in found.result.outputs[0].text
    with pytest.raises(BenchmarkError) as caught:
        kernbench.run("gemm", chip="one_pe", verify="none", **sizes)
    assert str(caught.value) == "verify: got 'none', needs one of auto, full, sample"
