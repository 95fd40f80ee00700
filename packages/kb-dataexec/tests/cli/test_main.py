"""The command line as a whole: one sentence for bad input, and the module that starts it."""

import errno
import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from kb_dataexec.cli.main import main


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


def run_in(folder, *command, **more):
    return subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True, **more)


def test_the_script_does_not_import_from_the_working_directory_and_the_module_does(folder, tmp_path):
    """An installer writes a script of these lines; its folder, not the working directory, is on the path."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    module, _, function = project["project"]["scripts"]["kb-dataexec"].partition(":")
    script = tmp_path / "bin" / "kb-dataexec"
    script.parent.mkdir()
    script.write_text(f"import sys\nfrom {module} import {function}\nsys.exit({function}())\n")
    work = tmp_path / "work"
    work.mkdir()
    (work / "numpy.py").write_text("raise SystemExit('the numpy.py of the working directory ran')\n")
    done = run_in(work, str(script), "info", str(folder / "log"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "ran" in run_in(work, "-m", "kb_dataexec", "info", str(folder / "log")).stderr


def failing(monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(importlib.import_module("kb_dataexec.cli.info"), "info", fail)


@pytest.mark.parametrize("error", [TypeError("odd\n"), ValueError("x" * 5000), RecursionError("deep"), KeyError("k")])
def test_a_failure_of_its_own_says_that_it_is_a_bug(folder, invoke, monkeypatch, error):
    failing(monkeypatch, error)
    code, out, err = invoke("info", folder / "log")
    assert (code, out, err.count("\n")) == (4, "", 1)
    assert err.startswith("error: kb-dataexec 0.1.0: got ")
    assert "; this is a bug of kb-dataexec: report this line, the command and its files; KB_DEBUG=1 " in err
    assert f"{type(error).__name__} (" in err
    monkeypatch.setenv("KB_DEBUG", "1")
    assert "Traceback (most recent call last)" in invoke("info", folder / "log")[2]


def test_a_full_disk_names_the_folder(folder, invoke, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("kb_dataexec.memory.store.MemoryStore.save", fail)
    code, _, err = invoke("run", folder / "log", "--memory", folder / "memory", "--save", folder / "after")
    assert code == 2
    assert err == (
        f"error: {folder}/after: got an error of the system (No space left on device), needs a file or folder that can "
        "be used\n"
    )


@pytest.mark.parametrize("to", [">&-", "> /dev/full", "| true"])
def test_a_stdout_that_takes_nothing_is_no_traceback(folder, to):
    command = f"{sys.executable} -m kb_dataexec info {folder}/log {to}"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert done.returncode == 2 or to == "| true"
    assert done.stderr.startswith("error: standard output: got ") or to == "| true"


def test_an_interrupt_has_its_code(folder, monkeypatch):
    failing(monkeypatch, KeyboardInterrupt())
    assert main(["info", str(folder / "log")]) == 130
