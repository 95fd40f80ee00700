"""JITFunction: a kernel, or a function that kernels call. Its source runs as it stands."""

from __future__ import annotations

import hashlib
import inspect
import operator
import re
import textwrap
from collections.abc import Callable, Mapping
from functools import update_wrapper
from types import FunctionType
from typing import Any, NoReturn

import numpy as np

from kb_messages import KernelError
from kb_triton.checking import LaunchCheck
from kb_triton.host import current
from kb_triton.jit.arguments import KernelParameter, check_integers, check_numpy_numbers, misfit
from kb_triton.jit.compiled import CompiledKernel, launching, unseen
from kb_triton.jit.entry import KernelEntry
from kb_triton.jit.patching import patched
from kb_triton.jit.rewriting import check_source
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
"""Named arguments that a launch takes for itself. They do nothing here."""


class JITFunction:
    """A function *fn* under `@jit`: `f[grid](...)` launches it, and kernels call it. Its source runs as it stands."""

    def __init__(self, fn: Callable[..., Any], do_not_specialize: Any = None, noinline: Any = None) -> None:
        """Keeps *fn*. Raises ValueError, as Triton does, for a function whose source Python does not find."""
        if isinstance(fn, FunctionType):
            check_source(fn)
        self.fn = fn
        self.signature = inspect.signature(fn)
        self.arg_names = list(self.signature.parameters)
        plain = frozenset(do_not_specialize or ())
        self.params = [
            KernelParameter(at, each, each.name in plain or at in plain)
            for at, each in enumerate(self.signature.parameters.values())
        ]
        self.constexprs = [each.num for each in self.params if each.is_constexpr]
        self.noinline = bool(noinline)
        self._runnable: Runnable | None = None
        self._launch_check = LaunchCheck(self)
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
        """Whether no attribute was added to the function. A kernel could read such an attribute."""
        return self._made_with.issuperset(name for name in vars(self) if name != "_made_with")

    @unseen
    def __getitem__(self, grid: Any) -> Callable[..., CompiledKernel]:
        return launching(self.run, grid)

    @property
    def src(self) -> str:
        """The source of the function from its `def` on, without indentation. Code generators of libraries copy it."""
        source = textwrap.dedent(inspect.getsource(self.fn))
        found = re.search(r"^def\s", source, re.MULTILINE)
        return source[found.start() :] if found else source

    def _unsafe_update_src(self, new_src: str) -> None:
        """Makes *new_src*, from its `def` on, the source of the function. Test suites patch templates of kernels so."""
        self.__init__(patched(self.fn, new_src))  # type: ignore[misc]  # the function is another one from here on

    @property
    def cache_key(self) -> str:
        """The sha256 of the source in hex. Libraries use it as the key of facts that they cache about a kernel."""
        return hashlib.sha256(self.src.encode()).hexdigest()

    def add_pre_run_hook(self, hook: Callable[..., None]) -> None:
        """Adds *hook*, which is called with the arguments of each launch before the launch."""
        self.pre_run_hooks.append(hook)

    def warmup(self, *arguments: Any, grid: Any = (1,), **named: Any) -> CompiledKernel:
        """Returns the result of `run` without a launch. Nothing is compiled."""
        return self.run(*arguments, grid=grid, warmup=True, **named)

    def run(self, *arguments: Any, grid: Any, warmup: bool = False, **named: Any) -> CompiledKernel:
        """Launches the kernel over *grid*, a tuple or a function of the arguments by name; with *warmup*, does not.

        Raises KernelError for arguments or a grid that do not fit, and the errors of `Device.launch`.
        """
        return self._run(arguments, named, grid, warmup)

    def _run_again(
        self, arguments: tuple[Any, ...], named: Mapping[str, Any], grid: Any, kept: Mapping[str, Any]
    ) -> CompiledKernel:
        """Launches a compiled kernel, which has *kept* its constexpr arguments and options.

        *arguments* are for all parameters, or, as until Triton 3.2, for all parameters that are no constexpr. Raises
        KernelError for arguments that fit both readings, and for another value of a constexpr argument.
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
        """Returns the names of the parameters that take the positional arguments of `_run_again`."""
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
        """Launches the kernel, or with *warmup* only binds it, and returns it as compiled. `run` has the errors."""
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
            if self._is_complete(arguments, kept):
                self._check(self.bound(arguments, kept), named)
            return compiled
        bound = self.bound(arguments, kept)
        for hook in self.pre_run_hooks:
            hook(*arguments, **named)
        self._check(bound, named)
        sizes = grid_sizes(grid(bound) if callable(grid) else grid, self.__name__)
        if 0 not in sizes:
            current().launch(self, sizes, bound)
        return compiled

    def _is_complete(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> bool:
        """Whether a warm-up states all arguments. Others may follow with a launch of the result."""
        try:
            self.signature.bind(*arguments, **named)
        except TypeError:
            return False
        return True

    def _check(self, bound: Mapping[str, Any], named: Mapping[str, Any]) -> None:
        """Raises CompilationError for a kernel that Triton's compiler refuses, unless the device is lenient."""
        if not current().lenient:
            check_numpy_numbers((name, value) for name, value in bound.items() if name not in self._constants)
            warps = None if "num_warps" in self.signature.parameters else named.get("num_warps")
            self._launch_check.check(bound, self._copy(), warps)

    def preload(self, specialization_data: str) -> NoReturn:
        """Raises KernelError: there is no compiled code to load."""
        got, needs = "preload of compiled code", "kernel[grid](...): nothing is compiled here"
        raise KernelError(f"kernel {self.__name__}", got, needs)

    @property
    def cache(self) -> dict[int, dict[str, CompiledKernel]]:
        """The results of launches by device and key, in which host code finds facts of compiled kernels."""
        return {device: found[0] for device, found in self.device_caches.items()}

    @property
    def starting_line_number(self) -> int:
        """The line of the file at which the function begins, decorators included."""
        return self.fn.__code__.co_firstlineno

    def bound(self, arguments: Any, named: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments by name, with defaults. Raises KernelError for arguments that do not fit."""
        try:
            found = self.signature.bind(*arguments, **named)
        except TypeError as error:
            raise misfit(self.__name__, self.params, len(arguments), named, OPTIONS, str(error)) from None
        found.apply_defaults()
        return dict(found.arguments)

    def entry(self, arguments: Mapping[str, Any]) -> KernelEntry:
        """Returns the function that each program calls. *arguments* has pointers in place of arrays.

        Raises KernelError for an integer beyond 64 bits that is no constant.
        """
        check_integers((name, value) for name, value in arguments.items() if name not in self._constants)
        return KernelEntry(self.fn, self._copy(), arguments, {each.name: each for each in self.params}, _inner)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Calls the function from a kernel. Raises RuntimeError, as Triton does, outside of a kernel."""
        if not programs.is_running():
            raise RuntimeError("Cannot call @triton.jit'd outside of the scope of a kernel")
        return self._copy()(*arguments, **named)

    def _copy(self) -> Callable[..., Any]:
        """Returns the runnable copy of the function."""
        if not isinstance(self.fn, FunctionType):
            return self.fn
        if self._runnable is None or self._runnable.fn is not self.fn:
            self._runnable = Runnable(self.fn)
        return self._runnable.function()

    def __repr__(self) -> str:
        return f"JITFunction({self.module}:{self.fn.__qualname__})"


def _inner(value: object) -> Any:
    """Returns the function of a JITFunction without added attributes; None for any other value."""
    return value.fn if isinstance(value, JITFunction) and value.is_as_made else None


def _is_same(stated: Any, fixed: Any) -> bool:
    """Whether the two constants are equal. An array, which numpy compares by elements, equals no constant."""
    same = stated is fixed or stated == fixed
    return isinstance(same, (bool, np.bool_)) and bool(same)


def grid_sizes(grid: Any, name: str) -> tuple[int, ...]:
    """Returns the sizes of *grid*, up to three. Raises KernelError, with the kernel's *name*, for another object."""
    sizes = tuple(grid) if isinstance(grid, (tuple, list)) else (grid,)
    try:
        found = tuple(operator.index(getattr(each, "value", each)) for each in sizes)
    except TypeError:
        found = ()
    if not 1 <= len(found) <= 3 or min(found) < 0:
        raise KernelError(f"launch of {name}", f"a grid of {grid!r}", "one to three integers of 0 or more")
    return found


def jit(fn: Any = None, *, do_not_specialize: Any = None, **options: Any) -> Any:
    """Decorates kernels, and functions that kernels call.

    *do_not_specialize*, names or numbers of parameters, appears in `params`, where libraries read it. Blocks as
    arguments of a function with *noinline* are refused, as Triton refuses them. All other options do nothing.
    """
    if fn is None:
        return lambda function: JITFunction(function, do_not_specialize, options.get("noinline"))
    return JITFunction(fn, do_not_specialize, options.get("noinline"))
