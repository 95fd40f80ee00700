"""`kb verify` needs the run folder alone, and notices changes in it."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

from kb_cli.run.records.manifest_check import claims
from kb_cli.run.records.run_json import write_run
from kb_cli.run.saving import keep
from kb_cli.run.simulation.verify_folder import verify_run
from kb_dataexec.backends import NumpyBackend

Invoke = Callable[..., Result]
SMALL = ["-p", "M=40", "-p", "N=24", "-p", "K=72", "-p", "tile=16x16x32", "--topology", "one_pe"]


@pytest.fixture
def folder(invoke: Invoke, tmp_path: Path) -> Path:
    return tmp_path / json.loads(invoke("run", "gemm", *SMALL, "--json").stdout)["run_dir"]


def reseal(folder: Path, **changed: object) -> None:
    """Let run.json claim the files that are there now: what a determined forger would do."""
    write_run(folder, {**json.loads((folder / "run.json").read_text()), "files": claims(folder), **changed})


def test_an_untouched_folder_verifies(invoke: Invoke, folder: Path) -> None:
    done = invoke("verify", folder)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{folder}: ok\n  c: ok, 960 elements, largest error ")
    found = json.loads(invoke("verify", folder, "--json").stdout)
    assert (found["verified"], found["benchmark"], found["refusal"]) == (True, "gemm", None)
    assert found["log_digest"] == json.loads((folder / "run.json").read_text())["log_digest"]


@pytest.mark.parametrize(
    "name", ["bench.py", "topology.yaml", "memory/index.json", "expected/index.json", "log/strings.jsonl"]
)
@pytest.mark.parametrize("damage", ["a byte more", "nothing", "a link", "a pipe", "a folder"])
def test_no_file_can_be_damaged_unseen(invoke: Invoke, folder: Path, tmp_path: Path, name: str, damage: str) -> None:
    path, content = folder / name, (folder / name).read_bytes()
    path.unlink()
    if damage == "a byte more":
        path.write_bytes(content + b" ")
    elif damage == "a link":
        (tmp_path / "same").write_bytes(content)
        path.symlink_to(tmp_path / "same")
    elif damage == "a pipe":
        os.mkfifo(path)
    elif damage == "a folder":
        path.mkdir()
    done = invoke("verify", folder)
    assert (done.exit_code, done.stderr) == (1, "")
    assert done.stdout.startswith(f"{folder}: FAILED\n  {path}: got ")
    assert done.stdout.splitlines()[2:] == ["FAILED: nothing was compared"]


@pytest.mark.parametrize("name", ["run.json", "wall.json"])
def test_links_and_pipes_are_never_followed(invoke: Invoke, folder: Path, name: str) -> None:
    (folder / name).rename(folder.parent / "away")
    (folder / name).symlink_to(folder.parent / "away")
    done = invoke("verify", folder)
    assert done.exit_code == (2 if name == "run.json" else 1)
    assert f"{folder / name}: got a link" in done.output


def test_forged_results_are_seen(invoke: Invoke, folder: Path) -> None:
    run = json.loads((folder / "run.json").read_text())
    run["results"]["latency_ps"] -= 1
    (folder / "run.json").write_text(json.dumps(run))
    done = invoke("verify", folder)
    assert done.exit_code == 1
    assert "run.json: got other content than the run wrote, needs that of the hash at its end" in done.stdout


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("benchmark", None), ("benchmark", {"name": 5}), ("files", []), ("files", {"bench.py": "x"}), ("results", {}),
        ("keep", {"policy": "some", "data": True, "nbytes": 0}), ("rows", 5), ("rows", [{"folder": 5}]), ("seed", "0"),
        ("log_digest", 5), ("flags", {"verify": 1, "log": True}), ("version", 1), ("version", 1 << 70),
        ("format", "\x1b"),
    ],
)  # fmt: skip
def test_a_run_json_of_another_form_is_bad_input(invoke: Invoke, folder: Path, key: str, value: object) -> None:
    reseal(folder, **{key: value})
    done = invoke("verify", folder)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {folder / 'run.json'}: got ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("text", [b"", b"[]", b"5", b"[" * 60_000, b'{"a": "\xff"}', b"9" * 5000, b'{"a": NaN}'])
def test_a_run_json_that_is_no_object_is_bad_input(invoke: Invoke, folder: Path, text: bytes) -> None:
    (folder / "run.json").write_bytes(text)
    done = invoke("verify", folder)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {folder / 'run.json'}: got ")


@pytest.mark.parametrize(
    "edit",
    [
        lambda index: [],
        lambda index: {},
        lambda index: [{**index[0], "reference": "../memory/000000.npy"}],
        lambda index: [{**index[0], "reference": "/etc/passwd"}],
        lambda index: [{**index[0], "allowed": "nowhere.npy"}],
        lambda index: [{**index[0], "name": "other"}],
        lambda index: [*index, *index],
        lambda index: [{key: value for key, value in index[0].items() if key != "tensor"}],
        lambda index: [{**index[0], "tensor": {**index[0]["tensor"], "addresses": []}}],
        lambda index: [{**index[0], "tensor": {**index[0]["tensor"], "addresses": [[-1]]}}],
        lambda index: [{**index[0], "tensor": {**index[0]["tensor"], "row_bounds": [0, 1 << 70]}}],
        lambda index: [{**index[0], "tensor": {**index[0]["tensor"], "shape": [24, 40]}}],
    ],
)
def test_a_forged_index_of_outputs_is_refused(invoke: Invoke, folder: Path, edit: Callable[[Any], Any]) -> None:
    path = folder / "expected" / "index.json"
    path.write_text(json.dumps(edit(json.loads(path.read_text()))))
    reseal(folder)
    done = invoke("verify", folder)
    assert (done.exit_code, done.stderr) == (1, "")
    assert done.stdout.splitlines()[2:] == ["FAILED: nothing was compared"]


def test_addresses_with_32_bits_of_offset_are_read(invoke: Invoke, folder: Path) -> None:
    path = folder / "expected" / "index.json"
    index = json.loads(path.read_text())
    for output in index:
        assert output.pop("offset_bits") == 38
        rows = output["tensor"]["addresses"]
        output["tensor"]["addresses"] = [[each >> 38 << 32 | each & (1 << 38) - 1 for each in row] for row in rows]
    path.write_text(json.dumps(index))
    reseal(folder)
    assert invoke("verify", folder).exit_code == 0
    path.write_text(json.dumps([{**index[0], "offset_bits": 38}]))
    reseal(folder)
    assert invoke("verify", folder).exit_code == 1


@pytest.mark.parametrize("allowed", [np.inf, np.nan, -1.0])
def test_an_allowed_error_that_allows_anything_is_refused(invoke: Invoke, folder: Path, allowed: float) -> None:
    np.save(folder / "expected" / "000000.allowed.npy", np.float64(allowed))
    reseal(folder)
    assert "got an allowed error that is negative or not finite" in invoke("verify", folder).stdout


def test_files_that_the_manifest_does_not_list_are_reported(invoke: Invoke, folder: Path) -> None:
    (folder / "notes.txt").write_text("x")
    done = invoke("verify", folder)
    assert done.exit_code == 0
    assert re.search(r"hashes of \d+ files agree; not covered: wall\.json, notes\.txt\n$", done.stdout)
    assert json.loads(invoke("verify", folder, "--json").stdout)["not_covered"] == ["wall.json", "notes.txt"]
    (folder / "memory" / "more.npy").write_text("x")
    assert "more.npy: got a file of which run.json says nothing" in invoke("verify", folder).stdout


def test_a_claim_that_is_taken_away_is_missed(invoke: Invoke, folder: Path) -> None:
    reseal(folder, files={})
    done = invoke("verify", folder)
    assert done.exit_code == 1
    assert "run.json: got no hash of bench.py, needs one of every file that the run wrote" in done.stdout


def test_a_claim_leads_to_no_file_outside(invoke: Invoke, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("x")
    files = json.loads((folder / "run.json").read_text())["files"]
    reseal(folder, files={**files, "../../outside": {"nbytes": 1, "sha256": "0"}})
    done = invoke("verify", folder)
    assert (done.exit_code, "the file name '../../outside'" in done.stdout) == (1, True)


def test_verifying_runs_no_code_of_the_folder(invoke: Invoke, folder: Path, tmp_path: Path) -> None:
    marker = f"open({str(tmp_path / 'was run')!r}, 'w')"
    (folder / "bench.py").write_text(marker)
    for name in ("numpy.py", "sitecustomize.py", "conftest.py"):
        (folder / name).write_text(marker)
    run = json.loads((folder / "run.json").read_text())
    files = claims(folder)
    reseal(folder, benchmark={**run["benchmark"], "sha256": files["bench.py"].sha256})
    done = subprocess.run(
        [sys.executable, "-c", "from kb_cli.main import main; main()", "verify", str(folder)], check=False
    )
    assert done.returncode == 0
    assert not (tmp_path / "was run").exists()


@pytest.mark.parametrize("name", ["expected/000000.npy", "expected/000000.allowed.npy", "memory/000000.npy"])
def test_a_changed_file_fails(invoke: Invoke, folder: Path, name: str) -> None:
    array = np.load(folder / name)
    array.flat[0] += 1
    np.save(folder / name, array)
    done = invoke("verify", folder)
    assert done.exit_code == 1
    assert done.stdout == (
        f"{folder}: FAILED\n  {folder / name}: got other bytes than the run wrote, "
        "needs the bytes that run.json lists\nFAILED: nothing was compared\n"
    )


def test_a_changed_expectation_fails_by_its_numbers(invoke: Invoke, folder: Path) -> None:
    reference = np.load(folder / "expected/000000.npy")
    reference[3, 5] += 1
    np.save(folder / "expected/000000.npy", reference)
    reseal(folder)
    done = invoke("verify", folder, "--json")
    assert done.exit_code == 1
    text = json.loads(done.stdout)["outputs"][0]["text"]
    assert text.startswith("c: 1 of 960 elements wrong; at [3, 5] got ")
    # Element [3, 5] is in the first output tile; its line is that of the composite.
    assert re.search(
        r"; written by op \d+ \(dma_write, sip0.cube0.pe0.pe_dma, gemm.py:\d+\), computed by op \d+ \(gemm, "
        r"sip0.cube0.pe0.pe_gemm, gemm.py:\d+\); the writer is the program on sip0.cube0.pe0, by its argument c; that "
        r"is the tolerance that the benchmark or the caller states$",
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
        r"f32: 256 of 256 elements wrong \(100 %\), in \[0:16, 0:16\]; at \[",
        done.stdout,
    )


def test_a_missing_file_and_a_torn_log_fail(invoke: Invoke, folder: Path) -> None:
    (folder / "log" / "immediates.bin").write_bytes(b"x")
    reseal(folder)
    assert "the log was changed or is damaged" in str(verify_run(folder).refusal)
    (folder / "memory" / "000000.npy").unlink()
    assert invoke("verify", folder).exit_code == 1


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--keep", "none"], ("got no data (--keep none), needs memory, expected outputs and log; "
                             "run it again with --keep all")),
        (["--no-log"], ("got no data (--no-log), needs memory, expected outputs and log; "
                       "run it again with --keep all and without --no-log")),
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
    assert done.stdout.splitlines()[-1] == "FAILED: 1 of 2 runs"


def test_rows_cannot_be_taken_away_or_exchanged(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "shapes.csv").write_text("M,N,K\n8,8,8\n1,9,7\n")
    done = invoke("run", "gemm", "--shapes", "shapes.csv", "--topology", "one_pe", "--json")
    folder = Path(json.loads(done.stdout)[0]["run_dir"]).parent
    fields = json.loads((folder / "run.json").read_text())
    for rows in ([], [fields["rows"][0], {**fields["rows"][1], "folder": "0000"}]):
        write_run(folder, {**fields, "rows": rows})
        assert invoke("verify", folder).exit_code == 1
    write_run(folder, {**fields, "rows": [{**fields["rows"][0], "folder": "../../x"}]})
    assert "the file name '../../x'" in invoke("verify", folder).stdout
    (folder / "run.json").write_text(json.dumps({**fields, "rows": fields["rows"][:1]}))
    assert "run.json: got other content than the run wrote" in invoke("verify", folder).stdout


def test_shapes_without_data_have_verdicts_of_their_own(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_a_folder_without_a_run_is_bad_input(invoke: Invoke, tmp_path: Path) -> None:
    done = invoke("verify", tmp_path)
    assert (done.exit_code, done.stdout) == (2, "")
