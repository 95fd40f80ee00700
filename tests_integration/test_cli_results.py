"""What the installed `kb` gives: JSON, run folders that repeat, and a verification that cannot be fooled."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from python_copies import kb

from kb_cli.run.records.manifest_check import claims
from kb_cli.run.records.run_json import write_run
from kb_dataexec import OpLog, read_log
from kb_dataexec.log import write_log

KB = str(Path(sys.executable).with_name("kb"))
SMALL = ["-p", "M=40", "-p", "N=24", "-p", "K=72", "-p", "tile=16x16x32", "--topology", "one_pe"]
MINUTES = ["-p", "M=1024", "-p", "N=1024", "-p", "K=4096", "-p", "tile=16x16x16", "--exact", "events"]
"""A run that takes minutes, so that it is under way whenever a signal comes."""


def result_of(folder: Path, *args: str) -> Any:
    return told(kb(folder, *args, "--json"))


def told(done: subprocess.CompletedProcess[str]) -> Any:
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def started_with_hash_seed(seed: str, folder: Path, *args: str) -> Any:
    env = {**os.environ, "PYTHONPATH": "", "PYTHONHASHSEED": seed}
    return told(subprocess.run([KB, *args, "--json"], cwd=folder, env=env, capture_output=True, text=True, timeout=100))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder that no test changes."""
    folder = tmp_path_factory.mktemp("made")
    return folder / result_of(folder, "run", "gemm", *SMALL)["run_dir"]


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    """A copy of the run folder, which the test may change."""
    return Path(shutil.copytree(made, tmp_path / made.name))


def test_json_has_what_tools_read(tmp_path: Path) -> None:
    result = result_of(tmp_path, "run", "gemm", "-p", "M=256", "-p", "N=256", "-p", "K=256")
    assert (result["benchmark"], result["topology"], result["verified"]) == ("gemm", "one_cube", True)
    assert result["params"]["dtype"] == "f16"
    assert result["flops"] == 2 * 256**3
    assert result["peak_flops"] == 65.536e12
    assert 0 < result["latency_ns"] == result["latency_ps"] / 1000
    assert 0 <= result["max_abs_err"] < 1
    kinds = {"pe_dma_read", "pe_dma_write", "pe_fetch_store", "pe_gemm", "hbm"}
    assert kinds <= result["utilization"].keys() == result["busiest"].keys()
    assert all(0 < result["utilization"][kind] <= result["busiest"][kind]["utilization"] <= 1 for kind in kinds)
    assert result["bytes"].keys() == {"hbm", "sram", "tcm", "reg"}
    assert result["bytes"]["hbm"]["write"] == 2 * 256 * 256 == result["bytes"]["reg"]["read"]
    assert result["ops"] == result["tile_stages"] > 0
    assert result["wall_s"].keys() == {"timing", "data", "verify"}
    assert " of the time" in result["bounded_by"]
    assert sum(share["ps"] for share in result["where"]) == result["latency_ps"]
    assert sum(sum(times.values()) for times in result["stages_ps"].values()) > 0


def test_the_folder_holds_what_a_repetition_needs(made: Path) -> None:
    assert sorted(path.name for path in made.iterdir()) == [
        "bench.py", "expected", "log", "memory", "run.json", "topology.yaml", "usage.json", "wall.json", "where.json",
    ]  # fmt: skip
    stored = json.loads((made / "run.json").read_text())
    assert stored["params"] == {**stored["params"], "M": 40, "N": 24, "K": 72, "tile": "16x16x32"}
    assert stored["inputs"].keys() == {"a", "b"}
    assert {"kb-cli", "kb-engine"} <= stored["versions"].keys()
    assert stored["environment"].keys() == {"python", "numpy"}
    assert "wall_s" not in stored["results"]
    assert json.loads((made / "wall.json").read_text()).keys() == {"timing", "data", "verify"}


def test_a_repetition_is_the_same_to_the_byte(tmp_path: Path) -> None:
    results = [started_with_hash_seed(seed, tmp_path, "run", "gemm", *SMALL, "--out", f"out{seed}") for seed in "01"]
    assert len({result["log_digest"] for result in results}) == 1
    folders = [tmp_path / result["run_dir"] for result in results]
    for file in sorted(path.relative_to(folders[0]) for path in folders[0].rglob("*") if path.is_file()):
        if file.name != "wall.json":
            assert len({(folder / file).read_bytes() for folder in folders}) == 1, file


def test_other_configurations_have_other_folders(tmp_path: Path) -> None:
    variants = [[], ["--seed", "1"], ["-p", "dtype=bf16"], ["--no-verify"], ["--no-log"]]
    results = [result_of(tmp_path, "run", "gemm", *SMALL, *variant) for variant in variants]
    assert len({result["run_dir"] for result in results}) == len(variants)
    assert len({result["latency_ps"] for result in results if result["params"]["dtype"] == "f16"}) == 1


def test_a_user_s_file_runs_from_anywhere(tmp_path: Path, made: Path) -> None:
    (tmp_path / "bench").mkdir()
    source = (made / "bench.py").read_text()
    (tmp_path / "bench" / "mine.py").write_text(source.replace('name = "gemm"', 'name = "mine"'))
    mine = result_of(tmp_path, "run", "bench/mine.py", *SMALL)
    assert (mine["benchmark"], mine["verified"]) == ("mine", True)


def test_nothing_kept_nothing_to_verify(tmp_path: Path) -> None:
    run_dir = result_of(tmp_path, "run", "gemm", *SMALL, "--keep", "none")["run_dir"]
    assert sorted(path.name for path in (tmp_path / run_dir).iterdir()) == [
        "bench.py", "run.json", "topology.yaml", "usage.json", "wall.json", "where.json",
    ]  # fmt: skip
    done = kb(tmp_path, "verify", run_dir)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: {run_dir}: got no data (--keep none), needs memory, expected outputs and log; "
        "run it again with --keep all\n"
    )


def edit_log(run: Path, edit: Any, digest: bool) -> None:
    """Apply *edit* to the log of *run*; with *digest*, run.json is made to agree with it."""
    log = edit(read_log(run / "log"))
    for file in (run / "log").iterdir():
        file.unlink()
    (run / "log").rmdir()
    write_log(run / "log", log)
    stored = json.loads((run / "run.json").read_text())
    if digest:
        stored["log_digest"] = log.digest
    write_run(run, {**stored, "files": claims(run)})


def without_a_fetch(log: OpLog) -> OpLog:
    fetch = next(record.op_id for record in log.records() if record.name == "fetch")
    keep = [table["op_id"] != fetch for table in (log.ops, log.operands)]
    return OpLog(log.ops[keep[0]], log.operands[keep[1]], log.strings, log.immediates)


def with_an_address_moved(log: OpLog) -> OpLog:
    operands = log.operands.copy()
    operands["offset"][0] += 2
    return OpLog(log.ops, operands, log.strings, log.immediates)


def test_a_run_that_nobody_edited_verifies(tmp_path: Path, run: Path) -> None:
    assert kb(tmp_path, "verify", str(run)).returncode == 0


@pytest.mark.parametrize(
    ("edit", "digest", "refusal"),
    [
        (without_a_fetch, False, "a row for each op"),
        (without_a_fetch, True, "a row for each op"),
        (with_an_address_moved, False, "digest"),
        (with_an_address_moved, True, "None"),
    ],
)
def test_an_edited_log_is_noticed(tmp_path: Path, run: Path, edit: Any, digest: bool, refusal: str) -> None:
    edit_log(run, edit, digest)
    done = kb(tmp_path, "verify", str(run), "--json")
    assert (done.returncode, done.stderr) == (1, "")
    found = json.loads(done.stdout)
    assert found["verified"] is False
    assert refusal in str(found["refusal"])


def test_an_edited_expectation_is_noticed(tmp_path: Path, run: Path) -> None:
    path = run / "expected" / "000000.npy"
    reference = np.load(path)
    reference[0, 0] += 1
    np.save(path, reference)
    assert kb(tmp_path, "verify", str(run)).returncode == 1


ODD = """\
\ufefflayer,M,N,K\r
deep,16,24,14336\r
\r
vector,1,512,512\r
conv,11881,64,147\r
"""


def test_odd_shapes_run_and_verify(tmp_path: Path) -> None:
    (tmp_path / "shapes.csv").write_text(ODD, encoding="utf-8", newline="")
    results = result_of(tmp_path, "run", "gemm", "--shapes", "shapes.csv")
    assert [result["shape"] for result in results] == [
        {"layer": "deep", "M": 16, "N": 24, "K": 14336},
        {"layer": "vector", "M": 1, "N": 512, "K": 512},
        {"layer": "conv", "M": 11881, "N": 64, "K": 147},
    ]
    assert all(result["verified"] for result in results)
    folder = (tmp_path / results[0]["run_dir"]).parent
    assert [row["folder"] for row in json.loads((folder / "run.json").read_text())["rows"]] == ["0000", "0001", "0002"]
    assert kb(tmp_path, "verify", str(folder)).returncode == 0


def test_a_killed_run_leaves_no_folder_of_its_name(tmp_path: Path) -> None:
    process = subprocess.Popen([KB, "run", "gemm", *MINUTES], cwd=tmp_path, stdout=subprocess.PIPE)
    while not list(tmp_path.glob("kb-runs/.gemm-*/log")) and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert [path.name[:6] for path in (tmp_path / "kb-runs").iterdir()] == [".gemm-"]


def progress_of(folder: Path) -> str:
    """The progress.json of the run below *folder*, as a run writes it that counts; empty before."""
    found = list(folder.glob("kb-runs/.gemm-*/progress.json"))
    return found[0].read_text().replace('"done":null', "") if found else ""


def test_an_interrupted_run_leaves_its_log_and_no_traceback(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [KB, "run", "gemm", *MINUTES], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while '"done":' not in progress_of(tmp_path) and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate()
    assert (process.returncode, stdout) == (130, "")
    (folder,) = (tmp_path / "kb-runs").iterdir()
    assert stderr.startswith("interrupted: in ")
    assert stderr.endswith(f"\n  the files written so far are in kb-runs/{folder.name}\n")
    assert "Traceback" not in stderr
    assert re.fullmatch(r"gemm-[0-9a-f]{12}-interrupted", folder.name)


def test_a_pipe_gets_no_colour_and_may_close_early(tmp_path: Path) -> None:
    done = kb(tmp_path, "run", "gemm", *SMALL)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    process = subprocess.Popen(
        [KB, "run", "gemm", *SMALL], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(60) == 0
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
