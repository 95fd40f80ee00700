"""JITFunction: a kernel, or a function that kernels call. Its source runs as it stands."""

from __future__ import annotations

import hashlib
import inspect
import operator
import re
import sys
import textwrap
from collections.abc import Callable, Mapping
from functools import update_wrapper
from types import FunctionType
from typing import Any

import numpy as np

from kb_messages import KernelError
from kb_triton.host import current
from kb_triton.jit.arguments import KernelParameter, check_integers, misfit
from kb_triton.jit.compiled import CompiledKernel, launching
from kb_triton.jit.entry import KernelEntry
from kb_triton.jit.runnable import Runnable
from kb_triton.language.tensors import program as programs

OPTIONS = frozenset(
    (
        "num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion", "launch_cooperative_grid", "launch_pdl",
        "waves_per_eu", "matrix_instr_nonkdim", "kpack", "allow_fp8e4nv", "grid", "warmup", "debug", "stream",
        "extern_libs", "warp_size", "cluster_dims", "ptx_version", "ptx_options", "ir_override", "sanitize_overflow",
        "arch", "schedule_hint", "minRegAutoWS", "maxRegAutoWS", "max_num_imprecise_acc_default", "backend_name",
        "supported_fp8_dtypes", "default_dot_input_precision", "instrumentation_mode", "enable_reflect_ftz",
    )
)  # fmt: skip
"""Named arguments of a launch that are no arguments of the kernel. They do nothing."""


class JITFunction:
    """The function *fn*, which `@jit` decorates. `f[grid](...)` launches it, and kernels call it."""

    def __init__(self, fn: Callable[..., Any], do_not_specialize: Any = None, noinline: Any = None) -> None:
        self.fn = fn
        self.signature = inspect.signature(fn)
        self.arg_names = list(self.signature.parameters)
        plain = frozenset(do_not_specialize or ())
        self.params = [
            KernelParameter(at, each, each.name in plain or at in plain)
            for at, each in enumerate(self.signature.parameters.values())
        ]
        self.constexprs = [each.num for each in self.params if each.is_constexpr]
        self._runnable: Runnable | None = None
        self.pre_run_hooks: list[Callable[..., None]] = []
        self.device_caches: dict[int, tuple[dict[str, CompiledKernel], ...]] = {0: ({}, {})}
        self._constants = frozenset(self.arg_names[at] for at in self.constexprs)
        self.module = fn.__module__
        self.__name__ = fn.__name__
        self.__globals__ = fn.__globals__
        update_wrapper(self, fn)
        self._made_with = frozenset(vars(self))

    @property
    def is_as_made(self) -> bool:
        """Whether nobody gave the function an attribute, which a kernel could read."""
        return self._made_with.issuperset(name for name in vars(self) if name != "_made_with")

    def __getitem__(self, grid: Any) -> Callable[..., CompiledKernel]:
        return _untraced(launching(self.run, grid))

    @property
    def src(self) -> str:
        """The source of the function from its `def` on, without indentation; code generators of libraries copy it."""
        source = textwrap.dedent(inspect.getsource(self.fn))
        found = re.search(r"^def\s", source, re.MULTILINE)
        return source[found.start() :] if found else source

    @property
    def cache_key(self) -> str:
        """The sha256 of the source, in hex, by which libraries remember what they know of a kernel."""
        return hashlib.sha256(self.src.encode()).hexdigest()

    def add_pre_run_hook(self, hook: Callable[..., None]) -> None:
        """Call *hook* with the arguments of each launch, before it."""
        self.pre_run_hooks.append(hook)

    def warmup(self, *arguments: Any, grid: Any = (1,), **named: Any) -> CompiledKernel:
        """What `run` returns, without a launch. Nothing is compiled."""
        return self.run(*arguments, grid=grid, warmup=True, **named)

    def run(self, *arguments: Any, grid: Any, warmup: bool = False, **named: Any) -> CompiledKernel:
        """Launch the kernel over *grid*, a tuple or a function of the arguments."""
        return self._run(arguments, named, grid, warmup)

    def _run_again(
        self, arguments: tuple[Any, ...], named: Mapping[str, Any], grid: Any, kept: Mapping[str, Any]
    ) -> CompiledKernel:
        """Launch a compiled kernel, which has *kept* its constexpr arguments and options.

        *arguments* are those of all parameters, or as until Triton 3.2 those of all that are no constexpr. Raises
        KernelError for arguments that can be read both ways, and for another value of a constexpr argument.
        """
        names = self._names_again(len(arguments), named)
        stated = {**dict(zip(names, arguments, strict=False)), **named}
        for name in (self.arg_names[at] for at in self.constexprs):
            if name in stated and name in kept and not _is_same(stated[name], kept[name]):
                raise KernelError(
                    f"launch of {self.__name__}, which is compiled", f"{name}={stated[name]!r}",
                    f"the constant that it was compiled with, {name}={kept[name]!r}",
                    f"launch {self.__name__} itself with another",
                )  # fmt: skip
        if names is not self.arg_names:
            return self._run((), {**kept, **stated}, grid)
        others = {name: value for name, value in kept.items() if name not in names[: len(arguments)]}
        return self._run(arguments, {**others, **named}, grid)

    def _names_again(self, n_arguments: int, named: Mapping[str, Any]) -> list[str]:
        """The parameters that the positional arguments of `_run_again` are for."""
        plain = [name for name in self.arg_names if name not in self._constants]
        first = self.arg_names[:n_arguments]
        if n_arguments != len(plain) or plain == first or not named.keys().isdisjoint(plain):
            return self.arg_names
        others = self.params[n_arguments:]
        if named.keys().isdisjoint(first) and all(each.is_constexpr or each.has_default for each in others):
            raise KernelError(
                f"launch of {self.__name__}, which is compiled",
                f"arguments that can be {', '.join(first)} or {', '.join(plain)}", "all arguments, or names for them",
            )  # fmt: skip
        return plain

    def _run(
        self, arguments: tuple[Any, ...], named: Mapping[str, Any], grid: Any, warmup: bool = False
    ) -> CompiledKernel:
        """As `run`."""
        kept = {
            name: value for name, value in named.items() if name in self.signature.parameters or name not in OPTIONS
        }
        given = {**dict(zip(self.arg_names, arguments, strict=False)), **kept}
        constants = {
            each.name: given.get(each.name, each.default)
            for each in self.params
            if each.is_constexpr and (each.has_default or each.name in given)
        }
        compiled = CompiledKernel(self.__name__, self._run_again, named, constants)
        self.device_caches[0][0][compiled.key] = compiled
        if warmup:
            return compiled
        bound = self.bound(arguments, kept)
        for hook in self.pre_run_hooks:
            hook(*arguments, **named)
        sizes = grid_sizes(grid(bound) if callable(grid) else grid, self.__name__)
        if 0 not in sizes:
            current().launch(self, sizes, bound)
        return compiled

    @property
    def cache(self) -> dict[int, dict[str, CompiledKernel]]:
        """What launches returned, by device and key, as host code looks for facts of compiled kernels."""
        return {device: found[0] for device, found in self.device_caches.items()}

    @property
    def starting_line_number(self) -> int:
        """The line at which the function begins, with its decorators."""
        return self.fn.__code__.co_firstlineno

    def bound(self, arguments: Any, named: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by name, with defaults."""
        try:
            found = self.signature.bind(*arguments, **named)
        except TypeError as error:
            raise misfit(self.__name__, self.params, len(arguments), named, OPTIONS, str(error)) from None
        found.apply_defaults()
        return dict(found.arguments)

    def entry(self, arguments: Mapping[str, Any]) -> KernelEntry:
        """The function that a program calls with its machine. *arguments* has pointers in place of arrays.

        Raises KernelError for an integer beyond 64 bits that is no constant.
        """
        check_integers((name, value) for name, value in arguments.items() if name not in self._constants)
        return KernelEntry(self.fn, self._copy(), arguments, self._constants, _inner)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function from a kernel."""
        if not programs.is_running():
            raise RuntimeError("Cannot call @triton.jit'd outside of the scope of a kernel")
        return self._copy()(*arguments, **named)

    def _copy(self) -> Callable[..., Any]:
        """The function that runs."""
        if not isinstance(self.fn, FunctionType):
            return self.fn
        if self._runnable is None or self._runnable.fn is not self.fn:
            self._runnable = Runnable(self.fn)
        return self._runnable.function()

    def __repr__(self) -> str:
        return f"JITFunction({self.module}:{self.fn.__qualname__})"


def _inner(value: object) -> Any:
    """The function of a JITFunction that is as it was made; None for anything else."""
    return value.fn if isinstance(value, JITFunction) and value.is_as_made else None


def _is_same(stated: Any, fixed: Any) -> bool:
    """Whether the constants are equal. An array, which is compared by elements, equals none."""
    same = stated is fixed or stated == fixed
    return isinstance(same, (bool, np.bool_)) and bool(same)


def _untraced(launch: Callable[..., CompiledKernel]) -> Callable[..., CompiledKernel]:
    """*launch*, which `torch.compile` calls as it is: the simulator is nothing to compile."""
    dynamo = sys.modules.get("torch._dynamo")
    return launch if dynamo is None else dynamo.disable(launch)


def grid_sizes(grid: Any, name: str) -> tuple[int, ...]:
    """The sizes of a grid. Raises KernelError, which says the *name* of the kernel, for what is no grid."""
    sizes = tuple(grid) if isinstance(grid, (tuple, list)) else (grid,)
    try:
        found = tuple(operator.index(getattr(each, "value", each)) for each in sizes)
    except TypeError:
        found = ()
    if not 1 <= len(found) <= 3 or min(found) < 0:
        raise KernelError(f"launch of {name}", f"a grid of {grid!r}", "one to three integers of 0 or more")
    return found


def jit(fn: Any = None, *, do_not_specialize: Any = None, **options: Any) -> Any:
    """A decorator for kernels, and for functions that kernels call.

    *do_not_specialize*, names or numbers of parameters, is what libraries read in `params`. All other options do
    nothing.
    """
    if fn is None:
        return lambda function: JITFunction(function, do_not_specialize)
    return JITFunction(fn, do_not_specialize)
