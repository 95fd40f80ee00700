"""The names for host code in the modules that stand for Triton's, by module."""

from __future__ import annotations

import operator
from contextlib import ContextDecorator
from typing import Any, Final

from kb_messages import KbError, KernelError
from kb_triton.checking import CompilationError, CompileTimeAssertionFailure, UnsupportedLanguageConstruct
from kb_triton.host import OutOfResources, Reinterpreted, TensorDescriptor
from kb_triton.jit import CompiledKernel, JITFunction, KernelParameter, jit
from kb_triton.language import extra
from kb_triton.language.missing import refusing
from kb_triton.language.tensors.constexprs import aggregate
from kb_triton.language.tensors.dtypes import SHORT_NAMES
from kb_triton.runtime import DRIVER, Autotuner, Config, GPUTarget, Heuristics, Knobs, autotune, heuristics
from kb_triton.shims.compiler_names import (
    AsyncCompileMode,
    CompilerPart,
    MockTensor,
    canonicalize_dtype,
    compiler_names,
)
from kb_triton.shims.file_cache import NAMES as OF_THE_CACHE
from kb_triton.shims.microscaling import MXFP4Tensor, MXScaleTensor, fp8e8m0_to_float32

VERSION: Final = "3.8.0"
"""The release of Triton whose names these are."""
_OF_A_GPU: Final = "functions of tl: the chip has no extensions of one vendor"
_REPORTS: Final = "kb report, which says where the time of a launch went"
_REFUSED: Final = {
    "triton.language.extra.cuda": (
        ("globaltimer", "smid", "num_threads", "num_warps", "convert_custom_float8_sm70", "convert_custom_float8_sm80"),
        _OF_A_GPU,
    ),
    "triton.language.extra.hip": (("memrealtime", "num_threads", "num_warps", "smid"), _OF_A_GPU),
    "triton.tools.disasm": (("extract", "get_sass"), "no machine code: kernels run as Python"),
    "triton.tools.experimental_descriptor": (
        ("create_1d_tma_descriptor", "create_2d_tma_descriptor", "create_2d_tma_descriptor_type"),
        "triton.tools.tensor_descriptor.TensorDescriptor",
    ),
    "triton.tools.ragged_tma": (
        ("atomic_add_ragged", "create_ragged_descriptor", "load_ragged", "store_ragged", "to_ragged_indices"),
        "triton.tools.tensor_descriptor.TensorDescriptor, and a mask for the rows",
    ),
    "triton.profiler": (("start", "profile", "finalize"), _REPORTS),
    "triton.profiler.viewer": (("get_raw_metrics", "parse", "print_tree", "read"), _REPORTS),
    **dict.fromkeys(
        ("triton.compiler", "triton.compiler.compiler"),
        (
            ("ASTSource", "IRSource", "LazyDict", "compile", "get_cache_key", "make_backend", "max_shared_mem"),
            "kernel[grid](...): nothing is compiled",
        ),
    ),
    "triton.runtime.build": (
        (
            "get_cc",
            "compile_module_from_file",
            "compile_module_from_src",
            "compile_so_from_file",
            "compile_so_from_src",
        ),
        "kernels in Python: nothing is compiled",
    ),
}
"""Functions, by module, that can be imported and whose calls are refused, with the text of what to use instead."""


def cdiv(x: Any, y: Any) -> Any:
    """Returns x / y rounded up, of integers of the host or of a kernel."""
    return (x + y - 1) // y


def next_power_of_2(n: Any) -> int:
    """Returns the least power of 2 that is *n* or more; 0 for 0. *n* is an integer, or a constant of a kernel."""
    n = operator.index(getattr(n, "value", n))
    return 1 << (n - 1).bit_length() if n > 0 else 0


def reinterpret(tensor: Any, dtype: Any) -> Any:
    """Returns *tensor* as an argument whose bytes a kernel takes for elements of *dtype*."""
    base = tensor.base if isinstance(tensor, Reinterpreted) else tensor
    return Reinterpreted(base, dtype)


def cuda_capability_geq(major: Any, minor: Any = 0) -> bool:
    """Whether `--pretend cuda` is on, and its capability is at least *major*.*minor*."""
    return DRIVER.active.backend == "cuda" and DRIVER.active.get_device_capability() >= (major, minor)


def set_allocator(allocator: Any) -> None:
    """Does nothing: an *allocator* gives a kernel memory beside its arguments, and kernels here need none."""


class ChipBackend:
    """The one backend of `triton.backends.backends`. Its `driver` is a class, as those of Triton's backends are."""

    class driver:
        """Makes the driver of the chip."""

        def __new__(cls) -> Any:
            """Returns the driver of the chip, which is there already."""
            return DRIVER.active

        @staticmethod
        def is_active() -> bool:
            """True."""
            return True


class Scope(ContextDecorator):
    """A named part of host code for a profiler. It does nothing, since starting the profiler is refused."""

    def __init__(self, *names: Any, **metrics: Any) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


def no_profile(*arguments: Any, **named: Any) -> None:
    """Does nothing: no profile was started."""


class HostError(KbError):
    """An error of Triton that host code may catch. Nothing here raises it."""


def host_names() -> dict[str, dict[str, Any]]:
    """Returns the names for host code of each module, by the name of the module."""
    found = _of_launches() | _of_the_compiler() | _of_tools() | compiler_names()
    for name, (functions, needs) in _REFUSED.items():
        found[name] = {each: refusing(f"{name}.{each}", needs) for each in functions} | found.get(name, {})
    return found


def _of_launches() -> dict[str, dict[str, Any]]:
    runtime = {
        "Autotuner": Autotuner, "Config": Config, "Heuristics": Heuristics, "JITFunction": JITFunction,
        "KernelInterface": JITFunction, "OutOfResources": OutOfResources, "autotune": autotune, "driver": DRIVER,
        "heuristics": heuristics,
    }  # fmt: skip
    arrays = {"MockTensor": MockTensor, "TensorWrapper": Reinterpreted, "reinterpret": reinterpret}
    functions = {"constexpr_function": constexpr_function, "jit": jit, **arrays}
    errors = dict.fromkeys(("AutotunerError", "InterpreterError", "PTXASError"), HostError)
    compiled = {
        "AsyncCompileMode": AsyncCompileMode, "FutureKernel": CompilerPart("triton.FutureKernel"),
        "compile": refusing("triton.compile", "kernel[grid](...): nothing is compiled"),
    }  # fmt: skip
    return {
        "triton": runtime | functions | compiled | {
            "CompilationError": CompilationError, "InterpreterError": HostError, "TritonError": KernelError,
            "__version__": VERSION, "aggregate": aggregate, "cdiv": cdiv, "must_use_result": must_use_result,
            "next_power_of_2": next_power_of_2, "set_allocator": set_allocator,
        },
        "triton.runtime": runtime | arrays | {
            "InterpreterError": HostError, "RemoteCacheBackend": OF_THE_CACHE["RemoteCacheBackend"],
        },
        "triton.runtime._allocation": {"set_allocator": set_allocator, "set_profile_allocator": set_allocator},
        "triton.runtime.autotuner": runtime | errors,
        "triton.runtime.cache": OF_THE_CACHE,
        "triton.runtime.driver": {"driver": DRIVER, "active": DRIVER.active},
        "triton.runtime.errors": errors | {"OutOfResources": OutOfResources, "TritonError": KernelError},
        "triton.runtime.jit": runtime | functions | {
            "JITCallable": JITFunction, "KernelParam": KernelParameter, "mangle_type": canonicalize_dtype,
            "type_canonicalisation_dict": SHORT_NAMES,
        },
    }  # fmt: skip


def _of_the_compiler() -> dict[str, dict[str, Any]]:
    errors = {
        each.__name__: each for each in (CompilationError, CompileTimeAssertionFailure, UnsupportedLanguageConstruct)
    }
    return {
        "triton.backends": {"backends": {"kb": ChipBackend}},
        "triton.backends.compiler": {"GPUTarget": GPUTarget},
        "triton.compiler": {"CompiledKernel": CompiledKernel, "CompilationError": CompilationError},
        "triton.compiler.compiler": {"CompiledKernel": CompiledKernel},
        "triton.compiler.errors": {**errors, "TritonError": KernelError},
        "triton.errors": {"TritonError": KernelError},
        "triton.knobs": dict(Knobs.groups()),
    }


def _of_tools() -> dict[str, dict[str, Any]]:
    return {
        "triton.profiler": {
            **dict.fromkeys(("cpu_timed_scope", "metadata_state", "scope", "state"), Scope),
            **dict.fromkeys(
                ("activate", "deactivate", "enter_scope", "enter_state", "exit_scope", "exit_state"), no_profile
            ),
        },
        "triton.tools": {"LinearLayout": CompilerPart("triton.tools.LinearLayout")},
        "triton.tools.mxfp": {
            "MXFP4Tensor": MXFP4Tensor,
            "MXScaleTensor": MXScaleTensor,
            "fp8e8m0_to_float32": fp8e8m0_to_float32,
        },
        "triton.tools.tensor_descriptor": {"TensorDescriptor": TensorDescriptor},
        "triton.language.extra": {},
        "triton.language.extra.cuda": {"gdc_wait": extra.cuda.gdc_wait, "gdc_launch_dependents": extra.cuda.gdc_wait},
        "triton.language.extra.intel": {},
        "triton.language.target_info": {
            "cuda_capability_geq": cuda_capability_geq,
            "current_target": DRIVER.active.get_current_target,
            "is_cuda": lambda: DRIVER.active.backend == "cuda",
            **dict.fromkeys(("is_hip", "is_hip_cdna3", "is_hip_cdna4", "is_hip_gfx1250"), lambda: False),
        },
    }


def constexpr_function(fn: Any) -> Any:
    """Returns *fn*, a function of constants, marked so that kernels may call it."""
    fn.__is_constexpr_function__ = True
    return fn


def must_use_result(fn: Any, words: Any = True) -> Any:
    """Returns the function *fn*. With a text, the words of an error, returns the decorator."""
    return must_use_result if isinstance(fn, str) else fn
