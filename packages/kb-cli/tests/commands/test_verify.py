"""`kb verify` needs the run folder alone, and notices changes in it."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

from kb_cli.run import keep
from kb_cli.run.verify_folder import verify_run
from kb_dataexec.backends import NumpyBackend

Invoke = Callable[..., Result]
SMALL = ["-p", "M=40", "-p", "N=24", "-p", "K=72", "-p", "tile=16x16x32", "--topology", "one_pe"]


@pytest.fixture
def folder(invoke: Invoke, tmp_path: Path) -> Path:
    return tmp_path / json.loads(invoke("run", "gemm", *SMALL, "--json").stdout)["run_dir"]


def test_an_untouched_folder_verifies(invoke: Invoke, folder: Path) -> None:
    done = invoke("verify", folder)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{folder}: ok\n  c: ok, 960 elements, largest error ")
    found = json.loads(invoke("verify", folder, "--json").stdout)
    assert (found["verified"], found["benchmark"], found["refusal"]) == (True, "gemm", None)
    assert found["log_digest"] == json.loads((folder / "run.json").read_text())["log_digest"]


def test_the_benchmark_and_the_topology_are_not_needed(invoke: Invoke, folder: Path) -> None:
    (folder / "bench.py").unlink()
    (folder / "topology.yaml").unlink()
    assert invoke("verify", folder).exit_code == 0


@pytest.mark.parametrize("name", ["expected/000000.npy", "expected/000000.allowed.npy", "memory/000000.npy"])
def test_a_changed_file_fails(invoke: Invoke, folder: Path, name: str) -> None:
    array = np.load(folder / name)
    array.flat[0] += 1
    np.save(folder / name, array)
    done = invoke("verify", folder)
    assert done.exit_code == 1
    assert done.stdout == (
        f"{folder}: FAILED\n  {folder / name}: got other bytes than the run wrote, needs those of run.json\n"
    )


def test_a_changed_expectation_fails_by_its_numbers(invoke: Invoke, folder: Path) -> None:
    reference = np.load(folder / "expected/000000.npy")
    reference[3, 5] += 1
    np.save(folder / "expected/000000.npy", reference)
    run = json.loads((folder / "run.json").read_text())
    del run["files"]["expected/000000.npy"]
    (folder / "run.json").write_text(json.dumps(run))
    done = invoke("verify", folder, "--json")
    assert done.exit_code == 1
    text = json.loads(done.stdout)["outputs"][0]["text"]
    assert text.startswith("c: 1 of 960 elements wrong; at [3, 5] got ")
    # Element [3, 5] is in the first output tile; its line is that of the composite.
    assert re.search(
        r"; written by op \d+ \(dma_write, sip0.cube0.pe0.pe_dma, gemm.py:\d+\), computed by op \d+ \(gemm, "
        r"sip0.cube0.pe0.pe_gemm, gemm.py:\d+\)$",
        text,
    )


def test_debug_verifies_a_right_run_and_shows_the_first_op_that_computes_wrongly(
    invoke: Invoke, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert invoke("verify", folder, "--debug").stdout == invoke("verify", folder).stdout
    right = NumpyBackend.matmul
    monkeypatch.setattr(NumpyBackend, "matmul", lambda self, a, b: right(self, a, b) + np.float32(0.001))
    done = invoke("verify", folder, "--debug")
    assert done.exit_code == 1
    assert re.match(
        rf"{folder}: FAILED\n  op \d+ \(gemm, sip0.cube0.pe0.pe_gemm, gemm.py:\d+\): got a wrong result \(OUT 16 x 16 "
        r"f32: 256 of 256 elements wrong; at \[",
        done.stdout,
    )


def test_a_missing_file_and_a_torn_log_fail(invoke: Invoke, folder: Path) -> None:
    (folder / "log" / "immediates.bin").write_bytes(b"x")
    assert "the log was changed or is damaged" in str(verify_run(folder).refusal)
    (folder / "memory" / "000000.npy").unlink()
    assert invoke("verify", folder).exit_code == 1


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--keep", "none"], ("got no data (--keep none), needs memory, expected outputs and log; "
                             "run again with --keep all")),
        (["--no-log"], ("got no data (--no-log), needs memory, expected outputs and log; "
                       "run again with --keep all and without --no-log")),
        (["--no-verify"], "got no expected outputs (--no-verify), needs them; run again without --no-verify"),
    ],
)  # fmt: skip
def test_a_folder_without_data_is_refused(invoke: Invoke, option: list[str], message: str) -> None:
    run_dir = json.loads(invoke("run", "gemm", *SMALL, "--json", *option).stdout)["run_dir"]
    done = invoke("verify", run_dir)
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"error: {run_dir}: {message}\n")


def test_every_shape_is_verified(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "shapes.csv").write_text("M,N,K\n8,8,8\n1,9,7\n")
    done = invoke("run", "gemm", "--shapes", "shapes.csv", "--topology", "one_pe", "--json")
    folder = Path(json.loads(done.stdout)[0]["run_dir"]).parent
    found = json.loads(invoke("verify", folder, "--json").stdout)
    assert [row["verified"] for row in found] == [True, True]
    (folder / "0001" / "memory" / "000000.npy").write_bytes(b"")
    done = invoke("verify", folder)
    assert done.exit_code == 1
    assert f"{folder}/0000: ok" in done.stdout
    assert f"{folder}/0001: FAILED" in done.stdout


def test_shapes_without_data_are_told_apart(invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shapes.csv").write_text("M,N,K\n8,8,8\n64,64,64\n")
    monkeypatch.setattr(keep, "RUN_LIMIT", 30_000)
    done = invoke("run", "gemm", "--shapes", "shapes.csv", "--topology", "one_pe", "--json")
    folder = Path(json.loads(done.stdout)[0]["run_dir"]).parent
    done = invoke("verify", folder)
    assert done.exit_code == 2
    assert f"{folder}/0000: ok\n" in done.stdout
    assert f"{folder}/0001: not verified\n" in done.stdout
    found = json.loads(invoke("verify", folder, "--json").stdout)
    assert [row["verified"] for row in found] == [True, None]


def test_what_is_no_run_is_bad_input(invoke: Invoke, tmp_path: Path) -> None:
    done = invoke("verify", tmp_path)
    assert (done.exit_code, done.stdout) == (2, "")
