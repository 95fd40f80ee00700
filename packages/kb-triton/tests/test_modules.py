"""What `import triton` finds, that torch finds nothing, and the pytest plugin."""

import os
import subprocess
import sys
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import kb_triton
from kb_messages import KbError
from kb_triton.shims.module_names import cdiv, next_power_of_2

TOPOLOGY = Path(__file__).parents[3] / "topologies" / "one_cube.yaml"
TORCH = {
    "torch/__init__.py": "from torch import compiler\nclass Tensor: pass\n",
    "torch/compiler.py": "try:\n    import triton\nexcept ImportError:\n    triton = None\n",
    "torch/late.py": "try:\n    import triton\nexcept ImportError:\n    triton = None\n",
    "torch/_inductor/__init__.py": "",
    "torch/_inductor/runtime/__init__.py": "",
    "torch/_inductor/runtime/triton_compat.py": "try:\n    import triton\nexcept ImportError:\n    triton = None\n",
    "torch/_inductor/runtime/beside.py": "",
    "torch/_inductor/runtime/triton_helpers.py": """
from . import beside
from .triton_compat import libdevice, triton

@triton.jit
def root(x):
    return libdevice.sqrt(x)
""",
    "torch/utils/__init__.py": "",
    "torch/utils/_triton.py": """
import functools

@functools.cache
def has_triton_package():
    try:
        import triton
    except ImportError:
        return False
    return True

def has_triton():
    return has_triton_package()
""",
}
"""A torch that looks for a Triton as the real one does: when it is imported, and once for all."""
SCRIPT = """
import kb_triton
{first}
import triton
import triton.language as tl
import torch
import torch.late
from torch.utils._triton import has_triton_package
assert not has_triton_package()
assert torch.compiler.triton is torch.late.triton is None
import triton as again
assert again is triton and triton.jit is kb_triton.jit
"""
TEST_FILE = '''
"""An op and its test, as published files have them, with numpy in place of torch."""
import numpy as np
import pytest
import triton
import triton.language as tl
from triton.runtime import driver


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 256}, num_warps=8)], key=["n"])
@triton.jit
def scale_kernel(x_ptr, y_ptr, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) * factor, mask=at < n)


class Scale:
    """Forward and backward of y = factor x."""

    @staticmethod
    def apply(x, factor):
        y = np.empty_like(x)
        scale_kernel[lambda meta: (triton.cdiv(x.size, meta["BLOCK"]),)](x, y, x.size, factor)
        return y


@pytest.mark.parametrize("n", [1, 1000])
def test_scale(n):
    x = np.arange(n, dtype=np.float32)
    np.testing.assert_array_equal(Scale.apply(x, 3.0), 3 * x)
    np.testing.assert_array_equal(Scale.apply(Scale.apply(x, 3.0), 0.5), 1.5 * x)
    assert triton.testing.do_bench(lambda: Scale.apply(x, 2.0)) > 0


def test_a_wrong_expectation_fails():
    with pytest.raises(AssertionError):
        triton.testing.assert_close(Scale.apply(np.ones(4, np.float32), 2.0), np.full(4, 3.0))


def test_driver():
    assert driver.active.utils.get_device_properties(0)["multiprocessor_count"] == 8
'''


@pytest.fixture
def installed():
    kb_triton.install()
    yield
    kb_triton.uninstall()


def run(folder, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(folder), "KB_TOPOLOGY": str(TOPOLOGY)}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("first", ["kb_triton.install()", "import torch; kb_triton.install()"])
def test_torch_finds_no_triton(tmp_path, first):
    for name, text in TORCH.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "script.py").write_text(SCRIPT.format(first=first), encoding="utf-8")
    done = run(tmp_path, "script.py")
    assert (done.returncode, done.stderr) == (0, "")


GENERATED = """
import sys
import kb_triton
{first}
import numpy as np
import triton
import triton.language as tl
from torch._inductor.runtime import triton_compat, triton_helpers


@triton.jit
def kernel(x, y):
    tl.store(y + tl.arange(0, 4), triton_helpers.root(tl.load(x + tl.arange(0, 4))))


y = np.zeros(4, np.float32)
kernel[(1,)](np.arange(4, dtype=np.float32) ** 2, y)
assert y.tolist() == [0, 1, 2, 3]
assert triton_compat.triton is None and sys.modules["torch._inductor.runtime.triton_compat"] is triton_compat
assert sys.modules["torch._inductor.runtime.beside"] is triton_helpers.beside
kb_triton.uninstall()
assert "torch._inductor.runtime.triton_helpers" not in sys.modules
"""
BEFORE = """
import torch._inductor.runtime.triton_compat as compat
compat.libdevice, compat.triton = None, kb_triton
import torch._inductor.runtime.triton_helpers
compat.triton = None
kb_triton.install()
"""


@pytest.mark.parametrize("first", ["kb_triton.install()", BEFORE])
def test_generated_kernels_find_their_helpers(tmp_path, first):
    for name, text in TORCH.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "script.py").write_text(GENERATED.format(first=first), encoding="utf-8")
    done = run(tmp_path, "script.py")
    assert (done.returncode, done.stderr) == (0, "")


def test_an_unmodified_test_file_passes_and_its_conftest_finds_the_modules(tmp_path):
    conftest = "import triton\nassert triton.runtime.driver.active.get_current_target().backend == 'kb'\n"
    (tmp_path / "conftest.py").write_text(conftest, encoding="utf-8")
    (tmp_path / "test_op.py").write_text(TEST_FILE, encoding="utf-8")
    done = run(tmp_path, "-m", "pytest", "-q", "-p", "kb_triton", "-p", "no:cacheprovider", "test_op.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout
    assert "kb_triton: 9 launches, " in done.stdout


def test_a_conftest_may_name_the_plugin(tmp_path):
    (tmp_path / "conftest.py").write_text("pytest_plugins = ['kb_triton.pytest_plugin']\n", encoding="utf-8")
    (tmp_path / "test_op.py").write_text("import triton\n\n\ndef test_op():\n    assert triton.jit\n", encoding="utf-8")
    done = run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--kb-issue=blocking", "test_op.py")
    assert done.returncode == 0, done.stdout + done.stderr


def test_options_of_the_plugin_are_checked(tmp_path):
    (tmp_path / "test_op.py").write_text(TEST_FILE, encoding="utf-8")
    done = run(tmp_path, "-m", "pytest", "-q", "-p", "kb_triton", "--kb-autotune=0", "test_op.py")
    assert done.returncode == 4
    assert "--kb-autotune: got '0', needs all, first, or a number from 1 on" in done.stderr
    assert "Traceback" not in done.stderr


def test_uninstall_takes_everything_back():
    before = {name for name in sys.modules if name.partition(".")[0] == "triton"}
    kb_triton.install()
    kb_triton.install()
    assert sys.modules["triton"].language is sys.modules["triton.language"]
    kb_triton.uninstall()
    assert {name for name in sys.modules if name.partition(".")[0] == "triton"} == before
    kb_triton.uninstall()


def test_libraries_find_the_package_and_its_release(installed):
    assert find_spec("triton") is not None
    assert find_spec("triton.language.extra") is not None
    assert find_spec("triton.ops") is find_spec("triton.experimental") is None
    assert metadata.version("triton") == metadata.version("Triton") == sys.modules["triton"].__version__
    assert "triton" in [each.name for each in metadata.distributions()]
    with pytest.raises(ModuleNotFoundError, match=r"triton\.ops: got a module that kb-triton does not have"):
        import_module("triton.ops")


def test_estimates_of_libraries_get_facts_of_the_chip(installed):
    from triton.testing import get_dram_gbps, get_max_simd_tflops, get_max_tensorcore_tflops, nvsmi

    assert get_dram_gbps() == 819.2  # one_cube: 8 slices of 102.4 GB/s
    assert nvsmi(["clocks.max.sm"]) == [1000]
    halves = get_max_tensorcore_tflops("torch.float16", 1e6)
    assert halves == 65.536  # 8 PEs of 4096 multiply-adds a cycle at 1 GHz
    assert get_max_tensorcore_tflops(kb_triton.language.float16) == halves
    assert get_max_tensorcore_tflops(np.float16) == halves
    assert get_max_tensorcore_tflops(kb_triton.language.float8e5) == 2 * halves
    with pytest.raises(KbError, match="got get_max_simd_tflops, needs get_max_tensorcore_tflops"):
        get_max_simd_tflops("torch.float32")
    with pytest.raises(KbError, match="got nvsmi of power, needs clocks: the chip is no GPU"):
        nvsmi(["power"])


def test_names_that_there_are(installed):
    import triton
    import triton.language.extra.cuda.libdevice as of_cuda
    from triton.language.extra import libdevice
    from triton.runtime.errors import OutOfResources
    from triton.runtime.jit import JITFunction
    from triton.tools.tensor_descriptor import TensorDescriptor

    assert of_cuda is libdevice
    assert OutOfResources is triton.OutOfResources
    assert JITFunction is kb_triton.JITFunction
    assert triton.language.math.exp is not None
    described = TensorDescriptor.from_tensor(np.zeros((4, 6), np.float16), [2, 2])
    assert (described.shape, described.strides) == ([4, 6], [6, 1])
    with pytest.raises(AttributeError) as caught:
        triton.autotun  # noqa: B018
    assert str(caught.value).startswith(
        "triton.autotun: got a name that kb-triton does not have; did you mean 'autotune"
    )
    assert not hasattr(triton, "experimental_profiler")


def test_random_numbers_are_a_module_of_the_language(installed):
    import triton.language as tl
    from triton.language.random import philox, randint4x

    assert tl.random.philox is philox
    assert tl.philox is philox
    assert tl.randint4x is randint4x
    everything = {}
    exec("from triton.language.random import *", everything)
    assert "philox_impl" in everything
    assert "as_tensor" not in everything


def test_names_of_the_compiler_are_there_and_refused(installed):
    import triton.compiler
    import triton.compiler.compiler
    from triton.compiler import ASTSource, CompiledKernel, make_backend

    assert CompiledKernel is triton.compiler.compiler.CompiledKernel
    for call in (ASTSource, make_backend, triton.compiler.compiler.ASTSource, triton.compiler.compiler.compile):
        with pytest.raises(KbError, match=r"got triton\.compiler\..*, needs kernel\[grid\].*: nothing is compiled$"):
            call(fn=None, signature={})


def test_a_profiler_is_named_and_not_started(installed):
    import triton.profiler as proton
    import triton.profiler.viewer as viewer

    @proton.scope("a step")
    def step():
        proton.deactivate()
        return 7

    with proton.scope("both", metrics={"flops": 2.0}):
        assert step() == 7
    for call in (proton.start, proton.finalize, viewer.parse):
        with pytest.raises(KbError, match=r"needs kb report, which says where the time of a launch went$"):
            call("matmul", hook="triton")


def test_names_that_do_nothing_here(installed):
    import triton
    import triton.language as tl

    triton.set_allocator(lambda size, alignment, stream: None)
    assert triton.constexpr_function(lambda n: n + 1)(2) == 3
    with triton.knobs.amd.scope():
        triton.knobs.amd.use_buffer_ops = True
        assert triton.knobs.amd.use_buffer_ops
    assert triton.knobs.amd.use_buffer_ops is None
    assert tl.target_info.is_cuda() is False
    assert tl.target_info.current_target().backend == "kb"
    tl.extra.cuda.gdc_wait()
    assert tl.math.tanh is tl.extra.libdevice.tanh
    with pytest.raises(ModuleNotFoundError) as caught:
        from triton.experimental import gluon  # noqa: F401
    assert str(caught.value) == (
        "triton.experimental: got Gluon, needs tl: kernels in Gluon choose layouts and memories of one GPU"
    )


def test_the_driver_answers_with_the_chip(installed, device):
    import triton

    active = triton.runtime.driver.active
    found = active.utils.get_device_properties(active.get_current_device())
    assert found == {
        "multiprocessor_count": 8, "max_shared_mem": (2048 - 768) * 1024, "max_num_regs": 512 * 256, "warpSize": 32,
        "sm_clock_rate": 1_000_000, "mem_clock_rate": 3_200_000, "mem_bus_width": 1024,
    }  # fmt: skip
    assert active.get_current_target().backend == "kb"
    assert active.get_current_target().arch == device.topology.name == "one_cube"


def test_integers_of_the_host():
    assert [cdiv(n, 4) for n in (0, 1, 4, 5)] == [0, 1, 1, 2]
    assert [next_power_of_2(n) for n in (0, 1, 2, 3, 1000, 1024)] == [0, 1, 2, 4, 1024, 1024]


HOST_NAMES = {
    "triton": "AsyncCompileMode FutureKernel InterpreterError MockTensor TensorWrapper reinterpret constexpr_function",
    "triton.runtime": "InterpreterError MockTensor TensorWrapper RemoteCacheBackend reinterpret cache driver",
    "triton.runtime.cache": "CacheManager FileCacheManager RemoteCacheManager default_cache_dir get_cache_manager "
    "get_dump_manager get_override_manager triton_key",
    "triton.runtime.jit": "JITCallable KernelParam MockTensor TensorWrapper reinterpret mangle_type",
    "triton.runtime.autotuner": "AutotunerError PTXASError Autotuner Config",
    "triton.runtime.build": "compile_module_from_src compile_module_from_file",
    "triton.compiler.errors": "CompilationError CompileTimeAssertionFailure UnsupportedLanguageConstruct TritonError",
    "triton.compiler.code_generator": "CodeGenerator ast_to_ttir",
    "triton._C.libtriton": "getenv getenv_bool get_cache_invalidating_env_vars ir llvm passes nvidia amd interpreter",
    "triton._utils": "TRITON_MAX_TENSOR_NUMEL get_primitive_bitwidth is_power_of_two validate_block_shape",
    "triton.testing": "do_bench_proton do_bench_cudagraph_proton cuda_memcheck set_gpu_clock",
    "triton.tools": "LinearLayout",
}


@pytest.mark.parametrize("module", HOST_NAMES)
@pytest.mark.usefixtures("installed")
def test_host_code_finds_the_names_of_a_module(module):
    found = import_module(module)
    for name in HOST_NAMES[module].split():
        assert getattr(found, name) is not None


@pytest.mark.usefixtures("installed")
def test_parts_of_the_compiler_are_refused_when_they_are_used():
    library, tools = import_module("triton._C.libtriton"), import_module("triton.tools")
    for use, sentence in (
        (lambda: library.ir.context(), "triton._C.libtriton.ir.context: got a part of Triton's compiler, needs kernel"),
        (lambda: library.native_specialize_impl(1), "got triton._C.libtriton.native_specialize_impl, needs kernel"),
        (lambda: tools.LinearLayout.identity_1d(4), "triton.tools.LinearLayout.identity_1d: got a part of"),
        (lambda: import_module("triton").FutureKernel.result(), "triton.FutureKernel.result: got a part of"),
        (lambda: import_module("triton.runtime.cache").RemoteCacheManager("a"), "needs FileCacheManager"),
        (lambda: import_module("triton.testing").set_gpu_clock(), "needs a chip with other clocks"),
        (lambda: import_module("triton.compiler").compile(None), "got triton.compiler.compile, needs kernel"),
        (lambda: import_module("triton").compile(None), "got triton.compile, needs kernel"),
    ):
        with pytest.raises(KbError, match=sentence):
            use()
    assert not hasattr(library.passes, "ttir")


@pytest.mark.usefixtures("installed")
def test_functions_of_the_library_and_of_utilities(monkeypatch):
    library, utilities = import_module("triton._C.libtriton"), import_module("triton._utils")
    monkeypatch.setenv("A_SWITCH", "ON")
    assert library.getenv("A_SWITCH") == "ON"
    assert library.getenv("NO_SWITCH", "5") == "5"
    assert library.getenv_bool("A_SWITCH", False)
    assert not library.getenv_bool("NO_SWITCH", False)
    assert library.get_cache_invalidating_env_vars() == {}
    assert utilities.get_primitive_bitwidth("bf16") == 16
    assert utilities.canonicalize_dtype("torch.float16") == "fp16"
    assert utilities.canonicalize_ptr_dtype(np.dtype("int64"), True) == "*ki64"
    assert utilities.validate_block_shape([2, 8]) == 16
    with pytest.raises(ValueError, match="power of 2"):
        utilities.validate_block_shape([3])
    mock = import_module("triton").MockTensor("torch.float32", [4, 8])
    assert (mock.stride(), mock.data_ptr(), import_module("triton").MockTensor.wrap_dtype(3)) == ((8, 1), 0, 3)
    with import_module("triton").AsyncCompileMode(None):
        pass


@pytest.mark.usefixtures("installed")
def test_files_of_host_code_are_kept(tmp_path, monkeypatch):
    cache = import_module("triton.runtime.cache")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    assert cache.default_cache_dir() == str(tmp_path)
    kept = cache.get_cache_manager("ab12")
    assert kept.get_file("best.json") is None
    path = kept.put("{}", "best.json", binary=False)
    assert Path(path).read_text() == "{}"
    assert Path(path).parent.parent == tmp_path
    assert cache.get_cache_manager("ab12").get_file("best.json") == path
    assert Path(kept.put(b"\0", "raw")).read_bytes() == b"\0"
    kept.put_group("all", {"best": path})
    assert kept.get_group("all") == {"best": path}
    Path(path).unlink()
    assert kept.get_group("all") is None
    assert kept.get_group("other") is None
    with pytest.raises(KbError, match="needs the hexadecimal digits of a hash"):
        cache.get_cache_manager("no hash")
