"""Names of Triton's compiler and of its library in C++ that host code imports, without a compiler behind them."""

from __future__ import annotations

import os
from contextlib import nullcontext
from math import prod
from types import SimpleNamespace
from typing import Any, Final, NoReturn

from kb_messages import KbError
from kb_triton.language import TRITON_MAX_TENSOR_NUMEL, str_to_ty
from kb_triton.language.missing import refusing
from kb_triton.language.tensors.dtypes import SHORT_NAMES

_COMPILED: Final = "kernel[grid](...): nothing is compiled here"
_OF_C: Final = ("amd", "gluon_ir", "interpreter", "ir", "linear_layout", "llvm", "nvidia", "passes", "proton")
_TRUE: Final = frozenset(("1", "on", "true", "y", "yes"))


class CompilerPart(SimpleNamespace):
    """A part *name* of Triton's compiler. It can be imported, and the use of any name in it is refused."""

    def __init__(self, name: str) -> None:
        super().__init__(__name__=name)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise CompilerPartError(f"{vars(self)['__name__']}.{name}", "a part of Triton's compiler", _COMPILED)


class CompilerPartError(KbError, AttributeError):
    """A part of Triton's compiler was used. `hasattr` takes the error as an AttributeError."""


def getenv(name: str, default: Any = None) -> Any:
    """Returns the environment variable *name*, or *default*."""
    return os.environ.get(name, default)


def getenv_bool(name: str, default: bool = False) -> bool:
    """Returns whether the environment variable *name* is 1, on, true, y or yes; without it, *default*."""
    found = os.environ.get(name)
    return default if found is None else found.lower() in _TRUE


class MockTensor:
    """Stands for an array of *dtype*, a type of torch, and *shape* in a `warmup`."""

    def __init__(self, dtype: Any, shape: Any = None) -> None:
        self.dtype = dtype
        self.shape = [1] if shape is None else shape

    @staticmethod
    def wrap_dtype(arg: Any) -> Any:
        """Returns a type of torch as such an object, and anything else as it is."""
        kind = type(arg)
        return MockTensor(arg) if (kind.__name__, kind.__module__) == ("dtype", "torch") else arg

    def stride(self) -> tuple[int, ...]:
        """Returns the steps of a contiguous array, in elements."""
        return tuple(prod(self.shape[at + 1 :]) for at in range(len(self.shape)))

    @staticmethod
    def data_ptr() -> int:
        """Returns 0."""
        return 0


class AsyncCompileMode(nullcontext[None]):
    """A block in which kernels would be compiled by *executor*. There is nothing to compile."""

    def __init__(self, executor: Any, *, ignore_errors: bool = False) -> None:
        super().__init__()
        self.executor = executor


def get_primitive_bitwidth(dtype: Any) -> int:
    """Returns the bits of an element of the type that is called *dtype*. Raises KernelError for another text."""
    return str_to_ty(dtype).primitive_bitwidth


def canonicalize_dtype(dtype: Any) -> str:
    """Returns the short name, such as `fp16`, of a type of torch, of numpy or of `tl`, or of its name.

    Raises KernelError for a type that Triton does not have.
    """
    return str_to_ty(str(dtype).rpartition(".")[2]).mangle()


def canonicalize_ptr_dtype(dtype: Any, is_const: bool) -> str:
    """Returns the short name of pointers to elements of *dtype*, such as `*fp16`."""
    return f"*{'k' if is_const else ''}{canonicalize_dtype(dtype)}"


def is_power_of_two(x: int) -> bool:
    """Whether *x* is a power of 2."""
    return x > 0 and not x & (x - 1)


def validate_block_shape(shape: Any) -> int:
    """Returns the number of elements of a block. Raises ValueError for a size that is no power of 2, and for too many.

    Raises TypeError for a size that is no integer.
    """
    for at, size in enumerate(shape):
        if not isinstance(size, int):
            raise TypeError(f"Shape element {at} must have type `constexpr[int]`, got `constexpr[{type(size)}]`")
        if not is_power_of_two(size):
            raise ValueError(f"Shape element {at} must be a power of 2")
    count = int(prod(shape))
    if count > TRITON_MAX_TENSOR_NUMEL:
        raise ValueError(f"numel ({count}) exceeds triton maximum tensor numel ({TRITON_MAX_TENSOR_NUMEL})")
    return count


def is_namedtuple(val: Any) -> bool:
    """Whether *val* is a class of named tuples."""
    return isinstance(val, type) and issubclass(val, tuple) and hasattr(val, "_fields")


def compiler_names() -> dict[str, dict[str, Any]]:
    """Returns the names of each module, by the name of the module."""
    library = {name: CompilerPart(f"triton._C.libtriton.{name}") for name in _OF_C}
    functions = {
        "get_cache_invalidating_env_vars": dict, "getenv": getenv, "getenv_bool": getenv_bool,
        "native_specialize_impl": refusing("triton._C.libtriton.native_specialize_impl", _COMPILED),
    }  # fmt: skip
    return {
        "triton._C": {},
        "triton._C.libtriton": {**library, **functions},
        "triton._utils": {
            each.__name__: each
            for each in (
                canonicalize_dtype, canonicalize_ptr_dtype, get_primitive_bitwidth, is_namedtuple, is_power_of_two,
                validate_block_shape,
            )
        } | {"TRITON_MAX_TENSOR_NUMEL": TRITON_MAX_TENSOR_NUMEL, "type_canonicalisation_dict": SHORT_NAMES},
        "triton.compiler.code_generator": {
            "CodeGenerator": CompilerPart("triton.compiler.code_generator.CodeGenerator"),
            "ast_to_ttir": refusing("triton.compiler.code_generator.ast_to_ttir", _COMPILED),
        },
        "triton.runtime._async_compile": {"AsyncCompileMode": AsyncCompileMode},
    }  # fmt: skip
