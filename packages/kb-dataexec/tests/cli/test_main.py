"""The command line as a whole: one sentence for bad input, and the module that starts it."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("args", [("info", "LOG"), ("export", "LOG", "out"), ("diff", "LOG", "LOG")])
def test_a_folder_without_a_log_is_one_sentence(tmp_path, invoke, args):
    missing = [tmp_path / "no" if arg == "LOG" else arg for arg in args]
    assert invoke(*missing) == (2, "", f"error: {tmp_path / 'no'}: got no such folder, needs a log\n")
    empty = [tmp_path if arg == "LOG" else arg for arg in args]
    assert invoke(*empty) == (2, "", f"error: {tmp_path}: got a folder without an op log, needs a log\n")


def test_export_without_its_extra_says_so(folder, invoke, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert invoke("export", folder / "log", folder / "out") == (
        2,
        "",
        "error: export: got no module duckdb, needs the extra parquet; pip install 'kb-dataexec[parquet]'\n",
    )


def test_it_runs_as_a_module(folder):
    command = [sys.executable, "-m", "kb_dataexec", "info", str(folder / "log")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{folder}/log: complete, ")
