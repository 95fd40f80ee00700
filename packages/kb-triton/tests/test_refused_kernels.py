"""Kernels that Triton's compiler refuses are refused before they run, unless the device is lenient."""

import os
import re
import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest

import kb_triton as triton
import kb_triton.language as tl
from kb_messages import KernelError
from kb_triton.checking import CompilationError, CompileTimeAssertionFailure, UnsupportedLanguageConstruct
from kb_triton.host import options_of

TOPOLOGY = Path(__file__).parents[3] / "topologies" / "one_cube.yaml"
PLAIN = 3
TRUE = tl.constexpr(True)
TWICE = tl.constexpr(3) * 2


@triton.jit
def first_above(x, n, least):
    for at in range(n):
        if tl.load(x + at) > least:
            break
    return n


@triton.jit
def stops_early(x, n):
    tl.store(x, first_above(x, n, 2))


@triton.jit
def reads_a_global(x):
    tl.store(x, PLAIN)


@triton.jit
def reads_constants(x):
    if TRUE:
        tl.store(x, TWICE)


@triton.jit
def asserts(x, B: tl.constexpr):
    tl.static_assert(B == 9, "nine")
    tl.store(x, B)


def test_the_words_of_triton_come_first_and_then_the_line():
    with pytest.raises(UnsupportedLanguageConstruct) as refused:
        stops_early[(1,)](np.zeros(4, np.float32), 4)
    line = first_above.fn.__code__.co_firstlineno + 4
    assert str(refused.value).split("\n") == [
        "at 4:12:",
        "def first_above(x, n, least):",
        "    for at in range(n):",
        "        if tl.load(x + at) > least:",
        "            break",
        "            ^",
        "unsupported AST node type: Break",
        f"test_refused_kernels.py:{line}: Triton's compiler refuses this kernel; kb exec --lenient runs it",
    ]
    assert isinstance(refused.value, CompilationError)
    assert isinstance(refused.value, KernelError)
    assert refused.value.error_message == "unsupported AST node type: Break"


def test_the_traceback_has_the_lines_of_the_kernel_and_of_its_function():
    with pytest.raises(CompilationError) as refused:
        stops_early[(1,)](np.zeros(4, np.float32), 4)
    found = [(each.name, each.line) for each in traceback.extract_tb(refused.value.__traceback__)]
    assert found[-2:] == [("stops_early", "tl.store(x, first_above(x, n, 2))"), ("first_above", "break")]


def test_nothing_is_written_by_a_refused_kernel_and_a_lenient_device_runs_it(device):
    x = np.zeros(1, np.float32)
    for _ in range(2):  # the second launch knows the refusal
        with pytest.raises(CompilationError, match="Cannot access global variable PLAIN from within @jit'ed function"):
            reads_a_global[(1,)](x)
    assert x[0] == 0
    assert device.n_launches == 0
    device.lenient = True
    reads_a_global[(1,)](x)
    assert x[0] == 3


def test_tritons_own_switch_allows_globals(monkeypatch):
    x = np.zeros(1, np.float32)
    monkeypatch.setenv("TRITON_ALLOW_NON_CONSTEXPR_GLOBALS", "1")
    reads_a_global[(1,)](x)
    assert x[0] == 3
    monkeypatch.setenv("TRITON_ALLOW_NON_CONSTEXPR_GLOBALS", "0")
    with pytest.raises(CompilationError):
        reads_a_global[(1,)](x)


def test_constants_that_carry_no_mark_are_found_by_their_assignment():
    x = np.zeros(1, np.float32)
    reads_constants[(1,)](x)
    assert x[0] == 6


def test_a_static_assertion_has_a_class_of_its_own():
    with pytest.raises(CompileTimeAssertionFailure, match=r"^at 2:4:") as refused:
        asserts[(1,)](np.zeros(1, np.float32), B=8)
    assert refused.value.error_message == "nine"
    asserts[(1,)](np.zeros(1, np.float32), B=9)


def test_the_environment_makes_the_device_lenient():
    assert not options_of({}).lenient
    assert not options_of({"KB_LENIENT": "0"}).lenient
    assert options_of({"KB_LENIENT": "1"}).lenient


TEST_FILE = """
import numpy as np
import triton
import triton.language as tl


@triton.jit
def k(x, n):
    for i in range(n):
        if tl.load(x + i) > 2:
            continue


def test_k():
    k[(1,)](np.ones(4, np.float32), 4)
"""


@pytest.mark.parametrize(("option", "passes"), [([], False), (["--kb-lenient"], True)])
def test_the_plugin_refuses_too_and_shows_the_line(option, passes, tmp_path):
    (tmp_path / "test_op.py").write_text(TEST_FILE, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "kb_triton", "-p", "no:cacheprovider", *option, "test_op.py"]
    environment = {**os.environ, "KB_TOPOLOGY": str(TOPOLOGY)}
    environment.pop("KB_LENIENT", None)
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is passes
    shown = [each for each in done.stdout.splitlines() if each.startswith(">")]
    assert shown == ([] if passes else [">       k[(1,)](np.ones(4, np.float32), 4)", ">               continue"])
    assert passes or re.search(r"unsupported AST node type: Continue", done.stdout)
