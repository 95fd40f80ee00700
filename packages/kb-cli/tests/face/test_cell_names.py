"""Lines of kernels that a notebook defines are shown as IPython shows them."""

from __future__ import annotations

import linecache
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kernbench as kb

CELL = """\
def copies(tl, x, y):
    tl.store(y, tl.load(x))

def casts(tl, x, y):
    tl.load(x).to("f64")
"""
FILE = "/tmp/ipykernel_1/4242.py"


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The kernels of cell 12 of a notebook."""
    shell = SimpleNamespace(
        compile=SimpleNamespace(format_code_name=lambda file: ("Cell", "In[12]") if file == FILE else None)
    )
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(linecache.cache, FILE, (len(CELL), None, CELL.splitlines(keepends=True), FILE))
    found: dict[str, Any] = {}
    exec(compile(CELL, FILE, "exec"), found)  # as a notebook does
    return found


def test_the_text_of_a_run_and_the_place_of_an_error_name_the_cell(kernels: dict[str, Any]) -> None:
    x = np.zeros(16, np.float32)
    r = kb.run(kernels["copies"], x, kb.empty(16, "f32"), chip="one_pe")
    assert [each.line for each in r.lines] == ["4242.py:2"]
    assert f"\n  In[12]:2: {r.latency_ns:.3f} ns, 100.0 %\n" in str(r)
    assert "4242" not in str(r)
    with pytest.raises(kb.KbError, match=r"^In\[12\]:5: got dtype 'f64'"):
        kb.run(kernels["casts"], x, kb.empty(16, "f32"), chip="one_pe")


def test_without_a_shell_lines_stay_as_they_are(kernels: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    r = kb.run(kernels["copies"], np.zeros(16, np.float32), kb.empty(16, "f32"), chip="one_pe")
    assert "\n  4242.py:2: " in str(r)
