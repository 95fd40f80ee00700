"""Two tables of kernels: some that Triton's compiler refuses, with its words, and some that it compiles.

`benchmarks/validation/triton_interpreter/compare_refusals.py` compares the tables with the compiler itself.
"""

import importlib.util
import itertools
import sys
from pathlib import Path

import pytest

import kb_triton
import kb_triton.language as tl
from kb_triton.checking.kernel_check import KernelCheck
from kb_triton.checking.values import Typed, wrapped

HERE = Path(__file__).parent
TYPES = {
    "i1": tl.int1, "i8": tl.int8, "i16": tl.int16, "i32": tl.int32, "i64": tl.int64, "u8": tl.uint8, "u16": tl.uint16,
    "u32": tl.uint32, "u64": tl.uint64, "fp16": tl.float16, "bf16": tl.bfloat16, "fp32": tl.float32, "fp64": tl.float64,
}  # fmt: skip
HEAD = "import triton\nimport triton.language as tl\n\n\n"
NUMBERS = itertools.count()


def table(name):
    """The kernels of the file *name* by their names: the types of the arguments, the source, and the words."""
    found = {}
    for part in (HERE / name).read_text(encoding="utf-8").removeprefix("== ").split("\n== "):
        head, _, code = part.partition("\n")
        title, _, types = head.partition(" | ")
        words = ""
        if code.startswith("> "):
            words, _, code = code.removeprefix("> ").partition("\n")
        assert title not in found
        found[title] = types.split(), code.rstrip() + "\n", words
    return found


REFUSED, ACCEPTED = table("refused_kernels.txt"), table("accepted_kernels.txt")


@pytest.fixture(autouse=True)
def installed():
    kb_triton.install()
    yield
    kb_triton.uninstall()


def refusal(types, code, folder):
    """The refusal of the kernel in *code* for arguments of *types*; None where it is accepted."""
    name = f"kernel_of_table_{next(NUMBERS)}"
    before, _, kernel = code.rpartition("def kernel(")
    path = folder / f"{name}.py"
    path.write_text(f"{HEAD}{before}@triton.jit\ndef kernel({kernel}", encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        return KernelCheck(False).refusal(module.kernel, [value_of(each) for each in types])
    finally:
        del sys.modules[name]


def value_of(text):
    if text.startswith("="):
        return wrapped(eval(text[1:]))
    is_const = text.startswith("*k")
    kind = TYPES[text.lstrip("*k")]
    return Typed(tl.pointer_type(kind, const=is_const), ()) if text.startswith("*") else Typed(kind, ())


@pytest.mark.parametrize("name", REFUSED)
def test_a_kernel_that_triton_refuses_is_refused_in_its_words(name, tmp_path):
    types, code, words = REFUSED[name]
    found = refusal(types, code, tmp_path)
    assert found is not None
    assert words in found.message
    error = found.as_error()
    assert str(error).startswith("at ")
    assert error.where.startswith("kernel_of_table_")


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_kernel_that_triton_compiles_is_accepted(name, tmp_path):
    types, code, _ = ACCEPTED[name]
    found = refusal(types, code, tmp_path)
    assert found is None, found.message
