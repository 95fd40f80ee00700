"""The tracebacks of a kernel's errors: the author's code, and no frames of the simulator."""

import linecache
import os
import subprocess
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl
from kb_messages import KbError
from kb_triton.runtime import Config, autotune, heuristics

TOPOLOGY = Path(__file__).parents[3] / "topologies" / "one_cube.yaml"


@triton.jit
def loaded_beyond(x, at):
    return tl.load(x + at + 100)


@triton.jit
def k(x, y, n, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(y + at, loaded_beyond(x, at))


def frames(launch):
    """The names of functions in the traceback of *launch*'s error, with the file where it is not this file."""
    x, y = np.ones((2, 16), np.float32)
    with pytest.raises(KbError, match=r"^test_tracebacks\.py:\d+, in program 0 on .*: got index ") as caught:
        launch(x, y)
    found = traceback.extract_tb(caught.value.__traceback__)
    assert caught.value.__suppress_context__
    return [each.name if each.filename == __file__ else f"{Path(each.filename).name}:{each.name}" for each in found]


LAUNCHES = {
    "a kernel": lambda x, y: k[1,](x, y, 16, B=16),
    "one configuration": lambda x, y: autotune([Config({"B": 16})], ["n"])(k)[1,](x, y, 16),
    "two configurations": lambda x, y: autotune([Config({"B": b}) for b in (8, 16)], ["n"])(k)[1,](x, y, 16),
    "heuristics": lambda x, y: heuristics({"B": lambda known: known["n"]})(k)[1,](x, y, 16),
    "a compiled kernel": lambda x, y: k.warmup(x, y, 16, B=16, grid=(1,))[1,](x, y, 16),
}


@pytest.mark.parametrize("launch", LAUNCHES.values(), ids=LAUNCHES)
def test_the_kernels_lines_follow_the_line_of_the_launch(launch):
    assert frames(launch) == ["frames", "<lambda>", "compiled.py:launch", "k", "loaded_beyond"]


def test_a_launch_by_run_shows_the_calls_down_to_the_device():
    found = frames(lambda x, y: k.run(x, y, 16, B=16, grid=(1,)))
    assert found == [
        "frames",
        "<lambda>",
        "function.py:run",
        "function.py:_run",
        "device.py:launch",
        "k",
        "loaded_beyond",
    ]


TEST_FILE = """
import numpy as np
import triton
import triton.language as tl


@triton.jit
def k(x, B: tl.constexpr):
    tl.store(x + tl.arange(0, B) + 1, 1.0)


def test_k():
    k[(1,)](np.ones(16, np.float32), B=16)
"""


def test_pytest_shows_the_line_of_the_test_and_the_line_of_the_kernel(tmp_path):
    (tmp_path / "test_op.py").write_text(TEST_FILE, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "kb_triton", "-p", "no:cacheprovider", "test_op.py"]
    environment = {**os.environ, "KB_TOPOLOGY": str(TOPOLOGY)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert [each for each in lines if each.startswith(">")] == [
        ">       k[(1,)](np.ones(16, np.float32), B=16)",
        ">       tl.store(x + tl.arange(0, B) + 1, 1.0)",
    ]
    assert not any("kb_engine" in each or "kb_triton/jit" in each or "compiled.py" in each for each in lines)


CELL = """
@triton.jit
def stops(x, n):
    for at in range(n):
        if tl.load(x + at) > 2:
            break


@triton.jit
def beyond(x):
    tl.store(x + 100, 1.0)
"""


def test_errors_of_a_notebook_name_the_cell(monkeypatch):
    file = "/tmp/ipykernel_7/1234.py"
    compiler = SimpleNamespace(format_code_name=lambda name: ("Cell", "In[4]") if name == file else None)
    shell = SimpleNamespace(compile=compiler)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(linecache.cache, file, (len(CELL), None, CELL.splitlines(keepends=True), file))
    cell = {"triton": triton, "tl": tl}
    exec(compile(CELL, file, "exec"), cell)
    with pytest.raises(KbError, match=r"\nIn\[4\]:6: Triton's compiler refuses"):
        cell["stops"][1,](np.ones(16, np.float32), 16)
    with pytest.raises(KbError, match=r"^In\[4\]:11, in program 0 on "):
        cell["beyond"][1,](np.ones(16, np.float32))
