"""JITFunction: a kernel, or a function that kernels call. Its source runs as it stands."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import update_wrapper
from typing import Any

from kb_messages import KernelError
from kb_triton.host import current
from kb_triton.jit.arguments import as_argument
from kb_triton.jit.namespace import runnable
from kb_triton.language import Machine, constexpr
from kb_triton.language import program as programs

OPTIONS = frozenset(
    (
        "num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion", "launch_cooperative_grid", "launch_pdl",
        "waves_per_eu", "matrix_instr_nonkdim", "kpack", "allow_fp8e4nv", "grid", "warmup", "debug", "stream",
    )
)  # fmt: skip
"""Named arguments of a launch that are no arguments of the kernel. They do nothing."""


class JITFunction:
    """The function *fn*, which `@jit` decorates. `f[grid](...)` launches it, and kernels call it."""

    def __init__(self, fn: Callable[..., Any], do_not_specialize: Any = None, noinline: Any = None) -> None:
        self.fn = fn
        self.signature = inspect.signature(fn)
        self.arg_names = list(self.signature.parameters)
        self.params = list(self.signature.parameters.values())
        self.constexprs = [at for at, each in enumerate(self.params) if _is_constexpr(each)]
        self._constants = frozenset(self.arg_names[at] for at in self.constexprs)
        self.module = fn.__module__
        self.__name__ = fn.__name__
        update_wrapper(self, fn)

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return lambda *arguments, **named: self.run(*arguments, grid=grid, **named)

    def run(self, *arguments: Any, grid: Any, warmup: bool = False, **named: Any) -> None:
        """Launch the kernel over *grid*, a tuple or a function of the arguments."""
        kept = {
            name: value for name, value in named.items() if name in self.signature.parameters or name not in OPTIONS
        }
        bound = self.bound(arguments, kept)
        if warmup:
            return
        sizes = grid(bound) if callable(grid) else grid
        sizes = tuple(int(each) for each in sizes) if isinstance(sizes, (tuple, list)) else (int(sizes),)
        if 0 not in sizes:
            current().launch(self, sizes, bound)

    def bound(self, arguments: Any, named: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by name, with defaults."""
        try:
            found = self.signature.bind(*arguments, **named)
        except TypeError as error:
            raise KernelError(f"launch of {self.__name__}", str(error), f"{self.__name__}{self.signature}") from None
        found.apply_defaults()
        return dict(found.arguments)

    def entry(self, arguments: Mapping[str, Any]) -> Callable[[Machine], None]:
        """The function that a program calls with its machine. *arguments* has pointers in place of arrays."""
        function = runnable(self.fn)

        def program(machine: Machine) -> None:
            programs.enter(machine)
            values = {name: as_argument(each, name in self._constants) for name, each in arguments.items()}
            function(**values)

        return program

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function from a kernel."""
        if not programs.is_running():
            raise RuntimeError("Cannot call @triton.jit'd outside of the scope of a kernel")
        return runnable(self.fn)(*arguments, **named)

    def __repr__(self) -> str:
        return f"JITFunction({self.module}:{self.fn.__qualname__})"


def _is_constexpr(parameter: inspect.Parameter) -> bool:
    annotation = parameter.annotation
    if annotation is constexpr:
        return True
    return isinstance(annotation, str) and annotation.replace(" ", "").rpartition(".")[2] == "constexpr"


def jit(fn: Any = None, **options: Any) -> Any:
    """A decorator for kernels, and for functions that kernels call. The options do nothing."""
    if fn is None:
        return JITFunction
    return JITFunction(fn)
