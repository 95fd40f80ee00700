"""Sources of what `kernbench.run` runs: files that were edited since they were imported, and benchmarks of no file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from python_copies import python

Invoke = Callable[..., Result]

MODULE = """\
import numpy as np
import kernbench as kb


def raised(values):
    return values + 1.0


def raise_all(tl, x, y):
    tl.store(y, raised(tl.load(x)))


@kb.benchmark
def raising(rng, n: int = 32):
    return kb.call(raise_all, np.ones(n, np.float32), kb.empty(n, "f32"), reference=lambda x: x + 1, pes=[0])
# the end
"""
RUNS = """\
X = np.ones(32, np.float32)
print(kb.run(raise_all, X, kb.empty(32, "f32"), chip="one_pe", pes=[0], folder="runs").folder)
print(kb.run(raising, chip="one_pe", folder="runs").folder)
"""
EDITS = """\
from pathlib import Path
from mine import *
text = Path("mine.py").read_text()
Path("mine.py").write_text(text.replace(OLD, NEW))
"""


def folders(tmp_path: Path, script: str) -> list[str]:
    """The run folders that *script* prints."""
    (tmp_path / "mine.py").write_text(MODULE)
    done = python(tmp_path, "-c", script)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("edit", [("+ 1.0", "+ 7.0"), ("def raised", "# added\ndef raised"), ("def raised", "def (")])
def test_a_file_edited_since_its_import_is_not_stored_as_the_source(
    invoke: Invoke, tmp_path: Path, edit: tuple[str, str]
) -> None:
    """The helper alone is edited, a line is added before all, or the file is no Python file now."""
    edits = EDITS.replace("OLD", repr(edit[0])).replace("NEW", repr(edit[1]))
    for folder, what in zip(folders(tmp_path, edits + RUNS), ("a kernel", "a benchmark"), strict=True):
        stored = (tmp_path / folder / "bench.py").read_text()
        assert stored.startswith("# mine.py was edited after its import. The code that ran has the hashes ")
        assert invoke("verify", folder, "--json").exit_code in (0, 2)  # a kernel had no reference
        refused = invoke("whatif", folder, "--set", "$.cube.nodes.hbm.bw_gbs=10")
        assert f"got a run of {what} whose file was edited after its import, needs a call that" in refused.stderr


@pytest.mark.parametrize("edit", [("lambda x: x + 1", "lambda x: x + 1.0"), ("# the end", "# another end\n")])
def test_edits_outside_the_kernel_change_nothing(invoke: Invoke, tmp_path: Path, edit: tuple[str, str]) -> None:
    edits = EDITS.replace("OLD", repr(edit[0])).replace("NEW", repr(edit[1]))
    kernel, _ = folders(tmp_path, edits + RUNS)
    assert invoke("whatif", kernel, "--set", "$.cube.nodes.hbm.bw_gbs=10").exit_code == 0


def test_a_benchmark_of_a_notebook_runs_and_its_folder_names_the_notebook(invoke: Invoke, tmp_path: Path) -> None:
    """A notebook puts the text of a cell into linecache under a name that is no file, and `__main__` has none."""
    (tmp_path / "__main__.py").write_text("print('this is another program')")
    cell = MODULE + 'print(kb.run(raising, chip="one_pe", n=16, folder="runs").folder)\n'
    (tmp_path / "cell.txt").write_text(cell)
    code = (
        "import linecache, sys; cell = open('cell.txt').read(); name = '/tmp/ipykernel_1/42.py'\n"
        "linecache.cache[name] = (len(cell), None, cell.splitlines(True), name)\n"
        "exec(compile(cell, name, 'exec'), vars(sys.modules['__main__']))\n"
    )
    (folder,) = folders(tmp_path, code)
    assert (tmp_path / folder / "bench.py").read_text() == cell
    assert invoke("verify", folder).exit_code == 0
    assert "42.py:10" in invoke("report", folder).stdout
    refused = invoke("whatif", folder, "--set", "$.cube.nodes.hbm.bw_gbs=10")
    assert "got a run of a benchmark of a notebook or a prompt, needs a call that its folder" in refused.stderr


def test_a_benchmark_class_of_a_prompt_runs(tmp_path: Path) -> None:
    text = """\
from kb_cli.benchmark.load import load_benchmark
import kernbench as kb

class Mine(type(load_benchmark("gemm").bench)):
    pass

print(kb.run(Mine, chip="one_pe", M=16, N=16, K=16).verified)
"""
    assert folders(tmp_path, text) == ["True"]
