"""`kb new`: the file that it writes runs, is clean, and replaces nothing."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Invoke = Callable[..., Result]


@pytest.mark.parametrize("name", ["mine.py", "kernel.py", "kb.py"])
def test_the_new_file_runs_and_is_right(invoke: Invoke, name: str) -> None:
    done = invoke("new", name)
    assert done.stdout == f"wrote {name}; run it with: kb run ./{name}\n"
    ran = invoke("run", f"./{name}", "-p", "n=5000", "-p", "block=512", "--json")
    assert ran.exit_code == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert (found["verified"], found["params"]) == (True, {"n": 5000, "a": 2.0, "block": 512})


def test_the_new_file_passes_the_linter(invoke: Invoke, tmp_path: Path) -> None:
    ruff = shutil.which("ruff", path=str(Path(sys.executable).parent))
    if ruff is None:
        pytest.skip("ruff is not installed")
    invoke("new", "mine.py")
    for command in (["check", "--select", "E,F,W,I,B,UP", "--line-length", "120"], ["format", "--check"]):
        done = subprocess.run([ruff, *command, "--isolated", "mine.py"], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


def test_nothing_is_overwritten(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("x = 1\n")
    done = invoke("new", "mine.py")
    assert done.exit_code == 2
    assert done.stderr == "error: mine.py: got a file of that name, needs a new one; choose another name\n"
    assert (tmp_path / "mine.py").read_text() == "x = 1\n"


@pytest.mark.parametrize("name", ["mine.txt", "my-kernel.py", "class.py", "2.py"])
def test_names_of_no_module_are_refused(invoke: Invoke, name: str) -> None:
    done = invoke("new", name)
    assert done.exit_code == 2
    assert f"{name}: got the name '{name}', needs a Python file whose stem is an identifier" in done.stderr


def test_a_folder_that_is_not_there_is_one_sentence(invoke: Invoke) -> None:
    done = invoke("new", "nowhere/mine.py")
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
    assert json.loads(invoke("new", "mine.py", "--json").stdout) == {"file": "mine.py", "run": "kb run ./mine.py"}
