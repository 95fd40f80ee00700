"""KernelEntry: what each program of a launch runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from kb_engine.template import is_pure, is_without_code
from kb_triton.jit.arguments import as_argument
from kb_triton.language import Machine, Pointer, dtype
from kb_triton.language import program as programs

_OWN = ("kb_triton", "triton")


class KernelEntry:
    """*function*, a copy of the author's *fn* that runs, with *arguments*. *constants* names those of `tl.constexpr`.

    *inner* gives the function that an object which kernels call, such as a `JITFunction`, stands for, and None for
    anything else.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        function: Callable[..., Any],
        arguments: Mapping[str, Any],
        constants: frozenset[str],
        inner: Callable[[object], Any],
    ) -> None:
        self.__name__ = getattr(fn, "__name__", "kernel")
        self._fn = fn
        self._function = function
        self._arguments = arguments
        self._constants = constants
        self._inner = inner

    def __call__(self, machine: Machine) -> None:
        """Run the program of *machine*."""
        with programs.running_on(machine):
            self._function(**self._values())

    def _values(self) -> dict[str, Any]:
        """The arguments as the kernel sees them."""
        return {name: as_argument(each, name in self._constants) for name, each in self._arguments.items()}

    def is_repeatable(self) -> bool:
        """Whether programs of the launch differ by their number alone, as `kb_engine.template.MadeKernel` says."""
        if not isinstance(self._fn, FunctionType):
            return False
        if not all(self._is_fixed(each, name in self._constants) for name, each in self._arguments.items()):
            return False
        return is_pure(self._fn, self._unfold)

    def _is_fixed(self, value: object, is_constant: bool) -> bool:
        """Whether nothing can change the argument *value*. Kernels see a list as a tuple, unless it *is_constant*."""
        if isinstance(value, (Pointer, dtype)):
            return True
        if isinstance(value, tuple) or (isinstance(value, list) and not is_constant):
            return is_without_code(type(value)) and all(self._is_fixed(each, is_constant) for each in value)
        if value is None or isinstance(value, (int, float, str, np.generic)):
            return is_without_code(type(value))
        functions = self._unfold(value)
        return functions is not None and all(is_pure(each, self._unfold) for each in functions)

    def _unfold(self, value: object) -> Iterable[FunctionType] | None:
        """The functions that *value* stands for; None for what is not known to be harmless."""
        if isinstance(value, dtype) or _is_own(value):
            return ()
        inner = self._inner(value)
        return (inner,) if isinstance(inner, FunctionType) else None


def _is_own(value: object) -> bool:
    """Whether *value* is a module, a class or a function of Triton's names."""
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return isinstance(value, (ModuleType, type)) and isinstance(name, str) and name.partition(".")[0] in _OWN
