"""Lines of kernels that a notebook defines have the name of their cell, in runs, errors, run folders and reports."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import Result

import kernbench as kb

CELL = """\
def copies(tl, x, y):
    tl.store(y, tl.load(x))

def casts(tl, x, y):
    tl.load(x).to("f64")

def fails(tl, x, y):
    for turn in range(3):
        turn / 0
"""
HELPER = "def doubled(value):\n    return value + value\n"
CALLER = "def doubles(tl, x, y):\n    tl.store(y, doubled(tl.load(x)))\n"
X = np.ones(16, np.float32)


class Notebook:
    """A stand-in for IPython's shell in process *pid*: it compiles cells under names of files, and knows their numbers.

    `names` has what the cells define.
    """

    def __init__(self, pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: dict[str, Any] = {}
        self._numbers: dict[str, int] = {}
        self._pid, self._monkeypatch = pid, monkeypatch
        compiler = SimpleNamespace(
            format_code_name=lambda file: ("Cell", f"In[{self._numbers[file]}]") if file in self._numbers else None
        )
        shell = SimpleNamespace(compile=compiler)
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))

    def run_cell(self, number: int, text: str) -> None:
        file = f"/tmp/ipykernel_{self._pid}/{sum(text.encode())}.py"  # cells of equal text share a file
        self._numbers[file] = number
        self._monkeypatch.setitem(linecache.cache, file, (len(text), None, text.splitlines(keepends=True), file))
        exec(compile(text, file, "exec"), self.names)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    return Notebook(1, monkeypatch)


def launched(kernel: Any, **options: Any) -> kb.KernelRun:
    return kb.run(kernel, X, kb.empty(16, "f32"), chip="one_pe", **options)


def test_a_run_and_its_errors_name_the_cell(notebook: Notebook) -> None:
    notebook.run_cell(12, CELL)
    r = launched(notebook.names["copies"])
    assert [each.line for each in r.lines] == ["In[12]:2"]
    assert f"\n  In[12]:2: {r.latency_ns:.3f} ns, 100.0 %\n" in str(r)
    with pytest.raises(kb.KbError, match=r"^In\[12\]:5: got dtype 'f64'"):
        launched(notebook.names["casts"])
    with pytest.raises(kb.KbError) as caught:
        launched(notebook.names["fails"])
    assert str(caught.value).endswith('  File "In[12]", line 9, in fails\n    turn / 0')
    assert "ipykernel" not in str(caught.value)


def test_two_executions_of_a_cell_are_two_sources(notebook: Notebook) -> None:
    """The kernel of cell 3 is still there when cell 5, which is cell 3 after an edit, has defined another."""
    notebook.run_cell(3, CELL)
    first = notebook.names["copies"]
    notebook.run_cell(5, CELL.replace("tl.store(y, tl.load(x))", "v = tl.load(x)\n    tl.store(y, v)"))
    assert [each.line for each in launched(first).lines] == ["In[3]:2"]
    assert {each.line for each in launched(notebook.names["copies"]).lines} == {"In[5]:2", "In[5]:3"}


def test_a_run_folder_has_all_cells_and_the_same_bytes_in_another_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Callable[..., Result]
) -> None:
    found: list[dict[str, bytes]] = []
    for pid in (1, 2):
        notebook = Notebook(pid, monkeypatch)
        notebook.run_cell(1, HELPER)
        notebook.run_cell(2, CALLER)
        r = launched(notebook.names["doubles"], folder=tmp_path / str(pid))
        folder = r.folder
        assert folder is not None
        assert "return value + value" in r._repr_html_()
        files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        files.pop("wall.json")
        found.append(files)
    assert found[0] == found[1]
    assert found[0]["bench.py"] == CALLER.encode()
    assert found[0]["beside/In[1]"] == HELPER.encode()
    report = kb.read_report(folder)
    assert {each.line: each.text for each in report.lines} == {
        "In[2]:2": "tl.store(y, doubled(tl.load(x)))",
        "In[1]:2": "return value + value",
    }
    assert "In[1]:2" in invoke("report", str(folder)).stdout
    (folder / "beside" / "In[1]").write_text(HELPER + "# edited")
    with pytest.raises(kb.KbError, match="other bytes than the run wrote"):
        kb.read_report(folder)


def test_without_a_shell_lines_stay_as_they_are(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook.run_cell(12, CELL)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    (line,) = (each.line for each in launched(notebook.names["copies"]).lines)
    assert line == f"{sum(CELL.encode())}.py:2"
