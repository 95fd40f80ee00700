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
def reads_constants_again(x):
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


@pytest.mark.parametrize("warps", [3, 0, -4, 12])
def test_a_number_of_warps_that_is_no_power_of_2_is_refused(warps, device):
    with pytest.raises(CompilationError, match="num_warps must be a power of 2"):
        asserts[(1,)](np.zeros(1, np.float32), B=9, num_warps=warps)
    asserts[(1,)](np.zeros(1, np.float32), B=9, num_warps=8)
    device.lenient = True
    asserts[(1,)](np.zeros(1, np.float32), B=9, num_warps=warps)


def test_a_warm_up_is_refused_as_a_launch_is():
    with pytest.raises(CompilationError, match="nine"):
        asserts.warmup(np.zeros(1, np.float32), B=8, grid=(1,))
    asserts.warmup(np.zeros(1, np.float32), B=9, grid=(1,))[(1,)](np.zeros(1, np.float32))
    stops_early.warmup(grid=(1,))  # without arguments there is nothing to check


@triton.jit(noinline=True)
def doubled(x):
    return x * 2


@triton.jit
def calls_apart(x, B: tl.constexpr):
    tl.store(x + tl.arange(0, B), doubled(tl.load(x + tl.arange(0, B))))


def test_a_function_that_is_not_inlined_takes_scalars():
    words = r"Function doubled is marked noinline, but was called with non-scalar argument x:fp32\[constexpr\[4\]\]"
    with pytest.raises(UnsupportedLanguageConstruct, match=words):
        calls_apart[(1,)](np.zeros(4, np.float32), B=4)


@triton.jit
def sums(x, out, n):
    total = 0
    for at in range(n):
        total += tl.load(x + at)
    tl.store(out, total)


@triton.jit
def counts(out, n):
    for at in range(4):
        n += at
    tl.store(out, n)


def test_types_of_arguments_decide():
    out = np.zeros(1, np.int32)
    sums[(1,)](np.array([1, 2, 300], np.int32), out, 3)
    assert out[0] == 303
    words = "Loop-carried variable total has initial type int32 but is re-assigned to fp32 in loop!"
    with pytest.raises(CompilationError, match=words):
        sums[(1,)](np.ones(3, np.float32), out, 3)
    with pytest.raises(
        CompilationError, match=r"changed type, was <class 'triton\.language\.core\.tensor'> but is now"
    ):
        counts[(1,)](out, 1)  # Triton takes the argument 1 for a constant
    counts[(1,)](out, 2)
    assert out[0] == 8


def test_a_rule_that_fails_lets_the_kernel_run_and_says_so(monkeypatch):
    def fails(*arguments):
        raise LookupError("a rule")

    monkeypatch.setattr("kb_triton.checking.statements.FunctionCheck.run", fails)
    x = np.zeros(1, np.float32)
    with pytest.warns(RuntimeWarning, match="cannot check reads_constants_again"):
        reads_constants_again[(1,)](x)
    assert x[0] == 6


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
